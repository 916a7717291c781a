#include "cipher.hpp"

#include <algorithm>

namespace hill {

Cipher::Cipher(std::span<const Matrix> keys, Direction direction) : direction_(direction) {
  for (const Matrix& key : keys) {
    rounds_.push_back({with_invertible_corners(key), multiplier(key), {}});
  }
  if (direction == Direction::kDecrypt) std::ranges::reverse(rounds_);
}

// Piece by piece through all rounds, so that the text stays in the first-level cache meanwhile.
void Cipher::transform(std::span<std::byte> text) {
  while (!text.empty()) {
    const std::span<std::byte> piece = text.first(std::min(kPieceBytes, text.size()));
    for (Round& round : rounds_) transform_piece(round, piece);
    text = text.subspan(piece.size());
  }
}

void Cipher::transform_piece(Round& round, std::span<std::byte> piece) {
  const size_t tail_bytes = piece.size() % round.block.size();
  round.block.apply(piece.first(piece.size() - tail_bytes));
  if (tail_bytes) tail(round, tail_bytes).apply(piece.last(tail_bytes));
}

// A file has at most two tails: that of a whole piece and that of its last one.
const Multiplier& Cipher::tail(Round& round, size_t size) {
  auto found = round.tails.find(size);
  if (found == round.tails.end()) {
    found = round.tails.emplace(size, multiplier(round.key.corner(size))).first;
  }
  return found->second;
}

Multiplier Cipher::multiplier(const Matrix& key) const {
  return Multiplier(direction_ == Direction::kEncrypt ? key : inverse(key));
}

}  // namespace hill

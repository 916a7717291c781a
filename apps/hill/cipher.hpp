#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "key.hpp"
#include "multiply.hpp"

namespace hill {

/// The text is enciphered in pieces of this size, each for itself, so that a file's ciphertext
/// does not depend on the chunks in which it is read. Every chunk but the last is a multiple.
inline constexpr size_t kPieceBytes = size_t{64} << 10;

/// A Hill cipher modulo 256 with keys of k x k: the text is cut into blocks of k bytes, and each
/// block, as a column vector, is multiplied by the key.
///
/// A piece that is no multiple of k leaves a tail of r < k bytes, which is enciphered with the
/// first r rows and columns of the key, its rows in the order of `with_invertible_corners`. So
/// every length keeps its length and every invertible key serves.
///
/// With several keys the text is enciphered with one after another: rounds, which multiply the
/// work and nothing else. (The product of the keys would do as one key: the cipher is linear, and
/// is here for its work, not for secrecy.)
///
/// Used by one thread.
class Cipher {
 public:
  enum class Direction { kEncrypt, kDecrypt };

  /// `keys` are those of encryption in their order, all of one size; throws KeyError if one has
  /// no inverse, in either direction.
  Cipher(std::span<const Matrix> keys, Direction direction);

  /// Transforms `text` in place. It must begin at a multiple of kPieceBytes of the file and be a
  /// multiple of it itself, unless it ends the file.
  void transform(std::span<std::byte> text);

 private:
  struct Round {
    Matrix key;        // of encryption
    Multiplier block;  // for whole blocks, in the direction of the cipher
    std::map<size_t, Multiplier> tails;
  };

  void transform_piece(Round& round, std::span<std::byte> piece);
  const Multiplier& tail(Round& round, size_t size);
  [[nodiscard]] Multiplier multiplier(const Matrix& key) const;

  Direction direction_;
  std::vector<Round> rounds_;  // in the order in which they are applied
};

}  // namespace hill

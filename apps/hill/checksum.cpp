#include "checksum.hpp"

#include <cstring>

namespace hill {

// The products of all words come without a multiplication each: the running sum, summed up, has the
// first word as often as there are words, and the last one once.
void Checksum::add(std::span<const std::byte> text, uint64_t offset) {
  constexpr size_t kWord = sizeof(uint64_t);
  uint64_t sum = 0;
  uint64_t sum_of_sums = 0;
  uint64_t word = 0;
  for (size_t at = 0; at + kWord <= text.size(); at += kWord) {
    std::memcpy(&word, text.data() + at, kWord);
    sum += word;
    sum_of_sums += sum;
  }
  const size_t rest = text.size() % kWord;
  if (rest != 0) {
    word = 0;
    std::memcpy(&word, text.data() + text.size() - rest, rest);
    sum += word;
    sum_of_sums += sum;
  }
  const uint64_t words = (text.size() + kWord - 1) / kWord;
  value_ += 2 * ((offset / kWord + words) * sum - sum_of_sums) + sum;
}

}  // namespace hill

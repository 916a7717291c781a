#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hill {

/// The sum over the 64-bit words of a text, modulo 2^64. Word i of the file counts 2i + 1 times: an
/// odd number, so that no change of a word is lost. It tells texts apart, also by the order of
/// their parts, and costs little beside the cipher. Sums of the parts of a file add up to that of
/// the file, however it was cut.
class Checksum {
 public:
  /// `offset` is that of the text in the file, a multiple of 8. A last word that is not whole is
  /// filled up with zeros: only the end of a file may have one.
  void add(std::span<const std::byte> text, uint64_t offset);

  [[nodiscard]] uint64_t value() const noexcept { return value_; }

 private:
  uint64_t value_ = 0;
};

}  // namespace hill

#pragma once

#include <cstdint>

namespace ioweave {

/// Writes a number in decimal, at most 20 digits, and a final '\0'. Returns the address of the
/// '\0'. For signal handlers, where stdio is not allowed.
inline char* append_number(char* at, uint64_t number) noexcept {
  char digits[20];
  int count = 0;
  do {
    digits[count++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  while (count > 0) {
    *at++ = digits[--count];
  }
  *at = '\0';
  return at;
}

}  // namespace ioweave

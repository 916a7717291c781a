#include "base/assert.hpp"

#include <cstdlib>
#include <cstring>

#include <unistd.h>

namespace ioweave {

void assertion_failed(const char* condition, const char* file, int line) noexcept {
  // write(2) only: the process may hold the malloc or stdio lock.
  char text[512];
  char* end = text;
  const auto append = [&](const char* part) {
    const size_t room = static_cast<size_t>(text + sizeof text - end);
    const size_t length = strnlen(part, room);
    std::memcpy(end, part, length);
    end += length;
  };
  char digits[12] = {};
  char* digit = digits + sizeof digits - 1;
  for (int rest = line; rest > 0 && digit > digits; rest /= 10) {
    *--digit = static_cast<char>('0' + rest % 10);
  }
  append("ioweave: assertion failed: ");
  append(condition);
  append(" at ");
  append(file);
  append(":");
  append(digit);
  append("\n");
  [[maybe_unused]] const auto ignored = ::write(2, text, static_cast<size_t>(end - text));
  std::abort();
}

}  // namespace ioweave

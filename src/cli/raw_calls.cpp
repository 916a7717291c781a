#include "cli/raw_calls.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>

#include <sys/syscall.h>

#include "cli/elf_file.hpp"

namespace ioweave::cli {
namespace {

struct Call {
  uint32_t number;
  const char* name;
};

constexpr std::array kCalls{Call{SYS_read, "read"},
                            Call{SYS_write, "write"},
                            Call{SYS_readv, "readv"},
                            Call{SYS_writev, "writev"},
                            Call{SYS_pread64, "pread64"},
                            Call{SYS_pwrite64, "pwrite64"},
                            Call{SYS_preadv, "preadv"},
                            Call{SYS_pwritev, "pwritev"},
                            Call{SYS_preadv2, "preadv2"},
                            Call{SYS_pwritev2, "pwritev2"},
                            Call{SYS_sendfile, "sendfile"},
                            Call{SYS_splice, "splice"},
                            Call{SYS_vmsplice, "vmsplice"},
                            Call{SYS_copy_file_range, "copy_file_range"},
                            Call{SYS_fsync, "fsync"},
                            Call{SYS_fdatasync, "fdatasync"},
                            Call{SYS_sync_file_range, "sync_file_range"},
                            Call{SYS_io_submit, "io_submit"},
                            Call{SYS_io_uring_enter, "io_uring_enter"}};

/// How far before the call its number is looked for: some arguments are set in between.
constexpr size_t kWindow = 32;

#if defined(__x86_64__)

constexpr std::string_view kSystemCall{"\x0f\x05", 2};

/// Returns the constant that the instruction which ends at `end` puts into eax, if it does.
std::optional<uint32_t> constant_before(std::string_view code, size_t end) {
  const std::string_view before = code.substr(0, end);
  if (before.ends_with(std::string_view("\x31\xc0", 2))) return 0;  // xor eax, eax
  uint32_t number = 0;
  constexpr size_t kMove = 1 + sizeof number;  // mov eax, constant
  if (end < kMove || before[end - kMove] != '\xb8') return {};
  std::memcpy(&number, before.data() + end - sizeof number, sizeof number);
  return number;
}

/// Returns true where what follows compares the result with an error number, as wrappers of system
/// calls do. The two bytes of the call alone are also found where they are something else.
bool looks_at_errors(std::string_view code, size_t at) {
  const std::string_view next = code.substr(at, 6);  // cmp rax, -4096 or -4095
  return next.size() == 6 && next.starts_with("\x48\x3d") &&
         next.ends_with(std::string_view("\xf0\xff\xff", 3));
}

std::set<uint32_t> numbers_in(std::string_view code) {
  std::set<uint32_t> numbers;
  for (size_t at = code.find(kSystemCall); at != std::string_view::npos;
       at = code.find(kSystemCall, at + 1)) {
    const size_t window = looks_at_errors(code, at + kSystemCall.size()) ? kWindow : 0;
    for (size_t end = at; end > 0 && at - end <= window; --end) {
      const std::optional<uint32_t> number = constant_before(code, end);
      if (!number) continue;
      numbers.insert(*number);
      break;
    }
  }
  return numbers;
}

#elif defined(__aarch64__)

std::set<uint32_t> numbers_in(std::string_view code) {
  constexpr uint32_t kSystemCall = 0xd4000001;  // svc 0
  // movz w8, constant (or x8, which is bit 31), whose constant is in bits 5 to 20
  constexpr uint32_t kMove = 0x52800008;
  constexpr uint32_t kMoveMask = 0x7fe0001f;
  const auto word_at = [&](size_t at) {
    uint32_t word = 0;
    std::memcpy(&word, code.data() + at, sizeof word);
    return word;
  };
  std::set<uint32_t> numbers;
  for (size_t at = 0; at + sizeof kSystemCall <= code.size(); at += sizeof kSystemCall) {
    if (word_at(at) != kSystemCall) continue;
    for (size_t back = sizeof kMove; back <= std::min(kWindow, at); back += sizeof kMove) {
      const uint32_t word = word_at(at - back);
      if ((word & kMoveMask) != kMove) continue;
      numbers.insert((word >> 5) & 0xffff);
      break;
    }
  }
  return numbers;
}

#else

std::set<uint32_t> numbers_in(std::string_view /*code*/) {
  return {};
}

#endif

}  // namespace

std::vector<std::string> find_raw_calls(std::string_view code) {
  const std::set<uint32_t> numbers = numbers_in(code);
  std::vector<std::string> names;
  for (const Call& call : kCalls) {
    if (numbers.contains(call.number)) names.emplace_back(call.name);
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> raw_calls_of(const std::string& path) {
  std::set<std::string> names;
  for (const std::string& code : read_elf_code(path)) {
    for (std::string& name : find_raw_calls(code)) names.insert(std::move(name));
  }
  return {names.begin(), names.end()};
}

}  // namespace ioweave::cli

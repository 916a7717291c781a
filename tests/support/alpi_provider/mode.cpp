#include "mode.hpp"

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace alpi_test {
namespace {

struct Word {
  std::string_view text;
  uint32_t bits;
};

constexpr std::array kWords{
    Word{"late_unblock", kLateUnblock},
    Word{"immediate_unblock", kImmediateUnblock},
    Word{"relaxed", kRelaxedUnblock | kRelaxedDecrease},
    Word{"relaxed_unblock", kRelaxedUnblock},
    Word{"relaxed_decrease", kRelaxedDecrease},
    Word{"assert_double_unblock", 0},
    Word{"count_misuse", kCountMisuse},
    Word{"refuse_foreign_decrease", kRefuseForeignDecrease},
    Word{"refuse_foreign_unblock", kRefuseForeignUnblock},
    Word{"no_blocking", kNoBlocking},
    Word{"no_events", kNoEvents},
    Word{"spawn_fails", kSpawnFails},
    Word{"block_fails", kBlockFails},
    Word{"increase_fails", kIncreaseFails},
    Word{"count_unblocks", kCountUnblocks},
    Word{"parallel_unseen", kParallelUnseen},
    Word{"yields", kYields},
};

uint32_t bits_of(std::string_view word) {
  std::string known;
  for (const Word& candidate : kWords) {
    if (candidate.text == word) {
      return candidate.bits;
    }
    known.append(known.empty() ? "" : ", ").append(candidate.text);
  }
  die("unknown mode \"%.*s\"; the modes are %s", static_cast<int>(word.size()), word.data(),
      known.c_str());
}

uint32_t parse(const char* words) {
  uint32_t bits = 0;
  std::string_view rest = words == nullptr ? "" : words;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    bits |= bits_of(rest.substr(0, comma));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return bits;
}

// Parsed when the library is loaded, so that a wrong word in the environment is seen at once.
std::atomic<uint32_t> modes{parse(std::getenv("ALPI_TEST_MODE"))};

}  // namespace

bool has(Mode mode) noexcept {
  return (modes.load(std::memory_order_relaxed) & mode) != 0;
}

void set_modes(const char* words) noexcept {
  modes.store(parse(words), std::memory_order_relaxed);
}

void die(const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  std::fputs("alpi_test: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::abort();
}

}  // namespace alpi_test

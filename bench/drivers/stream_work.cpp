#include "stream_work.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/clock.hpp"

namespace ioweave::bench {
namespace {

using Words = std::array<uint64_t, StreamWork::kBlockBytes / sizeof(uint64_t)>;

uint64_t word_of(uint64_t number, uint64_t index) {
  return (number + 1) * 0x9e3779b97f4a7c15ULL ^ (index + 1) * 0xbf58476d1ce4e5b9ULL;
}

void write_content(Words& words, uint64_t number, uint64_t first) {
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = word_of(number, first + i);
  }
}

/// One round of xorshift on each word.
void work_on(Words& words) {
  for (uint64_t& word : words) {
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
  }
}

/// Keeps the compiler from leaving out work whose result nobody wants.
void use(const Words& words) {
  uint64_t sum = 0;
  for (const uint64_t word : words) {
    sum ^= word;
  }
  asm volatile("" : : "r"(sum));
}

/// The quickest of some runs: what disturbs a run only makes it longer.
double least_seconds(const StreamWork& work, std::span<std::byte> item) {
  constexpr int kRuns = 5;
  uint64_t least_ns = std::numeric_limits<uint64_t>::max();
  for (uint64_t run = 0; run < kRuns; ++run) {
    const uint64_t before_ns = now_ns();
    work.compute(item, run);
    least_ns = std::min(least_ns, now_ns() - before_ns);
  }
  return static_cast<double>(least_ns) / 1e9;
}

}  // namespace

uint64_t StreamWork::rounds_for(double seconds, std::span<std::byte> item) {
  const uint64_t trial_rounds = item.size() / kBlockBytes * 8;
  const auto trial = static_cast<double>(trial_rounds);
  const double none_s = least_seconds(StreamWork(0), item);
  const double trial_s = least_seconds(StreamWork(trial_rounds), item);
  const double round_s = (trial_s - none_s) / trial;
  return seconds <= none_s || round_s <= 0 ? 0
                                           : static_cast<uint64_t>((seconds - none_s) / round_s);
}

void StreamWork::compute(std::span<std::byte> item, uint64_t number) const {
  const uint64_t blocks = item.size() / kBlockBytes;
  for (uint64_t block = 0; block < blocks; ++block) {
    const uint64_t first = block * (kBlockBytes / sizeof(uint64_t));
    // In the buffer itself, as a program that computes its result in place.
    auto& words = *reinterpret_cast<Words*>(item.data() + block * kBlockBytes);
    write_content(words, number, first);
    const uint64_t rounds = rounds_ * (block + 1) / blocks - rounds_ * block / blocks;
    if (rounds > 0) {
      for (uint64_t round = 0; round < rounds; ++round) {
        work_on(words);
      }
      use(words);
      write_content(words, number, first);
    }
  }
}

bool StreamWork::is_content(std::span<const std::byte> bytes, uint64_t number, uint64_t offset) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    if (word != word_of(number, (offset + at) / sizeof(uint64_t))) {
      return false;
    }
  }
  return true;
}

}  // namespace ioweave::bench

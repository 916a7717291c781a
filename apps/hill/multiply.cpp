// How it works: 32 elements of the product are computed at once, in 16-bit lanes, of which the low
// byte is exact whatever happens above it (x86 cannot multiply bytes; 16 bits is the narrowest).
// For each column of the matrix, one load brings the 32 elements of a strip, and four blocks of
// text, each with one element of its own in all lanes, take their multiple of it. An element is
// kept twice in a 32-bit word, for broadcasting 32 bits is a load and nothing else, where 16 bits
// would cost a shuffle.
//
// The kernel is written with the vector extensions of GCC and Clang, in terms of 64 bytes that each
// target cuts into its own registers, and is compiled once for each instruction set.
#include "multiply.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace hill {
namespace {

constexpr size_t kLanes = 32;
constexpr size_t kBlocks = 4;

using Lanes [[gnu::vector_size(kLanes * sizeof(uint16_t))]] = uint16_t;
using Pairs [[gnu::vector_size(kLanes * sizeof(uint16_t))]] = uint32_t;
using Bytes [[gnu::vector_size(kLanes)]] = uint8_t;

using Text = std::array<uint32_t, kBlocks * kMaxKeySize>;

[[gnu::always_inline]] inline void widen(const std::byte* text, size_t bytes, Text& words) {
  for (size_t i = 0; i < bytes; ++i) words[i] = std::to_integer<uint32_t>(text[i]) * 0x10001u;
}

/// Writes the low bytes of the first `count` lanes.
[[gnu::always_inline]] inline void narrow(const Lanes& lanes, std::byte* text, size_t count) {
  const Bytes low = __builtin_convertvector(lanes, Bytes);
  if (count == kLanes) {
    std::memcpy(text, &low, kLanes);
  } else {
    std::memcpy(text, &low, count);
  }
}

/// One strip of the products of up to four blocks: blocks beyond `blocks` are computed from
/// whatever `words` holds and not written.
[[gnu::always_inline]] inline void multiply_strip(const uint16_t* strip, size_t size,
                                                  const Text& words, std::byte* text, size_t blocks,
                                                  size_t rows) {
  Lanes sums[kBlocks] = {};
  for (size_t column = 0; column < size; ++column) {
    Lanes factors;
    std::memcpy(&factors, strip + column * kLanes, sizeof factors);
    for (size_t b = 0; b < kBlocks; ++b) {
      const Pairs element = Pairs{} + words[b * size + column];
      sums[b] += factors * reinterpret_cast<Lanes>(element);
    }
  }
  for (size_t b = 0; b < blocks; ++b) narrow(sums[b], text + b * size, rows);
}

[[gnu::always_inline]] inline void multiply(const uint16_t* strips, size_t size, std::byte* text,
                                            size_t bytes) {
  Text words;
  std::fill_n(words.begin(), kBlocks * size, 0u);
  for (std::byte* const end = text + bytes; text != end;) {
    const size_t blocks = std::min(kBlocks, static_cast<size_t>(end - text) / size);
    widen(text, blocks * size, words);
    for (size_t row = 0; row < size; row += kLanes) {
      multiply_strip(strips + row * size, size, words, text + row, blocks,
                     std::min(kLanes, size - row));
    }
    text += blocks * size;
  }
}

void multiply_portable(const uint16_t* strips, size_t size, std::byte* text, size_t bytes) {
  multiply(strips, size, text, bytes);
}

#if defined(__x86_64__)
constexpr std::string_view kPortable = "sse2";

[[gnu::target("avx2,bmi2")]] void multiply_avx2(const uint16_t* strips, size_t size,
                                                std::byte* text, size_t bytes) {
  multiply(strips, size, text, bytes);
}

[[gnu::target("avx512f,avx512bw,avx512vl,bmi2")]] void multiply_avx512(const uint16_t* strips,
                                                                       size_t size, std::byte* text,
                                                                       size_t bytes) {
  multiply(strips, size, text, bytes);
}

std::vector<std::string_view> find_available() {
  std::vector<std::string_view> found;
  const bool bmi2 = __builtin_cpu_supports("bmi2");
  if (bmi2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    found.push_back("avx512");
  }
  if (bmi2 && __builtin_cpu_supports("avx2")) found.push_back("avx2");
  found.push_back(kPortable);
  return found;
}

auto kernel_of(std::string_view instructions) {
  if (instructions == "avx512") return multiply_avx512;
  return instructions == "avx2" ? multiply_avx2 : multiply_portable;
}
#else
#if defined(__aarch64__)
constexpr std::string_view kPortable = "neon";
#else
constexpr std::string_view kPortable = "portable";
#endif

std::vector<std::string_view> find_available() {
  return {kPortable};
}

auto kernel_of(std::string_view) {
  return multiply_portable;
}
#endif

}  // namespace

std::span<const std::string_view> Multiplier::available() {
  static const std::vector<std::string_view> found = find_available();
  return found;
}

// A small matrix is repeated along the diagonal until it fills the lanes: several blocks are one.
Multiplier::Multiplier(const Matrix& matrix, std::string_view instructions)
    : size_(matrix.size()),
      step_(size_ * std::max<size_t>(1, kLanes / size_)),
      strips_((step_ + kLanes - 1) / kLanes * kLanes * step_),
      kernel_(kernel_of(instructions)) {
  for (size_t row = 0; row < step_; ++row) {
    uint16_t* const strip = strips_.data() + row / kLanes * kLanes * step_;
    const size_t first_column = row / size_ * size_;
    for (size_t column = 0; column < size_; ++column) {
      strip[(first_column + column) * kLanes + row % kLanes] = matrix.at(row % size_, column);
    }
  }
}

// What remains of a repeated matrix is one repeated less often. It lies in a single strip, whose
// first columns are just that.
void Multiplier::apply(std::span<std::byte> text) const {
  const size_t rest = text.size() % step_;
  const size_t whole = text.size() - rest;
  kernel_(strips_.data(), step_, text.data(), whole);
  if (rest) kernel_(strips_.data(), rest, text.data() + whole, rest);
}

}  // namespace hill

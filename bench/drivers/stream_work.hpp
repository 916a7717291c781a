#pragma once

// What bench_streams computes: items whose every byte depends on the number of the item, with as
// much work on each block, in the processor's nearest cache, as the wanted time asks for.

#include <cstddef>
#include <cstdint>
#include <span>

namespace ioweave::bench {

class StreamWork {
 public:
  /// Sizes of items are multiples of this.
  static constexpr size_t kBlockBytes = 4096;

  /// `rounds` are those over blocks that an item takes, all its blocks together.
  explicit StreamWork(uint64_t rounds) : rounds_(rounds) {}

  /// The rounds by which an item of that size takes so long, in memory that was touched before;
  /// none if it takes longer without any.
  [[nodiscard]] static uint64_t rounds_for(double seconds, std::span<std::byte> item);

  /// Computes an item. The content does not depend on the rounds.
  void compute(std::span<std::byte> item, uint64_t number) const;

  /// Whether these are the bytes of the item from `offset` on, which is a multiple of 8.
  [[nodiscard]] static bool is_content(std::span<const std::byte> bytes, uint64_t number,
                                       uint64_t offset);

 private:
  uint64_t rounds_;
};

}  // namespace ioweave::bench

#include "tasks.hpp"

#include <new>

namespace alpi_test {

Task* TaskTable::take() {
  if (free_.empty() && !grow()) {
    return nullptr;
  }
  Task* task = free_.pop();
  uint32_t generation = generation_of(task->block.load(std::memory_order_relaxed)) + 1;
  generation += generation == 0 ? 1 : 0;
  task->block.store(word_of(generation, kAwake), std::memory_order_relaxed);
  task->events.store(word_of(generation, kBodyRuns), std::memory_order_relaxed);
  task->thread = nullptr;
  return task;
}

Task* TaskTable::find(Handle handle) const noexcept {
  const uint32_t index = low_of(handle);
  if (index >= kChunk * kChunks) {
    return nullptr;
  }
  Task* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);  // pairs with grow()
  return chunk == nullptr ? nullptr : &chunk[index % kChunk];
}

bool TaskTable::grow() {
  Task* chunk = chunks_used_ < kChunks ? new (std::nothrow) Task[kChunk] : nullptr;
  if (chunk == nullptr) {
    return false;
  }
  for (uint32_t i = 0; i < kChunk; ++i) {
    chunk[i].index = chunks_used_ * kChunk + i;
    free_.push(chunk[i]);
  }
  chunks_[chunks_used_++].store(chunk, std::memory_order_release);
  return true;
}

}  // namespace alpi_test

#pragma once

// Memory that is out, on one thread, when a test says so. For one source file of a program: it
// replaces operator new of the whole program.

#include <cstdlib>
#include <new>

namespace ioweave::test {

inline thread_local constinit bool memory_is_out = false;

/// While it lives, this thread gets no memory from operator new.
class MemoryOut {
 public:
  MemoryOut() noexcept { memory_is_out = true; }
  ~MemoryOut() { memory_is_out = false; }
  MemoryOut(const MemoryOut&) = delete;
  MemoryOut& operator=(const MemoryOut&) = delete;
};

}  // namespace ioweave::test

// Not to be inlined: g++ would see malloc(3) and operator delete meet, and warn.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (ioweave::test::memory_is_out) {
    throw std::bad_alloc();
  }
  if (void* const memory = std::malloc(bytes); memory != nullptr) {
    return memory;
  }
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}

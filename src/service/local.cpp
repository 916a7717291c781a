#include "service/local.hpp"

#include <array>
#include <new>
#include <thread>
#include <vector>

#include <pthread.h>

namespace ioweave::service {

constinit std::atomic<uint32_t> detail::fork_generation{0};

namespace {

// ---- Services of this process

/// A fixed table with atomics instead of a lock: the fork handler walks it, and a lock might be
/// held by a thread that does not exist in the child.
struct HostSlot {
  std::atomic<LaneHost*> host{nullptr};
  std::atomic<uint64_t> id{0};
  std::atomic<uint32_t> visitors{0};  ///< threads at their end inside host->end_thread()
};
constexpr size_t kMaxHosts = 256;
std::array<HostSlot, kMaxHosts> hosts;
std::atomic<uint64_t> next_id{1};

void abandon_in_child() noexcept {
  detail::fork_generation.fetch_add(1, std::memory_order_relaxed);
  for (HostSlot& slot : hosts) {
    if (LaneHost* host = slot.host.load(std::memory_order_acquire); host != nullptr) {
      host->abandon();
    }
    slot.visitors.store(0, std::memory_order_relaxed);  // threads of the parent
  }
}

HostSlot* find_slot(uint64_t id) noexcept {
  for (HostSlot& slot : hosts) {
    if (slot.id.load(std::memory_order_acquire) == id) {
      return &slot;
    }
  }
  return nullptr;
}

/// Calls host->end_thread() unless the service is gone.
void end_thread_in(uint64_t host_id, Lane& lane) noexcept {
  HostSlot* const slot = find_slot(host_id);
  if (slot == nullptr) {
    return;
  }
  const uint32_t generation = fork_generation();
  // seq_cst against unregister_host(): either it waits for this visitor, or we see it gone.
  slot->visitors.fetch_add(1, std::memory_order_seq_cst);
  LaneHost* const host = slot->host.load(std::memory_order_seq_cst);
  if (host != nullptr && slot->id.load(std::memory_order_seq_cst) == host_id) {
    host->end_thread(lane);
  }
  if (generation == fork_generation()) {  // or this is a child forked by a callback in there
    slot->visitors.fetch_sub(1, std::memory_order_release);
  }
}

// ---- Lanes of this thread

struct Binding {
  uint64_t host_id;
  Lane* lane;
};

/// Constructed when a thread first binds a lane; its destructor is the hook for the thread's end.
struct ThreadBindings {
  std::vector<Binding> all;
  uint32_t generation = fork_generation();

  ThreadBindings() = default;
  ThreadBindings(const ThreadBindings&) = delete;
  ThreadBindings& operator=(const ThreadBindings&) = delete;
  ~ThreadBindings();
};

thread_local ThreadBindings bindings;
// Trivial, so that the common look-up costs no construction guard; and in the part of thread-local
// memory that is reached without a call, of which the loader keeps a reserve for small things.
[[gnu::tls_model("initial-exec")]] thread_local constinit Binding last_used{0, nullptr};
thread_local constinit bool thread_ended = false;

ThreadBindings::~ThreadBindings() {
  last_used = {0, nullptr};
  thread_ended = true;  // destructors that run after this one may still submit
  if (generation != fork_generation()) {
    return;  // a forked child: the lanes are the parent's
  }
  for (const Binding& binding : all) {
    end_thread_in(binding.host_id, *binding.lane);
  }
}

}  // namespace

uint64_t register_host(LaneHost& host) noexcept {
  static const int installed = pthread_atfork(nullptr, nullptr, &abandon_in_child);
  if (installed != 0) {
    return 0;
  }
  for (HostSlot& slot : hosts) {
    LaneHost* expected = nullptr;
    if (slot.host.compare_exchange_strong(expected, &host, std::memory_order_acq_rel)) {
      const uint64_t id = next_id.fetch_add(1, std::memory_order_relaxed);
      slot.id.store(id, std::memory_order_release);
      return id;
    }
  }
  return 0;
}

void unregister_host(LaneHost& host) noexcept {
  for (HostSlot& slot : hosts) {
    if (slot.host.load(std::memory_order_acquire) != &host) {
      continue;
    }
    slot.id.store(0, std::memory_order_seq_cst);
    while (slot.visitors.load(std::memory_order_seq_cst) != 0) {
      std::this_thread::yield();
    }
    slot.host.store(nullptr, std::memory_order_seq_cst);
    return;
  }
}

Lane* local_lane(uint64_t host_id) noexcept {
  if (last_used.host_id == host_id) {
    return last_used.lane;
  }
  if (last_used.host_id == 0) {
    return nullptr;  // this thread never bound one (or is ending): do not construct the bindings
  }
  for (const Binding& binding : bindings.all) {
    if (binding.host_id == host_id) {
      last_used = binding;
      return binding.lane;
    }
  }
  return nullptr;
}

bool bind_local_lane(uint64_t host_id, Lane& lane) noexcept {
  if (thread_ended) {
    return false;
  }
  if (bindings.generation != fork_generation()) {
    bindings.all.clear();  // a forked child: those lanes are the parent's
    bindings.generation = fork_generation();
  }
  try {
    std::erase_if(bindings.all,
                  [](const Binding& binding) { return find_slot(binding.host_id) == nullptr; });
    bindings.all.push_back({host_id, &lane});
  } catch (const std::bad_alloc&) {
    return false;
  }
  last_used = bindings.all.back();
  return true;
}

}  // namespace ioweave::service

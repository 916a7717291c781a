#include "service/admissions.hpp"

#include <cerrno>
#include <new>
#include <utility>

#include <sched.h>

#include "service/driving_here.hpp"
#include "service/service.hpp"
#include "service/wait.hpp"

namespace ioweave::service {

bool Admissions::ask(uint32_t flow, uint64_t bytes, Admitted admitted, void* user,
                     int64_t& number) noexcept {
  std::shared_ptr<Operation> asked;
  try {
    asked = std::make_shared<Operation>();
    const std::lock_guard guard(lock_);
    if (closing_.load(std::memory_order_relaxed)) {
      number = -ECANCELED;
      return true;
    }
    asked->number = next_++;
    // First: it may be admitted, and end, before admit() ends.
    operations_.emplace(asked->number, asked);
  } catch (const std::bad_alloc&) {
    number = -ENOMEM;
    return true;
  }
  number = asked->number;  // `number` may be gone once somebody is told
  asked->admitted = admitted;
  asked->user = user;
  bool may_start = false;
  try {
    may_start = gate_.admit({*this, asked.get(), flow, bytes}, asked->id);
  } catch (const std::bad_alloc&) {
    const std::lock_guard guard(lock_);
    operations_.erase(asked->number);
    number = -ENOMEM;
    return true;
  }
  if (may_start) {
    asked->is_admitted.store(true, std::memory_order_relaxed);
  }
  return may_start;
}

/// The gate lets it go. The operation may end, and be gone, as soon as somebody is told.
void Admissions::start(void* operation) noexcept {
  auto& asked = *static_cast<Operation*>(operation);
  const int64_t number = asked.number;
  const Admitted admitted = asked.admitted;
  void* const user = asked.user;
  asked.is_admitted.store(true, std::memory_order_release);  // pairs with finish() and close()
  if (!closing_.load(std::memory_order_relaxed) && born_ == fork_generation()) {
    const DrivingHere here;  // in whatever task: calls there must not pause it
    admitted(number, user);
  }
}

std::shared_ptr<Admissions::Operation> Admissions::find(int64_t number) const {
  const std::lock_guard guard(lock_);
  const auto found = operations_.find(number);
  return found == operations_.end() ? nullptr : found->second;
}

int Admissions::finish(int64_t number, int64_t result) noexcept {
  const std::shared_ptr<Operation> asked = find(number);
  if (asked == nullptr) {
    return -ENOENT;
  }
  if (!asked->is_admitted.load(std::memory_order_acquire)) {
    return -EBUSY;
  }
  {
    const std::lock_guard guard(lock_);
    if (operations_.erase(number) == 0) {
      return -ENOENT;  // another thread was first
    }
  }
  gate_.ended(asked->id, result);
  return 0;
}

int Admissions::withdraw(int64_t number) noexcept {
  const std::shared_ptr<Operation> asked = find(number);
  if (asked == nullptr || !gate_.withdraw(asked->id)) {
    return -EALREADY;
  }
  const std::lock_guard guard(lock_);
  operations_.erase(number);
  return 0;
}

void Admissions::close() noexcept {
  std::unordered_map<int64_t, std::shared_ptr<Operation>> forgotten;
  {
    const std::lock_guard guard(lock_);
    closing_.store(true, std::memory_order_relaxed);
    forgotten.swap(operations_);
  }
  for (const auto& [number, asked] : forgotten) {
    if (!gate_.withdraw(asked->id)) {
      // The end of a request, on another thread, may be about to start it.
      while (!asked->is_admitted.load(std::memory_order_acquire)) {
        sched_yield();
      }
      gate_.ended(asked->id, -ECANCELED);
    }
  }
}

// ---- The service's calls

namespace {

/// A caller that waits until the gate admits its operation.
class AdmissionWait final : public Wait {
 public:
  AdmissionWait(Admissions& admissions, uint32_t flow, uint64_t bytes) noexcept
      : admissions_(admissions), flow_(flow), bytes_(bytes) {}

  bool begin() noexcept override {
    const auto admitted = [](int64_t, void* user) { static_cast<AdmissionWait*>(user)->end(); };
    return admissions_.ask(flow_, bytes_, admitted, this, number_);
  }
  bool withdraw() noexcept override { return admissions_.withdraw(number_) == 0; }
  [[nodiscard]] int64_t number() const noexcept { return number_; }

 private:
  Admissions& admissions_;
  const uint32_t flow_;
  const uint64_t bytes_;
  int64_t number_ = 0;
};

}  // namespace

int64_t Service::admit(uint32_t flow, uint64_t bytes) noexcept {
  if (is_inherited()) {
    return -ECANCELED;
  }
  if (!gate_.knows(flow)) {
    return -EINVAL;
  }
  AdmissionWait wait(admissions_, flow, bytes);
  const int error = wait_for(wait, -1);
  return error != 0 ? error : wait.number();
}

int64_t Service::admit(uint32_t flow, uint64_t bytes, Admissions::Admitted admitted,
                       void* user) noexcept {
  if (is_inherited()) {
    return -ECANCELED;
  }
  if (admitted == nullptr || !gate_.knows(flow)) {
    return -EINVAL;
  }
  int64_t number = 0;
  if (admissions_.ask(flow, bytes, admitted, user, number) && number > 0) {
    admitted(number, user);
  }
  return number;
}

int Service::finish(int64_t operation, int64_t result) noexcept {
  return is_inherited() ? -ECANCELED : admissions_.finish(operation, result);
}

int Service::withdraw(int64_t operation) noexcept {
  return is_inherited() ? -ECANCELED : admissions_.withdraw(operation);
}

}  // namespace ioweave::service

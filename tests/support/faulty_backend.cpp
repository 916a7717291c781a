#include "support/faulty_backend.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

#include <fcntl.h>

#include "base/clock.hpp"

namespace ioweave::test {

using engine::Op;
using engine::Operation;
using engine::Reap;
using engine::Submitted;

namespace {

bool is_write(Op op) {
  return op == Op::write || op == Op::writev;
}
bool is_vectored(Op op) {
  return op == Op::readv || op == Op::writev;
}
bool is_transfer(Op op) {
  return op == Op::read || is_write(op) || is_vectored(op);
}

bool is_direct_write(const Operation& operation) {
  return is_write(operation.op) && (::fcntl(operation.fd, F_GETFL) & O_DIRECT) != 0;
}

/// Cuts a list of vectors after `bytes`.
std::vector<iovec> first_bytes(const Operation& operation, uint64_t bytes) {
  std::vector<iovec> cut;
  for (uint32_t i = 0; i < operation.vector_count && bytes > 0; ++i) {
    cut.push_back(operation.vectors[i]);
    cut.back().iov_len = std::min<size_t>(cut.back().iov_len, bytes);
    bytes -= cut.back().iov_len;
  }
  return cut;
}

uint64_t bytes_of(const Operation& operation) {
  if (!is_vectored(operation.op)) return operation.length;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < operation.vector_count; ++i) sum += operation.vectors[i].iov_len;
  return sum;
}

}  // namespace

FaultyBackend::FaultyBackend(std::unique_ptr<Backend> inner, const FaultOptions& options)
    : inner_(std::move(inner)), options_(options) {
  if (options_.seed == 0) options_.seed = std::random_device{}();
  random_.seed(options_.seed);
  std::printf("faulty backend over %s: seed %llu\n", std::string(inner_->name()).c_str(),
              static_cast<unsigned long long>(options_.seed));
}

FaultCounts FaultyBackend::counts() const {
  const std::lock_guard guard(lock_);
  return counts_;
}

bool FaultyBackend::happens(double rate) {
  // One draw whatever the rate: changing one rate leaves the faults of the others where they were.
  const double draw = std::uniform_real_distribution<>(0, 1)(random_);
  return draw < rate;
}

/// Whether faults keep away from it.
bool FaultyBackend::is_spared(const Operation& operation) {
  if (!options_.only_below.empty()) {
    std::error_code ignored;
    const std::string path =
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(operation.fd), ignored);
    if (!path.starts_with(options_.only_below + "/")) return true;
  }
  return spared_++ < options_.spared;
}

int FaultyBackend::error_for(const Operation& operation) {
  const std::array<std::pair<double, int>, 5> faults{{
      {options_.interrupted, -EINTR},
      {options_.again, -EAGAIN},
      {options_.cancelled, -ECANCELED},
      {options_.io_error, -EIO},
      {is_write(operation.op) ? options_.no_space : 0, -ENOSPC},
  }};
  int chosen = options_.no_direct && is_direct_write(operation) ? -EINVAL : 0;
  for (const auto& [rate, error] : faults) {
    if (happens(rate) && chosen == 0) chosen = error;
  }
  return chosen;
}

void FaultyBackend::shorten(Shadow& shadow) {
  const uint64_t bytes = bytes_of(shadow);
  if (!happens(options_.short_transfer) || !is_transfer(shadow.op) || bytes < 2) return;
  const uint64_t kept = std::uniform_int_distribution<uint64_t>(1, bytes - 1)(random_);
  ++counts_.short_transfers;
  if (!is_vectored(shadow.op)) {
    shadow.length = kept;
    return;
  }
  shadow.shortened = first_bytes(shadow, kept);
  shadow.vectors = shadow.shortened.data();
  shadow.vector_count = static_cast<uint32_t>(shadow.shortened.size());
}

Submitted FaultyBackend::submit(Operation& operation) noexcept {
  const std::lock_guard guard(lock_);
  if (in_flight_ == options_.entries) return Submitted::busy;
  if (happens(options_.busy) && busy_run_ < FaultOptions::kMaxBusyRun) {
    ++busy_run_;
    ++counts_.busy;
    return Submitted::busy;
  }
  busy_run_ = 0;
  const bool spared = is_spared(operation);
  if (const int error = spared ? 0 : error_for(operation)) {
    ++counts_.errors;
    ++in_flight_;
    operation.result = error;
    queued_.push_back({&operation, 0});
    return Submitted::queued;
  }
  auto shadow = std::make_unique<Shadow>(operation);
  if (!spared) shorten(*shadow);
  const Submitted answer = inner_->submit(*shadow);
  if (answer == Submitted::completed) operation.result = shadow->result;
  if (answer != Submitted::queued) return answer;
  ++in_flight_;
  shadows_[&operation] = std::move(shadow);
  return answer;
}

int FaultyBackend::flush() noexcept {
  bool any = false;
  {
    const std::lock_guard guard(lock_);
    any = !queued_.empty();
    for (const Held& faulted : queued_) hold(*faulted.operation, faulted.operation->result);
    queued_.clear();
  }
  if (any) inner_->wake();  // a reaper may sleep in there
  return inner_->flush();
}

void FaultyBackend::hold(Operation& operation, int64_t result) {
  operation.result = result;
  uint32_t looks = 0;
  if (happens(options_.delay)) {
    looks = std::uniform_int_distribution<uint32_t>(1, FaultOptions::kMaxDelayLooks)(random_);
    ++counts_.delayed;
  }
  held_.push_back({&operation, looks});
}

int FaultyBackend::reap(std::span<Operation*> out, const Reap& how) noexcept {
  int64_t timeout_ns = how.timeout_ns;
  if (how.flush) {
    const int status = flush();
    if (status < 0) return status;
  }
  const size_t wanted = std::min<size_t>(how.min_completions, out.size());
  size_t reaped = 0;
  for (;;) {
    const uint64_t before = now_ns();
    const int status = collect(wanted - std::min(wanted, reaped), timeout_ns);
    reaped += release(out.subspan(reaped));
    if (status < 0) return reaped != 0 ? static_cast<int>(reaped) : status;
    if (reaped >= wanted || timeout_ns == 0) return static_cast<int>(reaped);
    const std::lock_guard guard(lock_);
    if (std::exchange(woken_, false)) return static_cast<int>(reaped);
    const auto passed = static_cast<int64_t>(now_ns() - before);
    if (timeout_ns > 0) timeout_ns = std::max<int64_t>(0, timeout_ns - passed);
  }
}

/// Takes over what the inner backend has completed; sleeps there only while nothing is held here.
int FaultyBackend::collect(size_t wanted, int64_t timeout_ns) {
  Reap how;
  {
    const std::lock_guard guard(lock_);
    if (wanted != 0 && held_.empty() && !woken_) how = {1, timeout_ns, false};
  }
  std::array<Operation*, 64> inner;
  const int got = inner_->reap(inner, how);
  const std::lock_guard guard(lock_);
  for (int i = 0; i < got; ++i) {
    const auto* shadow = static_cast<const Shadow*>(inner[static_cast<size_t>(i)]);
    Operation& original = shadow->original;
    hold(original, shadow->result);
    shadows_.erase(&original);
  }
  return std::min(got, 0);
}

size_t FaultyBackend::release(std::span<Operation*> out) {
  const std::lock_guard guard(lock_);
  if (options_.reorder) std::shuffle(held_.begin(), held_.end(), random_);
  size_t reaped = 0;
  std::erase_if(held_, [&](Held& held) {
    if (reaped == out.size()) return false;
    if (held.looks > 0) {
      --held.looks;
      return false;
    }
    out[reaped++] = held.operation;
    return true;
  });
  in_flight_ -= static_cast<uint32_t>(reaped);
  return reaped;
}

void FaultyBackend::wake() noexcept {
  {
    const std::lock_guard guard(lock_);
    woken_ = true;
  }
  inner_->wake();
}

int FaultyBackend::cancel(Operation& operation) noexcept {
  const std::lock_guard guard(lock_);
  const auto found = shadows_.find(&operation);
  return found == shadows_.end() ? -ENOENT : inner_->cancel(*found->second);
}

}  // namespace ioweave::test

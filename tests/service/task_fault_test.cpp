// Storage I/O in tasks when something goes wrong: a device, a runtime, the program's end. Nothing
// may be lost, mixed up or left hanging.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <malloc.h>

#include "service/service.hpp"
#include "support/child.hpp"
#include "support/direct_memory.hpp"
#include "support/faulty_backend.hpp"
#include "support/gated_backend.hpp"
#include "support/hosted_service.hpp"
#include "support/locked_queue.hpp"
#include "support/temp_file.hpp"
#include "support/workers.hpp"

namespace ioweave::service {
namespace {

using engine::Op;
using test::DirectMemory;
using test::GatedBackend;
using test::Host;
using test::HostUnderTest;
using test::is_alpi;
using test::make_workers;
using test::missing;
using test::name_of;
using test::pattern;
using test::run_in_child;
using test::service_options_for;
using test::stats_of;
using test::Workers;

#ifdef IOWEAVE_TEST_SANITIZED
constexpr unsigned kScale = 8;  // fewer rounds
#else
constexpr unsigned kScale = 1;
#endif

/// Memory that takes none until it is written to.
class Mapping {
 public:
  explicit Mapping(size_t bytes)
      : bytes_(bytes),
        begin_(
            static_cast<std::byte*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    EXPECT_NE(begin_, MAP_FAILED);
  }
  ~Mapping() { ::munmap(begin_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  [[nodiscard]] std::byte* at(size_t offset) const { return begin_ + offset; }

 private:
  size_t bytes_;
  std::byte* begin_;
};

#define SKIP_WITHOUT_DIRECT(file)                                            \
  if (!(file).direct()) {                                                    \
    GTEST_SKIP() << "files in memory have no O_DIRECT: Linux 6.6 is needed"; \
  }                                                                          \
  static_assert(true)

Call read_call(int fd, void* buffer, size_t bytes, int64_t offset) {
  return {Op::read, fd, buffer, bytes, offset, false};
}
Call write_call(int fd, const std::byte* buffer, size_t bytes, int64_t offset) {
  return {Op::write, fd, const_cast<std::byte*>(buffer), bytes, offset, false};
}

class TaskFaults : public ::testing::TestWithParam<HostUnderTest> {
 protected:
  void SetUp() override {
    if (const std::string why = missing(GetParam()); !why.empty()) {
      GTEST_SKIP() << why;
    }
  }
};
class BoundFaults : public TaskFaults {};
INSTANTIATE_TEST_SUITE_P(, TaskFaults,
                         ::testing::Values(HostUnderTest::alpi_thread, HostUnderTest::alpi_task,
                                           HostUnderTest::tbb),
                         [](const auto& host) { return name_of(host.param); });
INSTANTIATE_TEST_SUITE_P(, BoundFaults,
                         ::testing::Values(HostUnderTest::alpi_thread, HostUnderTest::alpi_task,
                                           HostUnderTest::tbb, HostUnderTest::begun),
                         [](const auto& host) { return name_of(host.param); });

// ---- A device that is slow

/// What `count` transfers of one byte each left behind.
struct ManyReads {
  explicit ManyReads(size_t count) : bytes(count), results(count, 4711) {}
  [[nodiscard]] bool right() const {
    return bytes == pattern(0, bytes.size()) &&
           std::all_of(results.begin(), results.end(), [](ssize_t result) { return result == 1; });
  }
  std::vector<std::byte> bytes;
  std::vector<ssize_t> results;
};

TEST_P(BoundFaults, TenThousandMayBePending) {
  constexpr size_t kTasks = 100;
  constexpr size_t kEach = 100 / kScale;
  const DirectMemory file(pattern(0, kTasks * kEach));
  SKIP_WITHOUT_DIRECT(file);
  Options options = service_options_for(GetParam());
  options.open_backend = &GatedBackend::open_backend;
  Host host(GetParam(), 2, options);
  [[maybe_unused]] size_t allocated = 0;
  for (int round = 0; round < 3; ++round) {
    GatedBackend::close_gate();
    ManyReads reads(kTasks * kEach);
    std::atomic<size_t> bodies{0};
    std::atomic<size_t> successors{0};
    for (size_t task = 0; task < kTasks; ++task) {
      host.workers->spawn_bound(
          [&, task] {
            for (size_t i = task * kEach; i < (task + 1) * kEach; ++i) {
              iovec vector{&reads.bytes[i], 1};
              const Call call{i % 2 == 0 ? Op::read : Op::readv,
                              file.fd(),
                              i % 2 == 0 ? static_cast<void*>(&reads.bytes[i]) : &vector,
                              1,
                              static_cast<int64_t>(i),
                              false};
              ASSERT_EQ(host.service->bind(call, &reads.results[i]), 0);
            }
            ++bodies;
          },
          [&] { ++successors; });
    }
    while (bodies != kTasks) {
      std::this_thread::yield();
    }
    EXPECT_EQ(successors, 0u);
    EXPECT_EQ(stats_of(*host.service).bound_pending, kTasks * kEach);
    EXPECT_EQ(reads.results, std::vector<ssize_t>(kTasks * kEach, -EINPROGRESS));
    GatedBackend::open_gate();
    host.workers->wait();
    EXPECT_EQ(successors, kTasks);
    EXPECT_TRUE(reads.right());
    EXPECT_EQ(stats_of(*host.service).bound_pending, 0u);
#ifndef IOWEAVE_TEST_SANITIZED
    // The second round made whatever threads and queues of the test itself there are to be.
    if (round == 1) {
      allocated = ::mallinfo2().uordblks;
    } else if (round == 2) {
      EXPECT_LT(::mallinfo2().uordblks, allocated + (1u << 20));  // 10,000 of them are 3 MB
    }
#endif
  }
  EXPECT_EQ(stats_of(*host.service).bound, 3 * kTasks * kEach);
}

TEST_P(BoundFaults, NoMoreBytesAreInFlightThanTheDeviceNeeds) {
  constexpr size_t kTransfers = 12;
  constexpr size_t kLength = 16 << 20;
  const DirectMemory file(pattern(0, 4096));
  SKIP_WITHOUT_DIRECT(file);
  const Mapping room(kTransfers * kLength);
  Options options = service_options_for(GetParam());
  options.open_backend = &GatedBackend::open_backend;
  Host host(GetParam(), 2, options);
  GatedBackend::close_gate();
  std::array<ssize_t, kTransfers> results{};
  std::atomic<bool> bound{false};
  host.workers->spawn_bound(
      [&] {
        for (size_t i = 0; i < kTransfers; ++i) {
          ASSERT_EQ(host.service->bind(read_call(file.fd(), room.at(i * kLength), kLength, 0),
                                       &results[i]),
                    0);
        }
        bound = true;
      },
      [] {});
  while (!bound || GatedBackend::most_bytes() < (64u << 20)) {
    std::this_thread::yield();
  }
  GatedBackend::open_gate();
  host.workers->wait();
  EXPECT_EQ(GatedBackend::most_bytes(), 64u << 20);
  for (const ssize_t result : results) {
    EXPECT_EQ(result, 4096);
  }
}

TEST_P(BoundFaults, TheSuccessorWaitsForTheLastTransfer) {
  const DirectMemory file(pattern(0, 4096));
  SKIP_WITHOUT_DIRECT(file);
  GatedBackend::close_gate();
  Options options = service_options_for(GetParam());
  options.open_backend = &GatedBackend::open_backend;
  Host host(GetParam(), 1, options);
  std::atomic<bool> others{false};
  std::atomic<bool> successor{false};
  std::byte byte{};
  ssize_t result = 0;
  host.workers->spawn_bound(
      [&] { ASSERT_EQ(host.service->bind(read_call(file.fd(), &byte, 1, 17), &result), 0); },
      [&] { successor = true; });
  host.workers->spawn_bound([] {}, [&] { others = true; });
  while (!others) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(successor);
  GatedBackend::open_gate();
  host.workers->wait();
  EXPECT_TRUE(successor);
  EXPECT_EQ(result, 1);
  EXPECT_EQ(byte, test::pattern_at(17));
}

TEST_P(TaskFaults, TheWorkerOfAPausedTaskRunsOthers) {
  const DirectMemory file(pattern(0, 4096));
  SKIP_WITHOUT_DIRECT(file);
  GatedBackend::close_gate();
  Options options = service_options_for(GetParam());
  options.open_backend = &GatedBackend::open_backend;
  Host host(GetParam(), 1, options);
  constexpr unsigned kPaused = 1000 / kScale;
  std::atomic<unsigned> ended{0};
  for (unsigned task = 0; task < kPaused; ++task) {
    host.workers->spawn([&, task] {
      std::byte byte{};
      EXPECT_EQ(host.service->transfer(read_call(file.fd(), &byte, 1, task)), 1);
      EXPECT_EQ(byte, test::pattern_at(task));
      ++ended;
    });
  }
  std::atomic<bool> other{false};
  host.workers->spawn([&] { other = true; });
  while (!other || stats_of(*host.service).paused != kPaused) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ended, 0u);
  GatedBackend::open_gate();
  host.workers->wait();
  EXPECT_EQ(ended, kPaused);
  EXPECT_EQ(stats_of(*host.service).most_paused, kPaused);
}

/// A task that keeps its worker.
struct Occupation {
  std::atomic<bool> begun{false};
  std::atomic<bool> enough{false};
  void spawn_on(Host& host) {
    host.workers->spawn([this] {
      begun = true;
      while (!enough) {
        std::this_thread::yield();
      }
    });
    while (!begun) {
      std::this_thread::yield();
    }
  }
};

TEST_P(TaskFaults, APausedTaskGoesOnWithAnotherWorkerWhereItsOwnIsTaken) {
  const DirectMemory file(pattern(0, 4096));
  SKIP_WITHOUT_DIRECT(file);
  GatedBackend::close_gate();
  Options options = service_options_for(GetParam());
  options.open_backend = &GatedBackend::open_backend;
  Host host(GetParam(), 2, options);
  Occupation second;
  second.spawn_on(host);
  std::atomic<bool> ended{false};
  host.workers->spawn([&] {
    const pid_t before = ::gettid();
    std::byte byte{};
    EXPECT_EQ(host.service->transfer(read_call(file.fd(), &byte, 1, 17)), 1);
    EXPECT_EQ(byte, test::pattern_at(17));
    // With ALPI a task has a thread of its own while it lives.
    EXPECT_EQ(::gettid() == before, is_alpi(GetParam()));
    ended = true;
  });
  while (stats_of(*host.service).paused != 1) {
    std::this_thread::yield();
  }
  Occupation first;  // of the worker that the paused task left
  first.spawn_on(host);
  second.enough = true;
  GatedBackend::open_gate();
  while (!ended) {
    std::this_thread::yield();
  }
  first.enough = true;
}

// ---- A device that fails

test::FaultOptions faults;

std::unique_ptr<engine::Backend> open_faulty(const engine::BackendOptions& options, int& error,
                                             std::string& why) {
  auto inner = engine::open_backend(options, error, why);
  return inner == nullptr ? nullptr
                          : std::make_unique<test::FaultyBackend>(std::move(inner), faults);
}

/// Transfers that the faulty queue of tasks has carried, in this process.
std::atomic<uint64_t> carried{0};

class CountingQueue final : public engine::SharedQueue {
 public:
  explicit CountingQueue(std::unique_ptr<engine::Backend> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] bool submit(engine::Operation& operation) noexcept override {
    return inner_.submit(operation);
  }
  [[nodiscard]] bool has_ended() const noexcept override { return inner_.has_ended(); }
  [[nodiscard]] size_t reap(std::span<engine::Operation*> out, bool sleep) noexcept override {
    const size_t reaped = inner_.reap(out, sleep);
    carried += reaped;
    return reaped;
  }
  void wake() noexcept override { inner_.wake(); }
  void abandon() noexcept override { inner_.abandon(); }

 private:
  test::LockedQueue inner_;
};

std::unique_ptr<engine::SharedQueue> open_faulty_queue(uint32_t entries, std::string& why) {
  engine::BackendOptions options;
  options.kind = engine::Kind::threads;
  options.entries = entries;
  int error = 0;
  auto inner = open_faulty(options, error, why);
  return inner == nullptr ? nullptr : std::make_unique<CountingQueue>(std::move(inner));
}

/// One task's part of the file, and what must be in it.
class Region {
 public:
  static constexpr size_t kBytes = 4096;
  Region(int fd, size_t index) : fd_(fd), begin_(index * kBytes), model_(pattern(begin_, kBytes)) {}

  struct Transfer {
    bool write;
    size_t offset;  ///< in the region
    std::vector<std::byte> bytes;
    ssize_t result = 4711;
  };
  [[nodiscard]] static Transfer random_transfer(std::mt19937_64& random, size_t from, size_t to) {
    Transfer transfer;
    transfer.write = random() % 2 == 0;
    transfer.offset = from + random() % (to - from);
    transfer.bytes.resize(1 + random() % (to - transfer.offset));
    for (std::byte& byte : transfer.bytes) {
      byte = static_cast<std::byte>(random());
    }
    return transfer;
  }
  [[nodiscard]] Call call(Transfer& transfer) const {
    return {transfer.write ? Op::write : Op::read,
            fd_,
            transfer.bytes.data(),
            transfer.bytes.size(),
            static_cast<int64_t>(begin_ + transfer.offset),
            false};
  }
  /// Takes over what the result says, and compares what was read.
  void apply(const Transfer& transfer) {
    if (transfer.result < 0) {
      EXPECT_TRUE(transfer.result == -EIO || (transfer.write && transfer.result == -ENOSPC))
          << transfer.result;
      return;
    }
    ASSERT_GE(transfer.result, 1);  // short only by an error after a part
    ASSERT_LE(transfer.result, static_cast<ssize_t>(transfer.bytes.size()));
    const auto place = model_.begin() + static_cast<ptrdiff_t>(transfer.offset);
    const auto end = transfer.bytes.begin() + transfer.result;
    if (transfer.write) {
      std::copy(transfer.bytes.begin(), end, place);
    } else {
      EXPECT_TRUE(std::equal(transfer.bytes.begin(), end, place));
    }
  }
  void check_file() const {
    std::vector<std::byte> found(kBytes);
    ASSERT_EQ(::pread(fd_, found.data(), kBytes, static_cast<off_t>(begin_)), ssize_t{kBytes});
    ASSERT_EQ(found, model_);
  }

 private:
  const int fd_;
  const size_t begin_;
  std::vector<std::byte> model_;
};

test::FaultOptions all_faults(uint64_t seed) {
  test::FaultOptions options;
  options.seed = seed;
  options.short_transfer = 0.3;
  options.interrupted = 0.1;
  options.again = 0.1;
  options.cancelled = 0.1;
  options.io_error = 0.05;
  options.no_space = 0.05;
  options.busy = 0.1;
  options.delay = 0.3;
  options.reorder = true;
  return options;
}

/// Which faulty one carries the transfers: the reaper's back end, or the queue that tasks share.
enum class Carrier { uring, threads, task_queue };

class TaskProperties : public ::testing::TestWithParam<std::tuple<HostUnderTest, Carrier>> {
 protected:
  void SetUp() override {
    if (const std::string why = missing(host_kind()); !why.empty()) {
      GTEST_SKIP() << why;
    }
    carried = 0;
  }
  void TearDown() override {
    if (!IsSkipped()) {
      EXPECT_EQ(carried > 0, has_queue());
    }
  }
  [[nodiscard]] static HostUnderTest host_kind() { return std::get<0>(GetParam()); }
  [[nodiscard]] static bool has_queue() {
    return std::get<1>(GetParam()) == Carrier::task_queue &&
           host_kind() != HostUnderTest::alpi_task;  // whose polling task reaps
  }
  [[nodiscard]] static Options faulty_options(uint64_t seed) {
    faults = all_faults(seed);
    Options options = service_options_for(host_kind());
    options.engine =
        std::get<1>(GetParam()) == Carrier::threads ? engine::Kind::threads : engine::Kind::uring;
    options.open_backend = &open_faulty;
    if (std::get<1>(GetParam()) != Carrier::uring) {  // beside threads it must stay unused
      options.open_task_queue = &open_faulty_queue;
    }
    return options;
  }
  static constexpr size_t kTasks = 64;
  static constexpr unsigned kRounds = 30 / kScale + 1;
};
class BlockingProperties : public TaskProperties {};
class BoundProperties : public TaskProperties {};
std::string property_name(
    const ::testing::TestParamInfo<std::tuple<HostUnderTest, Carrier>>& info) {
  switch (std::get<1>(info.param)) {
    case Carrier::uring:
      return name_of(std::get<0>(info.param)) + "Uring";
    case Carrier::threads:
      return name_of(std::get<0>(info.param)) + "Threads";
    case Carrier::task_queue:
      return name_of(std::get<0>(info.param)) + "TaskQueue";
  }
  return "";
}
const auto kCarriers = ::testing::Values(Carrier::uring, Carrier::threads, Carrier::task_queue);
INSTANTIATE_TEST_SUITE_P(, BlockingProperties,
                         ::testing::Combine(::testing::Values(HostUnderTest::alpi_thread,
                                                              HostUnderTest::alpi_task,
                                                              HostUnderTest::tbb),
                                            kCarriers),
                         property_name);
INSTANTIATE_TEST_SUITE_P(
    , BoundProperties,
    ::testing::Combine(::testing::Values(HostUnderTest::alpi_thread, HostUnderTest::alpi_task,
                                         HostUnderTest::tbb, HostUnderTest::begun),
                       kCarriers),
    property_name);

TEST_P(BlockingProperties, EachTaskGetsItsOwnResults) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const DirectMemory file(pattern(0, kTasks * Region::kBytes));
  SKIP_WITHOUT_DIRECT(file);
  Host host(host_kind(), 2, faulty_options(seed));
  std::atomic<uint64_t> failed{0};
  for (size_t task = 0; task < kTasks; ++task) {
    host.workers->spawn([&, task] {
      std::mt19937_64 random(seed + task);
      Region region(file.fd(), task);
      for (unsigned round = 0; round < kRounds; ++round) {
        auto transfer = Region::random_transfer(random, 0, Region::kBytes);
        transfer.result = host.service->transfer(region.call(transfer));
        failed += transfer.result < 0 ? 1 : 0;
        region.apply(transfer);
        region.check_file();
      }
    });
  }
  host.workers->wait();
  EXPECT_EQ(stats_of(*host.service).pauses, kTasks * kRounds);
  EXPECT_GT(failed, 0u);
  iow_stats stats{};
  host.service->statistics(stats);
  EXPECT_GT(stats.continued, 0u);
  EXPECT_GT(stats.reissued, 0u);
}

TEST_P(BoundProperties, EachTaskGetsItsOwnResults) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const DirectMemory file(pattern(0, kTasks * Region::kBytes));
  SKIP_WITHOUT_DIRECT(file);
  Host host(host_kind(), 2, faulty_options(seed));
  constexpr size_t kParts = 4;  // transfers of one task do not overlap
  constexpr size_t kPart = Region::kBytes / kParts;
  struct State {
    State(uint64_t start, int fd, size_t index) : random(start + index), region(fd, index) {}
    std::mt19937_64 random;
    Region region;
    std::vector<Region::Transfer> transfers;
  };
  std::vector<State> tasks;
  for (size_t task = 0; task < kTasks; ++task) {
    tasks.emplace_back(seed, file.fd(), task);
  }
  for (unsigned round = 0; round < kRounds; ++round) {
    for (State& task : tasks) {
      host.workers->spawn_bound(
          [&] {
            task.transfers.clear();
            for (size_t part = 0; part < kParts; ++part) {
              task.transfers.push_back(
                  Region::random_transfer(task.random, part * kPart, (part + 1) * kPart));
            }
            for (Region::Transfer& each : task.transfers) {
              ASSERT_EQ(host.service->bind(task.region.call(each), &each.result), 0);
            }
          },
          [] {});
    }
    host.workers->wait();
    for (State& task : tasks) {
      for (size_t part = 0; part < kParts; ++part) {
        // The model has to know of all writes before the file is looked at.
        task.region.apply(task.transfers[part]);
      }
      ASSERT_NO_FATAL_FAILURE(task.region.check_file());
    }
  }
  EXPECT_EQ(stats_of(*host.service).bound, kTasks * kRounds * kParts);
  EXPECT_EQ(stats_of(*host.service).bound_pending, 0u);
}

// ---- A runtime that misbehaves

/// What every mode must leave right: data, results, and the end of it all.
struct Workload {
  static constexpr size_t kTasks = 32;
  static constexpr unsigned kReads = 40 / kScale + 1;

  /// Blocking calls; with a bound one each where `bound`.
  static void run(Host& host, int fd, bool bound) {
    ManyReads reads(kTasks);
    std::atomic<size_t> successors{0};
    for (size_t task = 0; task < kTasks; ++task) {
      host.workers->spawn_bound(
          [&, task, fd, bound] {
            if (bound) {
              EXPECT_EQ(host.service->bind(
                            read_call(fd, &reads.bytes[task], 1, static_cast<int64_t>(task)),
                            &reads.results[task]),
                        0);
            }
            std::vector<std::byte> buffer(100);
            for (unsigned i = 0; i < kReads; ++i) {
              const size_t offset = task * 100 + i;
              ASSERT_EQ(host.service->transfer(
                            read_call(fd, buffer.data(), 100, static_cast<int64_t>(offset))),
                        100);
              ASSERT_EQ(buffer, pattern(offset, 100));
            }
          },
          [&, task, bound] {
            EXPECT_TRUE(!bound ||
                        (reads.results[task] == 1 && reads.bytes[task] == test::pattern_at(task)));
            ++successors;
          });
    }
    host.workers->wait();
    EXPECT_EQ(successors, kTasks);
  }
};

class AlpiModes : public ::testing::TestWithParam<std::tuple<HostUnderTest, unsigned>> {
 protected:
  /// With as many workers as the parameter says.
  [[nodiscard]] static std::unique_ptr<Host> open(const char* modes) {
    const auto [which, workers] = GetParam();
    return std::make_unique<Host>(which, workers, service_options_for(which), modes);
  }
  [[nodiscard]] static std::string why_of(const Host& host) {
    return host.service->task_host_reason();
  }
};
INSTANTIATE_TEST_SUITE_P(, AlpiModes,
                         ::testing::Combine(::testing::Values(HostUnderTest::alpi_thread,
                                                              HostUnderTest::alpi_task),
                                            ::testing::Values(1, 2)),
                         [](const auto& param) {
                           return name_of(std::get<0>(param.param)) + "On" +
                                  std::to_string(std::get<1>(param.param));
                         });
constexpr uint64_t kCalls = Workload::kTasks * Workload::kReads;

TEST_P(AlpiModes, WhateverTheOrderOfTheUnblock) {
  const DirectMemory file(pattern(0, 65536));
  SKIP_WITHOUT_DIRECT(file);
  for (const char* modes : {"", "late_unblock", "immediate_unblock", "relaxed",
                            "relaxed,immediate_unblock", "relaxed,late_unblock"}) {
    SCOPED_TRACE(modes);
    const auto host = open(modes);
    Workload::run(*host, file.fd(), true);
    EXPECT_EQ(stats_of(*host->service).pauses, kCalls);
    EXPECT_EQ(stats_of(*host->service).bound, Workload::kTasks);
    EXPECT_EQ(why_of(*host), "");
  }
}

TEST_P(AlpiModes, WhatIsRefusedToAThreadIsDoneByATask) {
  const DirectMemory file(pattern(0, 65536));
  SKIP_WITHOUT_DIRECT(file);
  for (const char* modes : {"refuse_foreign_unblock", "refuse_foreign_decrease",
                            "refuse_foreign_unblock,refuse_foreign_decrease"}) {
    SCOPED_TRACE(modes);
    const auto host = open(modes);
    Workload::run(*host, file.fd(), true);
    EXPECT_EQ(stats_of(*host->service).pauses, kCalls);
    EXPECT_EQ(stats_of(*host->service).bound, Workload::kTasks);
  }
}

TEST_P(AlpiModes, WithoutBlockingTheCallsArePlain) {
  const DirectMemory file(pattern(0, 65536));
  SKIP_WITHOUT_DIRECT(file);
  for (const char* modes : {"no_blocking", "no_blocking,refuse_foreign_decrease"}) {
    SCOPED_TRACE(modes);
    const auto host = open(modes);
    Workload::run(*host, file.fd(), true);
    Workload::run(*host, file.fd(), true);  // with a task that reaps, it is at it by now
    EXPECT_EQ(stats_of(*host->service).pauses, 0u);
    EXPECT_EQ(stats_of(*host->service).bound, 2 * Workload::kTasks);
    EXPECT_NE(why_of(*host).find("cannot pause tasks"), std::string::npos) << why_of(*host);
  }
}

TEST_P(AlpiModes, WithoutEventsNothingIsBound) {
  const DirectMemory file(pattern(0, 65536));
  SKIP_WITHOUT_DIRECT(file);
  for (const char* modes : {"no_events", "increase_fails"}) {
    SCOPED_TRACE(modes);
    const auto host = open(modes);
    std::byte byte{};
    ssize_t result = 4711;
    host->workers->spawn([&] {
      EXPECT_EQ(host->service->bind(read_call(file.fd(), &byte, 1, 0), &result), -ESRCH);
    });
    Workload::run(*host, file.fd(), false);
    EXPECT_EQ(result, -ESRCH);
    EXPECT_EQ(stats_of(*host->service).pauses, kCalls);
    EXPECT_EQ(stats_of(*host->service).bound, 0u);
    EXPECT_EQ(stats_of(*host->service).bound_pending, 0u);
  }
  const auto host = open("no_events");
  EXPECT_NE(why_of(*host).find("iow_task_begin()"), std::string::npos) << why_of(*host);
}

TEST_P(AlpiModes, AnUnblockForALaterBlockOfTheTaskIsGivenBack) {
  const DirectMemory file(pattern(0, 4096));
  SKIP_WITHOUT_DIRECT(file);
  constexpr unsigned kRounds = 400 / kScale;
  const auto host = open("count_unblocks");
  std::atomic<unsigned> rounds{0};
  host->workers->spawn([&] {
    alpi_task* const self = test::alpi_self();
    for (; rounds < kRounds; ++rounds) {
      // By another thread on a real program, and any time before the block below.
      ASSERT_EQ(alpi_task_unblock(self), ALPI_SUCCESS);
      std::byte byte{};
      ASSERT_EQ(host->service->transfer(read_call(file.fd(), &byte, 1, 17)), 1);
      ASSERT_EQ(byte, test::pattern_at(17));
      ASSERT_EQ(alpi_task_block(self), ALPI_SUCCESS);  // for ever, were it lost
    }
  });
  host->workers->wait();
  EXPECT_EQ(rounds, kRounds);
}

TEST_P(AlpiModes, AnUnblockThatComesWhileTheTaskIsPausedHereIsGivenBack) {
  const DirectMemory file(pattern(0, 4096));
  SKIP_WITHOUT_DIRECT(file);
  const auto [which, workers] = GetParam();
  Options options = service_options_for(which);
  options.open_backend = &GatedBackend::open_backend;
  Host host(which, workers, options, "count_unblocks");
  for (unsigned round = 0; round < 40 / kScale; ++round) {
    GatedBackend::close_gate();
    std::atomic<alpi_task*> task{nullptr};
    std::atomic<bool> ended{false};
    host.workers->spawn([&] {
      task = test::alpi_self();
      std::byte byte{};
      EXPECT_EQ(host.service->transfer(read_call(file.fd(), &byte, 1, 17)), 1);
      EXPECT_EQ(alpi_task_block(task), ALPI_SUCCESS);
      ended = true;
    });
    while (stats_of(*host.service).paused != 1) {
      std::this_thread::yield();
    }
    EXPECT_EQ(alpi_task_unblock(task), ALPI_SUCCESS);
    EXPECT_FALSE(ended);
    GatedBackend::open_gate();
    host.workers->wait();
    EXPECT_TRUE(ended);
  }
}

TEST_P(AlpiModes, AParallelTaskMakesThePlainCallAndOthersPauseAsBefore) {
  const DirectMemory file(pattern(0, 65536));
  SKIP_WITHOUT_DIRECT(file);
  for (const char* modes : {"", "parallel_unseen,count_misuse"}) {
    SCOPED_TRACE(modes);
    const auto host = open(modes);
    constexpr unsigned kParallel = 20;
    std::atomic<unsigned> right{0};
    for (unsigned i = 0; i < kParallel; ++i) {
      const auto body = [&, i] {
        std::byte byte{};
        right += host->service->transfer(read_call(file.fd(), &byte, 1, i)) == 1 &&
                         byte == test::pattern_at(i)
                     ? 1
                     : 0;
      };
      std::atomic<bool> completed{false};
      ASSERT_EQ(test::spawn_alpi_task(
                    body, [&] { completed = true; }, "parallel"),
                ALPI_SUCCESS);
      while (!completed) {
        std::this_thread::yield();
      }
    }
    EXPECT_EQ(right, kParallel);
    const uint64_t before = stats_of(*host->service).pauses;
    EXPECT_EQ(before == 0, *modes == '\0');  // those that do not say what they are, are tried
    Workload::run(*host, file.fd(), true);
    EXPECT_EQ(stats_of(*host->service).pauses - before, kCalls);
    EXPECT_EQ(stats_of(*host->service).paused, 0u);
    if (*modes == '\0') {
      EXPECT_EQ(why_of(*host).find("parallel tasks cannot pause"), 0u) << why_of(*host);
    }
  }
}

TEST_P(AlpiModes, WhereTheBlockFailsTheThreadSleepsAndNothingPausesLater) {
  const DirectMemory file(pattern(0, 65536));
  SKIP_WITHOUT_DIRECT(file);
  // count_misuse: an unblock that came before the refused block has no other.
  const auto host = open("block_fails,count_misuse");
  std::byte byte{};
  ssize_t result = 4711;
  host->workers->spawn(
      [&] { EXPECT_EQ(host->service->bind(read_call(file.fd(), &byte, 1, 0), &result), 0); });
  host->workers->wait();
  EXPECT_EQ(result, 1);
  // Where all transfers have ended before their tasks block, none is refused: on a busy machine.
  const auto gave_up = [&] { return why_of(*host).find("time after time") != std::string::npos; };
  for (int i = 0; i < 100 && !gave_up(); ++i) Workload::run(*host, file.fd(), true);
  const uint64_t pauses = stats_of(*host->service).pauses;
  Workload::run(*host, file.fd(), true);
  EXPECT_EQ(stats_of(*host->service).pauses, pauses);
  EXPECT_EQ(stats_of(*host->service).paused, 0u);
  EXPECT_NE(why_of(*host).find("refused to block a task"), std::string::npos) << why_of(*host);
}

TEST_P(AlpiModes, WhereTheTaskThatReapsCannotBeSpawnedAThreadReaps) {
  const DirectMemory file(pattern(0, 65536));
  SKIP_WITHOUT_DIRECT(file);
  const auto host = open("");
  std::atomic<bool> go{false};
  std::atomic<unsigned> right{0};
  constexpr unsigned kTasks = 8;
  for (unsigned task = 0; task < kTasks; ++task) {
    host->workers->spawn([&, task] {
      while (!go) {
        alpi_task_waitfor_ns(100'000, nullptr);
      }
      std::byte byte{};
      right += host->service->transfer(read_call(file.fd(), &byte, 1, task)) == 1 &&
                       byte == test::pattern_at(task)
                   ? 1
                   : 0;
    });
  }
  alpi_test_set_mode("spawn_fails");
  go = true;
  host->workers->wait();
  alpi_test_set_mode("");
  EXPECT_EQ(right, kTasks);
  EXPECT_EQ(stats_of(*host->service).pauses, kTasks);
  if (std::get<0>(GetParam()) == HostUnderTest::alpi_task) {
    EXPECT_NE(
        std::string(host->service->fallback_reason()).find("a thread reaps instead of a task"),
        std::string::npos)
        << host->service->fallback_reason();
  }
}

// ---- The task that reaps

/// The runtime, and a service that a task of it reaps for; each may end first.
struct Reaped {
  explicit Reaped(unsigned cpus) : runtime(std::make_unique<test::AlpiRuntime>(cpus)) {
    int error = 0;
    std::string why;
    service = Service::open(service_options_for(HostUnderTest::alpi_task), error, why);
    EXPECT_NE(service, nullptr) << why;
  }
  [[nodiscard]] ssize_t read_byte(const DirectMemory& file, size_t offset) const {
    std::byte byte{};
    const int64_t got =
        service->transfer(read_call(file.fd(), &byte, 1, static_cast<int64_t>(offset)));
    EXPECT_EQ(byte, test::pattern_at(offset));
    return got;
  }
  std::unique_ptr<test::AlpiRuntime> runtime;
  Service::Owner service;
};

TEST(TaskThatReaps, HasEndedWhereNothingIsInFlight) {
  const DirectMemory file(pattern(0, 4096));
  SKIP_WITHOUT_DIRECT(file);
  const Reaped reaped(1);
  for (unsigned round = 1; round <= 20; ++round) {
    std::atomic<unsigned> right{0};
    for (unsigned task = 0; task < 5; ++task) {
      ASSERT_EQ(
          test::spawn_alpi_task([&, task] { right += reaped.read_byte(file, task) == 1 ? 1 : 0; }),
          ALPI_SUCCESS);
    }
    test::AlpiRuntime::wait_idle();  // for all tasks there are: ours, too
    EXPECT_EQ(right, 5u);
    EXPECT_EQ(stats_of(*reaped.service).pauses, round * 5);
  }
}

TEST(TaskThatReaps, TheRuntimeMayBeShutDownBeforeTheServiceIsClosed) {
  const DirectMemory file(pattern(0, 4096));
  SKIP_WITHOUT_DIRECT(file);
  Reaped reaped(2);
  ASSERT_EQ(test::spawn_alpi_task([&] { EXPECT_EQ(reaped.read_byte(file, 1), 1); }), ALPI_SUCCESS);
  reaped.runtime.reset();
  EXPECT_EQ(stats_of(*reaped.service).pauses, 1u);
  reaped.service.reset();
}

TEST(TaskThatReaps, IsNotPausedByWhatTheEndOfATransferSetsOff) {
  const DirectMemory file(pattern(0, 4096));
  SKIP_WITHOUT_DIRECT(file);
  Host host(HostUnderTest::alpi_task, 1, service_options_for(HostUnderTest::alpi_task));
  std::byte byte{};
  ssize_t result = 4711;
  std::byte later{};
  ssize_t bound_later = 4711;
  std::atomic<int64_t> got{4711};
  std::atomic<int> refused{4711};
  // The completion runs inside the task that takes the last event away.
  host.workers->spawn_bound(
      [&] { EXPECT_EQ(host.service->bind(read_call(file.fd(), &byte, 1, 1), &result), 0); },
      [&] {
        got = host.service->transfer(read_call(file.fd(), &later, 1, 2));
        refused = host.service->bind(read_call(file.fd(), &later, 1, 2), &bound_later);
      });
  host.workers->wait();
  EXPECT_EQ(result, 1);
  EXPECT_EQ(got, 1);
  EXPECT_EQ(later, test::pattern_at(2));
  EXPECT_EQ(refused, -ESRCH);  // as outside a task: it is not one of the program's
  EXPECT_EQ(stats_of(*host.service).pauses, 0u);
}

TEST(TaskThatReaps, NorIsATaskThatReapsInItsPlace) {
  const DirectMemory file(pattern(0, 4096));
  SKIP_WITHOUT_DIRECT(file);
  GatedBackend::close_gate();
  Options options = service_options_for(HostUnderTest::alpi_task);
  options.open_backend = &GatedBackend::open_backend;
  Host host(HostUnderTest::alpi_task, 1, options);
  // Its callback runs in the task that waits for another request, or in the one that polls.
  struct Inner {
    Service* service;
    int fd;
    std::byte byte{};
    std::atomic<int64_t> got{4711};
  } inner{host.service.get(), file.fd()};
  host.workers->spawn([&] {
    iow_request first{};
    first.op = IOW_OP_NOP;
    first.user = &inner;
    first.callback = [](iow_request*, void* user) {
      auto& mine = *static_cast<Inner*>(user);
      mine.got = mine.service->transfer(read_call(mine.fd, &mine.byte, 1, 3));
    };
    iow_request* const one = &first;
    EXPECT_EQ(host.service->submit(std::span(&one, 1)), 1);
    GatedBackend::open_gate();
    while (inner.got == 4711) {
      std::byte byte{};
      EXPECT_EQ(host.service->transfer(read_call(file.fd(), &byte, 1, 4)), 1);
    }
  });
  host.workers->wait();
  EXPECT_EQ(inner.got, 1);
  EXPECT_EQ(inner.byte, test::pattern_at(3));
}

// ---- A task that has the workers to itself

TEST_P(AlpiModes, ALoneTaskIsNotPausedWhereTheRuntimeTellsThatNoneIsReady) {
  const DirectMemory file(pattern(0, 4096));
  SKIP_WITHOUT_DIRECT(file);
  constexpr unsigned kReads = 1000;
  const auto host = open("yields");
  std::atomic<unsigned> right{0};
  host->workers->spawn([&] {
    for (unsigned i = 0; i < kReads; ++i) {
      std::byte byte{};
      right += host->service->transfer(read_call(file.fd(), &byte, 1, i)) == 1 &&
                       byte == test::pattern_at(i)
                   ? 1
                   : 0;
    }
  });
  host->workers->wait();
  EXPECT_EQ(right, kReads);
  const iow_task_stats stats = stats_of(*host->service);
  EXPECT_GT(stats.alone, 0u);
  EXPECT_EQ(stats.alone + stats.pauses, kReads);
  EXPECT_EQ(stats.made_plain, 0u);
  Workload::run(*host, file.fd(), false);  // and beside others all is as ever
}

TEST_P(AlpiModes, ATaskBesidePausedOnesIsPaused) {
  const DirectMemory file(pattern(0, 4096));
  SKIP_WITHOUT_DIRECT(file);
  const auto [which, workers] = GetParam();
  Options options = service_options_for(which);
  options.open_backend = &GatedBackend::open_backend;
  Host host(which, workers, options);
  GatedBackend::close_gate();
  const auto read = [&] {
    std::byte byte{};
    EXPECT_EQ(host.service->transfer(read_call(file.fd(), &byte, 1, 17)), 1);
  };
  host.workers->spawn(read);
  while (stats_of(*host.service).paused != 1) {
    std::this_thread::yield();
  }
  alpi_test_set_mode("yields");
  host.workers->spawn(read);
  while (stats_of(*host.service).paused != 2) {
    std::this_thread::yield();
  }
  GatedBackend::open_gate();
  host.workers->wait();
  EXPECT_EQ(stats_of(*host.service).alone, 0u);
}

// ---- Room for paused tasks

TEST_P(TaskFaults, APauseThatHasEndedTakesNoRoomFromOthers) {
  const DirectMemory file(pattern(0, 4096));
  SKIP_WITHOUT_DIRECT(file);
  GatedBackend::close_gate();
  Options options = service_options_for(GetParam());
  options.open_backend = &GatedBackend::open_backend;
  options.max_paused = 1;
  // A task that reaps needs a worker of its own here.
  const unsigned workers = GetParam() == HostUnderTest::alpi_task ? 2 : 1;
  Host host(GetParam(), workers, options);
  const auto read = [&](size_t offset) {
    std::byte byte{};
    EXPECT_EQ(host.service->transfer(read_call(file.fd(), &byte, 1, static_cast<int64_t>(offset))),
              1);
  };
  host.workers->spawn([&] { read(1); });
  while (stats_of(*host.service).paused != 1) {
    std::this_thread::yield();
  }
  // It has the worker when the first one's transfer ends: that one cannot go on.
  std::atomic<bool> has_begun{false};
  host.workers->spawn([&] {
    has_begun = true;
    while (stats_of(*host.service).paused != 0) {
      std::this_thread::yield();
    }
    read(2);
  });
  while (!has_begun) {
    std::this_thread::yield();
  }
  GatedBackend::open_gate();
  host.workers->wait();
  EXPECT_EQ(stats_of(*host.service).pauses, 2u);
  EXPECT_EQ(stats_of(*host.service).made_plain, 0u);
  EXPECT_EQ(stats_of(*host.service).most_paused, 1u);
}

TEST_P(TaskFaults, AsManyPauseAsMayOneMoreMakesThePlainCallAndLaterOnesPauseAgain) {
  const DirectMemory file(pattern(0, 4096));
  SKIP_WITHOUT_DIRECT(file);
  GatedBackend::close_gate();
  Options options = service_options_for(GetParam());
  options.open_backend = &GatedBackend::open_backend;
  options.max_paused = 3;
  Host host(GetParam(), 1, options);
  const auto read_in_task = [&](std::atomic<int>& right) {
    host.workers->spawn([&] {
      std::byte byte{};
      const int64_t got = host.service->transfer(read_call(file.fd(), &byte, 1, 5));
      right += got == 1 && byte == test::pattern_at(5) ? 1 : 0;
    });
  };
  std::atomic<int> paused{0};
  for (uint32_t task = 1; task <= 3; ++task) {
    read_in_task(paused);
    while (stats_of(*host.service).paused + stats_of(*host.service).made_plain < task) {
      std::this_thread::yield();
    }
  }
  EXPECT_EQ(stats_of(*host.service).paused, 3u);
  std::atomic<int> plain{0};
  read_in_task(plain);
  while (plain == 0 && stats_of(*host.service).pauses == 3) {
    std::this_thread::yield();  // no back end has it, for the gate is closed
  }
  EXPECT_EQ(plain, 1);
  EXPECT_EQ(stats_of(*host.service).made_plain, 1u);
  EXPECT_EQ(stats_of(*host.service).no_room, 1u);
  EXPECT_EQ(stats_of(*host.service).pauses, 3u);
  GatedBackend::open_gate();
  host.workers->wait();
  EXPECT_EQ(paused, 3);
  read_in_task(paused);
  host.workers->wait();
  EXPECT_EQ(paused, 4);
  EXPECT_EQ(stats_of(*host.service).pauses, 4u);
  EXPECT_EQ(stats_of(*host.service).made_plain, 1u);
  EXPECT_EQ(stats_of(*host.service).most_paused, 3u);
}

TEST(MostPaused, OfOneTbbIs2048HoweverManyAreAskedFor) {
  if (const std::string why = missing(HostUnderTest::tbb); !why.empty()) {
    GTEST_SKIP() << why;
  }
  const auto workers = make_workers(HostUnderTest::tbb, 1);  // loads it
  TaskIo tasks;
  tasks.host = tasking::open_task_host(tasking::HostKind::tbb, tasks.why);
  ASSERT_NE(tasks.host, nullptr) << tasks.why;
  for (const auto& [wanted, given] : {std::pair{1u, 1u}, std::pair{2048u, 2048u},
                                      std::pair{2049u, 2048u}, std::pair{1'000'000u, 2048u}}) {
    tasks.limit_paused(wanted);
    EXPECT_EQ(tasks.max_paused, given) << wanted;
  }
}

// ---- Threads and processes that end

TEST(TaskThatReaps, WhatAThreadPostedBeforeItEndedIsNotLost) {
  const test::TempFile file(65536);
  constexpr unsigned kThreads = 50 / kScale;
  constexpr unsigned kEach = 20;
  Host host(HostUnderTest::alpi_task, 1, service_options_for(HostUnderTest::alpi_task));
  std::vector<ssize_t> results(kThreads * kEach, 4711);
  std::atomic<unsigned> successors{0};
  for (unsigned i = 0; i < kThreads; ++i) {
    std::thread([&, i] {
      ASSERT_EQ(host.service->begin_task(
                    [](void* user) { ++*static_cast<std::atomic<unsigned>*>(user); }, &successors),
                0);
      for (unsigned each = 0; each < kEach; ++each) {
        // Waits for the disk in a thread of the kernel's that ends with this one.
        ASSERT_EQ(host.service->bind({Op::fsync, file.fd(), nullptr, 0, 0, false},
                                     &results[i * kEach + each]),
                  0);
      }
      ASSERT_EQ(host.service->end_task(), 0);
    }).join();
  }
  host.service.reset();  // ends all that is under way
  EXPECT_EQ(successors, kThreads);
  EXPECT_EQ(results, std::vector<ssize_t>(kThreads * kEach, 0));
}

enum class End { exit, quick_exit, by_hand, signal };

/// Ends the process while tasks are paused for good.
int end_with_paused_tasks(HostUnderTest which, End how) {
  GatedBackend::close_gate();
  Options options = service_options_for(which);
  options.open_backend = &GatedBackend::open_backend;
  // Never destroyed: the tasks never end.
  static Host& host = *new Host(which, 2, options);
  static const auto& file = *new DirectMemory(pattern(0, 4096));
  if (!file.direct()) {
    return 77;
  }
  constexpr unsigned kPaused = 20;
  for (unsigned task = 0; task < kPaused; ++task) {
    host.workers->spawn([] {
      std::byte byte{};
      static_cast<void>(host.service->transfer(read_call(file.fd(), &byte, 1, 0)));
    });
  }
  while (stats_of(*host.service).paused != kPaused) {
    std::this_thread::yield();
  }
  switch (how) {
    case End::exit:
      std::exit(42);
    case End::quick_exit:
      std::quick_exit(42);
    case End::signal:
      ::raise(SIGKILL);
      break;
    case End::by_hand:
      break;
  }
  return 42;  // by _exit(2)
}

TEST_P(TaskFaults, TheProcessMayEndWhileTasksArePaused) {
  for (const End how : {End::exit, End::quick_exit, End::by_hand, End::signal}) {
    const int code = run_in_child([how] { return end_with_paused_tasks(GetParam(), how); });
    if (code == 77) {
      GTEST_SKIP() << "files in memory have no O_DIRECT: Linux 6.6 is needed";
    }
    EXPECT_EQ(code, how == End::signal ? 128 + SIGKILL : 42);
  }
}

// ---- Writes that are cut

/// Appends beyond the limit on the size of files: 100 bytes fit.
int append_cut_in_a_task() {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{4196, 4196};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) {
    return 77;
  }
  const test::TempFile file(4096);
  const int fd = ::open(file.path().c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  int64_t result = 0;
  {
    Host host(HostUnderTest::alpi_thread, 1, service_options_for(HostUnderTest::alpi_thread));
    host.workers->spawn([&] {
      const std::vector<std::byte> bytes = pattern(4096, 200);
      Call call = write_call(fd, bytes.data(), 200, 0);
      call.exact = true;  // as of libioweave_tasks.so
      result = host.service->transfer(call);
    });
    host.workers->wait();
  }
  std::vector<std::byte> found(8192);
  const ssize_t bytes = ::pread(file.fd(), found.data(), found.size(), 0);
  found.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  return result != 100 ? 1 : found != pattern(0, 4196) ? 2 : 0;
}

TEST(WritesInTasks, AnAppendThatIsCutIsNotRepeated) {
  const int code = run_in_child(&append_cut_in_a_task);
  if (code == 77) {
    GTEST_SKIP() << "the limit on the size of files cannot be set";
  }
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace ioweave::service

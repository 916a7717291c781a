#include "support/faulty_backend.hpp"

#include <cerrno>
#include <map>
#include <set>

#include "backend_fixture.hpp"

// The faults that other tests rely on do happen, are repeatable, and lose nothing.

namespace ioweave::engine {
namespace {

struct Outcome {
  std::vector<int64_t> results;
  std::vector<size_t> order;
  test::FaultCounts counts;
};

/// Reads the same block `count` times through a faulty backend of threads.
Outcome read_many(const test::FaultOptions& faults, size_t count) {
  const test::TempDir directory;
  const Descriptor file(::open(directory.file("data").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(::ftruncate(file.get(), kBlock), 0);
  BackendOptions options;
  options.kind = Kind::threads;
  options.threads = 1;
  int error = 0;
  std::string why;
  test::FaultyBackend backend(open_backend(options, error, why), faults);
  const Block block(kBlock);
  std::vector<Operation> operations(count, transfer(Op::read, file.get(), block.data(), kBlock, 0));
  Outcome outcome;
  std::set<Operation*> seen;
  for (size_t submitted = 0; seen.size() < count;) {
    while (submitted < count && backend.submit(operations[submitted]) == Submitted::queued) {
      ++submitted;
    }
    std::array<Operation*, 16> out{};
    const int got = backend.reap(out, {submitted > seen.size() ? 1u : 0u, kForeverNs, true});
    EXPECT_GE(got, 0);
    for (int i = 0; i < got; ++i) {
      EXPECT_TRUE(seen.insert(out[static_cast<size_t>(i)]).second);
      outcome.order.push_back(static_cast<size_t>(out[static_cast<size_t>(i)] - operations.data()));
    }
  }
  for (const Operation& operation : operations) outcome.results.push_back(operation.result);
  outcome.counts = backend.counts();
  return outcome;
}

TEST(FaultyBackend, WithoutFaultsItIsTheInnerBackend) {
  const Outcome outcome = read_many({}, 100);
  for (const int64_t result : outcome.results) EXPECT_EQ(result, static_cast<int64_t>(kBlock));
}

TEST(FaultyBackend, ShortTransfersMoveAtLeastOneByte) {
  test::FaultOptions faults;
  faults.short_transfer = 0.5;
  const Outcome outcome = read_many(faults, 200);
  size_t shorter = 0;
  for (const int64_t result : outcome.results) {
    EXPECT_GE(result, 1);
    EXPECT_LE(result, static_cast<int64_t>(kBlock));
    shorter += result < static_cast<int64_t>(kBlock);
  }
  EXPECT_EQ(shorter, outcome.counts.short_transfers);
  EXPECT_GT(shorter, 0u);
}

TEST(FaultyBackend, EveryErrorAskedForHappens) {
  test::FaultOptions faults;
  faults.interrupted = faults.again = faults.cancelled = faults.io_error = faults.no_space = 0.2;
  const Outcome outcome = read_many(faults, 400);
  std::map<int64_t, int> seen;
  for (const int64_t result : outcome.results) ++seen[result];
  for (const int64_t error : {-EINTR, -EAGAIN, -ECANCELED, -EIO}) EXPECT_GT(seen[error], 0);
  EXPECT_EQ(seen.count(-ENOSPC), 0u) << "reads need no space";
  EXPECT_GT(seen[static_cast<int64_t>(kBlock)], 0);
}

TEST(FaultyBackend, BusyEndsAfterAFewTries) {
  test::FaultOptions faults;
  faults.busy = 1;
  const Outcome outcome = read_many(faults, 20);
  EXPECT_EQ(outcome.counts.busy, 20 * test::FaultOptions::kMaxBusyRun);
}

TEST(FaultyBackend, DelayAndReorderingChangeTheOrderAndLoseNothing) {
  test::FaultOptions faults;
  faults.delay = 0.5;
  faults.reorder = true;
  const Outcome outcome = read_many(faults, 200);
  EXPECT_FALSE(std::is_sorted(outcome.order.begin(), outcome.order.end()));
  EXPECT_GT(outcome.counts.delayed, 0u);
}

TEST(FaultyBackend, ASeedRepeatsItsFaults) {
  test::FaultOptions faults;
  faults.seed = 42;
  faults.io_error = 0.3;
  EXPECT_EQ(read_many(faults, 100).results, read_many(faults, 100).results);
  faults.seed = 43;
  const std::vector<int64_t> other = read_many(faults, 100).results;
  faults.seed = 42;
  EXPECT_NE(read_many(faults, 100).results, other);
}

TEST(FaultyBackend, VectorsAreShortenedToo) {
  test::FaultOptions faults;
  faults.short_transfer = 1;
  BackendOptions options;
  options.kind = Kind::threads;
  int error = 0;
  std::string why;
  test::FaultyBackend backend(open_backend(options, error, why), faults);
  const test::TempDir directory;
  const Descriptor file(::open(directory.file("data").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const Block a(kBlock, 'a');
  const Block b(kBlock, 'b');
  const std::array<iovec, 2> vectors{{{a.data(), a.size()}, {b.data(), b.size()}}};
  for (int i = 0; i < 50; ++i) {
    Operation operation = vectored(Op::writev, file.get(), vectors, 0);
    ASSERT_EQ(backend.submit(operation), Submitted::queued);
    Operation* out = nullptr;
    ASSERT_EQ(backend.reap({&out, 1}, {1, kForeverNs, true}), 1);
    EXPECT_GE(operation.result, 1);
    EXPECT_LT(operation.result, static_cast<int64_t>(2 * kBlock));
    EXPECT_EQ(operation.vectors, vectors.data()) << "the caller's operation is not changed";
  }
}

}  // namespace
}  // namespace ioweave::engine

#include <cerrno>

#include <sys/syscall.h>
#include <sys/wait.h>

#include "backend_fixture.hpp"
#include "engine/probe.hpp"
#include "support/child.hpp"
#include "support/seccomp.hpp"

// What happens to backends when the process around them changes: fork, filters, exhausted limits.

namespace ioweave::engine {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

using Fork = BackendTest;

TEST_P(Fork, AnAbandonedBackendInTheChildLeavesTheParentAlone) {
  if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer does not fork with threads";
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  ASSERT_EQ(::ftruncate(file.get(), kBlock), 0);
  const Block block(kBlock);
  ASSERT_EQ(run(on_file(Op::fsync, file.get())), 0);  // everything lazy has been started
  Operation operation = transfer(Op::read, file.get(), block.data(), kBlock, 0);
  ASSERT_EQ(backend_->submit(operation), Submitted::queued);
  const int status = test::run_in_child([&] {
    backend_->abandon();
    backend_.reset();
    return 0;
  });
  EXPECT_EQ(status, 0);
  ASSERT_EQ(backend_->flush(), 0);
  ASSERT_EQ(reap_one(), &operation);
  EXPECT_EQ(operation.result, static_cast<int64_t>(kBlock));
  std::array<Operation*, 1> out{};
  backend_->wake();
  EXPECT_EQ(backend_->reap(out, {1, -1, true}), 0);
}

TEST_P(Fork, AChildOpensABackendOfItsOwn) {
  if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer does not fork with threads";
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  ASSERT_EQ(run(on_file(Op::fsync, file.get())), 0);
  const int status = test::run_in_child([&] {
    backend_->abandon();
    open(GetParam().options);
    return backend_ != nullptr && run(on_file(Op::fsync, file.get())) == 0 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, Fork, ::testing::ValuesIn(all_backends()), name_of_case);

/// Opens an io_uring backend in a child where io_uring_setup fails with `error`, and returns 0
/// where the answer is that error and the reason holds all of `words`.
int open_refused(int error, std::initializer_list<const char*> words) {
  return test::run_in_child([&] {
    if (!test::refuse_syscall(SYS_io_uring_setup, error)) return 77;
    int got = 0;
    std::string why;
    if (open_backend({}, got, why) != nullptr) return 1;
    if (got != -error) return 2;
    for (const char* word : words) {
      if (why.find(word) == std::string::npos) {
        std::fprintf(stderr, "'%s' is not in: %s\n", word, why.c_str());
        return 3;
      }
    }
    return 0;
  });
}

TEST(Seccomp, EpermIsExplained) {
  const int status = open_refused(EPERM, {"seccomp", "EPERM", "container", "io_uring_setup"});
  if (status == 77) GTEST_SKIP() << "seccomp filters are not available";
  EXPECT_EQ(status, 0);
}

TEST(Seccomp, EnosysIsExplained) {
  const int status = open_refused(ENOSYS, {"seccomp", "ENOSYS", "container", "io_uring_setup"});
  if (status == 77) GTEST_SKIP() << "seccomp filters are not available";
  EXPECT_EQ(status, 0);
}

TEST(Seccomp, TooManyDescriptorsIsExplained) {
  const int status = open_refused(EMFILE, {"descriptor", "ulimit -n"});
  if (status == 77) GTEST_SKIP() << "seccomp filters are not available";
  EXPECT_EQ(status, 0);
}

TEST(Seccomp, TheNextTierIsTaken) {
  const int status = test::run_in_child([] {
    if (!test::refuse_syscall(SYS_io_uring_setup, EPERM)) return 77;
    std::string why;
    const BackendOptions best = best_backend({}, why);
    if (best.kind != Kind::threads || why.find("EPERM") == std::string::npos) return 1;
    int error = 0;
    return open_backend(best, error, why) != nullptr ? 0 : 2;
  });
  if (status == 77) GTEST_SKIP() << "seccomp filters are not available";
  EXPECT_EQ(status, 0);
}

TEST(NoLockedMemory, ABackendOpensOrSaysWhatToRaise) {
  const int status = test::run_in_child([] {
    if (!test::limit_locked_memory(0)) return 77;
    int error = 0;
    std::string why;
    if (open_backend({}, error, why) != nullptr) return 0;
    if (error != -ENOMEM || why.find("ulimit -l") == std::string::npos) return 1;
    return best_backend({}, why).kind == Kind::threads ? 0 : 2;
  });
  if (status == 77) GTEST_SKIP() << "locked memory cannot be limited here";
  EXPECT_EQ(status, 0);
}

TEST(ThreadExhaustion, TheOwnerDoesTheWorkItself) {
  if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer needs clone for itself";
  const int status = test::run_in_child([] {
    if (!test::refuse_syscall(SYS_clone3, EAGAIN) || !test::refuse_syscall(SYS_clone, EAGAIN)) {
      return 77;
    }
    BackendOptions options;
    options.kind = Kind::threads;
    int error = 0;
    std::string why;
    const auto backend = open_backend(options, error, why);
    if (backend == nullptr) return 1;
    std::array<Operation, 20> operations{};
    for (Operation& operation : operations) {
      if (backend->submit(operation) != Submitted::queued) return 2;
    }
    std::array<Operation*, 32> out{};
    return backend->reap(out, {20, kForeverNs, true}) == 20 ? 0 : 3;
  });
  if (status == 77) GTEST_SKIP() << "seccomp filters are not available";
  EXPECT_EQ(status, 0);
}

TEST(OpenBackend, ABackendWithoutRoomIsRefused) {
  BackendOptions options;
  options.entries = 0;
  int error = 0;
  std::string why;
  EXPECT_EQ(open_backend(options, error, why), nullptr);
  EXPECT_EQ(error, -EINVAL);
  EXPECT_NE(why.find("entries"), std::string::npos);
}

TEST(OpenBackend, AnyNumberOfEntriesOpens) {
  for (const uint32_t entries : {1u, 3u, 100u, 4096u, 100'000u}) {
    BackendOptions options;
    options.entries = entries;
    int error = 0;
    std::string why;
    const auto backend = open_backend(options, error, why);
    if (backend == nullptr) GTEST_SKIP() << why;
    Operation operation;
    ASSERT_EQ(backend->submit(operation), Submitted::queued);
    Operation* out = nullptr;
    EXPECT_EQ(backend->reap({&out, 1}, {1, kForeverNs, true}), 1);
  }
}

}  // namespace
}  // namespace ioweave::engine

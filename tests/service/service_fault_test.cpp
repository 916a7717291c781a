// Back ends that misbehave: nothing may be lost, mixed up or left hanging.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "fixture.hpp"
#include "support/child.hpp"
#include "support/faulty_backend.hpp"
#include "support/seccomp.hpp"

namespace ioweave::service {
namespace {

using test::pattern;
using test::TempFile;
constexpr size_t kFileBytes = 1 << 20;

test::FaultOptions faults;

std::unique_ptr<engine::Backend> open_faulty(const engine::BackendOptions& options, int& error,
                                             std::string& why) {
  auto inner = engine::open_backend(options, error, why);
  if (inner == nullptr) {
    return nullptr;
  }
  test::FaultOptions mine = faults;
  static std::atomic<uint64_t> lanes{0};
  mine.seed += lanes++;
  return std::make_unique<test::FaultyBackend>(std::move(inner), mine);
}

/// On threads everything goes through a pump, on io_uring through the lane of the caller.
class ServiceUnderFaults : public ::testing::TestWithParam<std::tuple<engine::Kind, uint64_t>> {
 protected:
  [[nodiscard]] static uint64_t seed() { return std::get<1>(GetParam()); }

  [[nodiscard]] static Service::Owner open_with(const test::FaultOptions& options) {
    faults = options;
    if (std::get<0>(GetParam()) == engine::Kind::uring) {
      faults.busy = 0;  // an empty ring is never busy, and a lane relies on it
    }
    int error = 0;
    std::string why;
    Options wanted;
    wanted.engine = std::get<0>(GetParam());
    wanted.open_backend = &open_faulty;
    auto service = Service::open(wanted, error, why);
    EXPECT_NE(service, nullptr) << why;
    return service;
  }
};
INSTANTIATE_TEST_SUITE_P(, ServiceUnderFaults,
                         ::testing::Combine(::testing::Values(engine::Kind::threads,
                                                              engine::Kind::uring),
                                            ::testing::Values(1, 2, 3, 4, 5, 6)));

TEST_P(ServiceUnderFaults, PassingFaultsNeverShow) {
  SCOPED_TRACE("seed " + std::to_string(seed()));
  test::FaultOptions options;
  options.seed = seed();
  options.short_transfer = 0.3;
  options.interrupted = 0.1;
  options.again = 0.1;
  options.cancelled = 0.1;
  options.busy = 0.1;
  options.delay = 0.2;
  options.reorder = true;
  const auto service = open_with(options);
  const TempFile file(kFileBytes);
  std::mt19937 random(static_cast<unsigned>(seed()));
  std::vector<std::byte> buffer(32 * 4096);
  for (int round = 0; round < 20; ++round) {
    std::array<iow_request, 32> requests;
    std::array<int64_t, 32> offsets{};
    for (size_t i = 0; i < requests.size(); ++i) {
      offsets[i] = random() % (kFileBytes - 4096);
      requests[i] = make_request(IOW_OP_READ, file.fd(), &buffer[i * 4096], 4096, offsets[i]);
      ASSERT_EQ(submit_one(*service, requests[i]), 1);
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      ASSERT_EQ(service->wait(requests[i], -1), 0);
      ASSERT_EQ(requests[i].result, 4096);
      const auto* begin = &buffer[i * 4096];
      ASSERT_EQ(std::vector(begin, begin + 4096), pattern(static_cast<uint64_t>(offsets[i]), 4096));
    }
  }
  iow_stats stats{};
  service->statistics(stats);
  EXPECT_GT(stats.continued, 0u);
  EXPECT_GT(stats.reissued, 0u);
}

TEST_P(ServiceUnderFaults, LastingErrorsReachTheirOwnRequest) {
  SCOPED_TRACE("seed " + std::to_string(seed()));
  test::FaultOptions options;
  options.seed = seed();
  options.io_error = 0.2;
  options.no_space = 0.2;
  options.reorder = true;
  const auto service = open_with(options);
  const TempFile file(kFileBytes);
  std::vector<std::byte> content = pattern(0, kFileBytes);
  std::vector<iow_request> requests(200);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i] = make_request(IOW_OP_WRITE, file.fd(), &content[i * 1000], 1000,
                               static_cast<int64_t>(i * 1000));
    ASSERT_EQ(submit_one(*service, requests[i]), 1);
  }
  std::map<int64_t, int> results;
  for (iow_request& request : requests) {
    ASSERT_EQ(service->wait(request, -1), 0);
    ++results[request.result];
  }
  EXPECT_GT(results[-EIO], 0);
  EXPECT_GT(results[-ENOSPC], 0);
  EXPECT_EQ(results[1000] + results[-EIO] + results[-ENOSPC], 200);
  iow_stats stats{};
  service->statistics(stats);
  EXPECT_EQ(stats.failed, static_cast<uint64_t>(results[-EIO] + results[-ENOSPC]));
}

TEST_P(ServiceUnderFaults, ClosingUnderFaultsCompletesEverything) {
  SCOPED_TRACE("seed " + std::to_string(seed()));
  test::FaultOptions options;
  options.seed = seed();
  options.short_transfer = 0.5;
  options.io_error = 0.1;
  options.busy = 0.3;
  options.delay = 0.5;
  options.reorder = true;
  auto service = open_with(options);
  const TempFile file(kFileBytes);
  std::vector<std::byte> buffer(100 * 100);
  std::vector<iow_request> requests(100);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i] = make_request(IOW_OP_READ, file.fd(), &buffer[i * 100], 100, 0);
    ASSERT_EQ(submit_one(*service, requests[i]), 1);
  }
  service.reset();
  for (const iow_request& request : requests) {
    EXPECT_TRUE(request.result == 100 || request.result == -EIO ||
                (request.result > 0 && request.result < 100))
        << request.result;
  }
}

// ---- Where the system refuses what the service would like ---------------------------------------

bool reads_a_file(Service& service) {
  const TempFile file(10000);
  std::vector<std::byte> buffer(10000);
  iow_request request = make_request(IOW_OP_READ, file.fd(), buffer.data(), 10000, 0);
  return submit_one(service, request) == 1 && service.wait(request, -1) == 0 &&
         buffer == pattern(0, 10000);
}

bool mentions(const std::string& text, const char* word) {
  return text.find(word) != std::string::npos;
}

/// In a child that `confine` has put into a hard place, with a service opened there (null where it
/// could not be): `well` is true.
void expect_where(const std::function<bool()>& confine, const Options& options,
                  const std::function<bool(Service*, int error, const std::string& why)>& well) {
  constexpr int kNotConfined = 77;
  const int code = test::run_in_child([&] {
    if (!confine()) {
      return kNotConfined;
    }
    int error = 0;
    std::string why;
    const auto service = Service::open(options, error, why);
    return well(service.get(), error, why) ? 0 : 1;
  });
  if (code == kNotConfined) {
    GTEST_SKIP() << "the process could not be confined (a seccomp filter or a limit)";
  }
  EXPECT_EQ(code, 0);
}

auto refused(int error) {
  return [error] { return test::refuse_syscall(SYS_io_uring_setup, error); };
}

auto works_on_threads_because(const char* word) {
  return [word](Service* service, int, const std::string&) {
    return service != nullptr && std::string_view(service->engine_name()) == "threads" &&
           mentions(service->fallback_reason(), word) && reads_a_file(*service);
  };
}

TEST(ServiceFallback, WorksWhereSeccompAnswersEPERM) {
  expect_where(refused(EPERM), {}, works_on_threads_because("seccomp"));
}
TEST(ServiceFallback, WorksWhereSeccompAnswersENOSYS) {
  expect_where(refused(ENOSYS), {}, works_on_threads_because("ENOSYS"));
}

TEST(ServiceFallback, WorksWithoutLockedMemory) {
  expect_where([] { return test::limit_locked_memory(0); }, {},
               [](Service* service, int, const std::string&) {
                 // Kernels differ in whether a ring counts as locked memory.
                 return service != nullptr &&
                        (std::string_view(service->engine_name()) == "io_uring" ||
                         mentions(service->fallback_reason(), "locked memory")) &&
                        reads_a_file(*service);
               });
}

TEST(ServiceFallback, RequiredMeansRequired) {
  Options options;
  options.required = true;
  expect_where(refused(EPERM), options, [](Service* service, int error, const std::string& why) {
    return service == nullptr && error == -EPERM && !why.empty();
  });
}

TEST(ServiceFallback, RequiredIsRefusedWhereTheModeWouldHarm) {
  const auto one_core = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
  };
  Options options;
  options.mode = engine::UringMode::sqpoll;
  options.required = true;
  expect_where(one_core, options, [](Service* service, int error, const std::string& why) {
    return service == nullptr && error == -EOPNOTSUPP && mentions(why, "cores");
  });
}

// Whether queues are polled shows at the first transfer only.
TEST(ServiceFallback, ADeviceThatIsNotPolledIsReadByThreads) {
  Options options;
  options.mode = engine::UringMode::iopoll;
  int error = 0;
  std::string why;
  const auto service = Service::open(options, error, why);
  ASSERT_NE(service, nullptr) << why;
  if (std::string_view(service->engine_name()) != "io_uring+iopoll") {
    GTEST_SKIP() << service->fallback_reason();
  }
  constexpr size_t kBytes = 64 << 10;
  const TempFile file(kBytes);
  const int direct = ::open(file.path().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (direct < 0) {
    GTEST_SKIP() << "no O_DIRECT here";
  }
  struct Free {
    void operator()(std::byte* memory) const { ::free(memory); }
  };
  const std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(::aligned_alloc(4096, kBytes)));
  // In the lane of this thread, through the reaper, and once more when it is known.
  std::atomic<int> called{0};
  for (int round = 0; round < 3; ++round) {
    std::fill_n(memory.get(), kBytes, std::byte{0});
    iow_request request = make_request(IOW_OP_READ, direct, memory.get(), kBytes, 0);
    if (round == 1) {
      request.callback = [](iow_request*, void* user) { ++*static_cast<std::atomic<int>*>(user); };
      request.user = &called;
    }
    ASSERT_EQ(submit_one(*service, request), 1);
    while (round == 1 && called == 0) {
      ::sched_yield();
    }
    ASSERT_EQ(service->wait(request, -1), 0);
    EXPECT_EQ(request.result, int64_t{kBytes});
    EXPECT_EQ(std::vector(memory.get(), memory.get() + kBytes), pattern(0, kBytes));
  }
  ::close(direct);
  const std::string_view engine = service->engine_name();
  EXPECT_TRUE(engine == "io_uring+iopoll" ||
              (engine == "threads" && mentions(service->fallback_reason(), "not polled")))
      << engine << ", " << service->fallback_reason();
}

std::unique_ptr<engine::Backend> no_ring_for_pumps(const engine::BackendOptions& options,
                                                   int& error, std::string& why) {
  if (options.single_owner && options.kind == engine::Kind::uring) {
    error = -EMFILE;
    why = "no descriptor is left";
    return nullptr;
  }
  return engine::open_backend(options, error, why);
}

TEST(ServiceFallback, CallbacksHaveAThreadOfTheirOwnWithoutARingToo) {
  Options options;
  options.open_backend = &no_ring_for_pumps;
  int error = 0;
  std::string why;
  const auto service = Service::open(options, error, why);
  ASSERT_NE(service, nullptr) << why;
  if (std::string_view(service->engine_name()) != "io_uring") {
    GTEST_SKIP() << service->fallback_reason();
  }
  EXPECT_STREQ(service->fallback_reason(), "");
  const TempFile file(10000);
  std::vector<std::byte> buffer(10000);
  std::atomic<pthread_t> runner{pthread_self()};
  iow_request request = make_request(IOW_OP_READ, file.fd(), buffer.data(), 10000, 0);
  request.callback = [](iow_request*, void* user) {
    static_cast<std::atomic<pthread_t>*>(user)->store(pthread_self());
  };
  request.user = &runner;
  ASSERT_EQ(submit_one(*service, request), 1);
  EXPECT_TRUE(mentions(service->fallback_reason(), "no descriptor is left"));
  iow_stats stats{};
  service->statistics(stats);
  EXPECT_EQ(stats.fallbacks, 1u) << "a worker thread does what the engine could not";
  while (runner.load() == pthread_self()) {
    ::sched_yield();
  }
  EXPECT_EQ(buffer, pattern(0, 10000));
}

/// Passes an operation on only when somebody has already asked that it be given up.
class LateBackend final : public engine::Backend {
 public:
  explicit LateBackend(std::unique_ptr<engine::Backend> inner) : inner_(std::move(inner)) {}

  static inline std::atomic<bool> submitting{false};

  [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }
  [[nodiscard]] engine::Submitted submit(engine::Operation& operation) noexcept override {
    submitting = true;
    while (!cancel_asked_) {
      ::sched_yield();
    }
    return inner_->submit(operation);
  }
  [[nodiscard]] int flush() noexcept override { return inner_->flush(); }
  [[nodiscard]] int reap(std::span<engine::Operation*> out,
                         const engine::Reap& how) noexcept override {
    return inner_->reap(out, how);
  }
  void wake() noexcept override { inner_->wake(); }
  [[nodiscard]] int cancel(engine::Operation& operation) noexcept override {
    const int status = inner_->cancel(operation);
    cancel_asked_ = true;
    return status;
  }
  void abandon() noexcept override { inner_->abandon(); }

 private:
  const std::unique_ptr<engine::Backend> inner_;
  std::atomic<bool> cancel_asked_{false};
};

TEST(ServiceCancel, MeetsAPumpThatHasTakenTheRequestAndNotHandedItOver) {
  Options options;
  options.open_backend = [](const engine::BackendOptions& wanted, int& error,
                            std::string& why) -> std::unique_ptr<engine::Backend> {
    auto inner = engine::open_backend(wanted, error, why);
    if (inner == nullptr || !wanted.single_owner) {
      return inner;
    }
    return std::make_unique<LateBackend>(std::move(inner));
  };
  int error = 0;
  std::string why;
  const auto service = Service::open(options, error, why);
  ASSERT_NE(service, nullptr) << why;
  if (std::string_view(service->engine_name()) != "io_uring") {
    GTEST_SKIP() << service->fallback_reason();
  }
  test::Gate gate;
  iow_request request = gate.wait_for_byte();
  request.callback = [](iow_request* ended, void* user) {
    static_cast<std::atomic<int64_t>*>(user)->store(ended->result);
  };
  constexpr int64_t kNotYet = 2;
  std::atomic<int64_t> result{kNotYet};
  request.user = &result;
  LateBackend::submitting = false;
  ASSERT_EQ(submit_one(*service, request), 1);
  while (!LateBackend::submitting) {
    ::sched_yield();
  }
  const int cancelled = service->cancel(request);
  EXPECT_EQ(cancelled, 0);
  if (cancelled != 0) {
    gate.open();  // it ends in any case
  }
  while (result.load() == kNotYet) {
    ::sched_yield();
  }
  EXPECT_EQ(result.load(), -ECANCELED);
}

TEST(ServiceFallback, WithoutThreadsOfItsOwnTheCallerCarriesOut) {
  Options options;
  options.own_threads = false;
  int error = 0;
  std::string why;
  const auto service = Service::open(options, error, why);
  ASSERT_NE(service, nullptr) << why;
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  ASSERT_EQ(::write(pipe_ends[1], "x", 1), 1);
  const TempFile file(10000);
  std::vector<std::byte> buffer(10000);
  std::byte from_pipe{};
  std::array<iow_request, 3> requests{
      make_request(IOW_OP_READ, file.fd(), buffer.data(), 10000, 0),
      make_request(IOW_OP_READ, pipe_ends[0], &from_pipe, 1, 0),  // of the stream, as by an engine
      make_request(IOW_OP_PREFETCH, file.fd(), nullptr, 4096, 0)};
  for (iow_request& request : requests) {
    pthread_t runner{};
    request.callback = [](iow_request*, void* user) {
      *static_cast<pthread_t*>(user) = pthread_self();
    };
    request.user = &runner;
    ASSERT_EQ(submit_one(*service, request), 1);
    EXPECT_EQ(runner, pthread_self());
  }
  EXPECT_EQ(buffer, pattern(0, 10000));
  EXPECT_EQ(requests[1].result, 1);
  EXPECT_EQ(from_pipe, static_cast<std::byte>('x'));
  EXPECT_EQ(requests[2].result, 4096);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

TEST(ServiceFallback, WorksWithoutAnyThread) {
  const auto confine = [] {
    // glibc falls back from clone3 to clone on ENOSYS.
    return test::refuse_syscall(SYS_io_uring_setup, EPERM) &&
           test::refuse_syscall(SYS_clone3, ENOSYS) && test::refuse_syscall(SYS_clone, EAGAIN);
  };
  expect_where(confine, {}, [](Service* service, int, const std::string&) {
    return service != nullptr && reads_a_file(*service);
  });
}

}  // namespace
}  // namespace ioweave::service

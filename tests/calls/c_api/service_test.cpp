// Opening a service in C: options, their limits and texts; engines; closing; fork; errno.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "fixture.hpp"
#include "support/child.hpp"
#include "support/seccomp.hpp"

namespace ioweave::test {
namespace {

using ::testing::HasSubstr;

/// Any number in a field of C's enumeration types, as a C program can put it there.
template <typename Enum>
void set_raw(Enum& field, uint32_t value) {
  static_assert(sizeof field == sizeof value);
  std::memcpy(&field, &value, sizeof value);
}

TEST(CVersion, IsThatOfTheHeader) {
  const std::string expected = std::to_string(IOW_VERSION_MAJOR) + "." +
                               std::to_string(IOW_VERSION_MINOR) + "." +
                               std::to_string(IOW_VERSION_PATCH);
  EXPECT_EQ(iow_version_string(), expected);
}

// ---- Options
// -------------------------------------------------------------------------------------

struct BadOption {
  const char* name;
  std::function<void(iow_options&)> spoil;
  std::vector<std::string> words;  ///< of the text
};
void PrintTo(const BadOption& option, std::ostream* out) {
  *out << option.name;
}

class COptionOutOfRange : public ::testing::TestWithParam<BadOption> {};

TEST_P(COptionOutOfRange, IsRefusedByName) {
  iow_options options{};
  options.engine = IOW_ENGINE_THREADS;
  GetParam().spoil(options);
  ErrorText text;
  auto* service = reinterpret_cast<iow_service*>(&options);  // must not stay
  EXPECT_EQ(iow_service_open(&service, &options, text.out()), -EINVAL);
  EXPECT_EQ(service, nullptr);
  for (const std::string& word : GetParam().words) {
    EXPECT_THAT(text.str(), HasSubstr(word));
  }
  EXPECT_EQ(iow_service_open(&service, &options, nullptr), -EINVAL) << "nobody asked for a text";
}

INSTANTIATE_TEST_SUITE_P(
    , COptionOutOfRange,
    ::testing::Values(
        BadOption{"size_1", [](iow_options& o) { o.size = 1; }, {"options.size"}},
        BadOption{"size_3", [](iow_options& o) { o.size = 3; }, {"options.size"}},
        BadOption{
            "engine_4", [](iow_options& o) { set_raw(o.engine, 4); }, {"engine", "0..3", "4"}},
        BadOption{"engine_huge",
                  [](iow_options& o) { set_raw(o.engine, UINT32_MAX); },
                  {"engine", "4294967295"}},
        BadOption{"mode_3", [](iow_options& o) { set_raw(o.mode, 3); }, {"mode", "0..2", "3"}},
        BadOption{"mode_huge", [](iow_options& o) { set_raw(o.mode, 1u << 31); }, {"mode"}},
        BadOption{
            "sqpoll_of_threads", [](iow_options& o) { o.mode = IOW_MODE_SQPOLL; }, {"sqpoll"}},
        BadOption{"iopoll_of_aio",
                  [](iow_options& o) {
                    o.engine = IOW_ENGINE_AIO;
                    o.mode = IOW_MODE_IOPOLL;
                  },
                  {"iopoll", "io_uring"}},
        BadOption{"queue_depth_4097",
                  [](iow_options& o) { o.queue_depth = 4097; },
                  {"queue_depth", "1..4096", "4097"}},
        BadOption{"io_processors_no_list",
                  [](iow_options& o) { o.io_processors = "1-"; },
                  {"io_processors", "'1-'", "0,2-5"}},
        BadOption{"io_processors_elsewhere",
                  [](iow_options& o) { o.io_processors = "1023"; },
                  {"io_processors", "may not use processor 1023, only"}},
        BadOption{
            "threads_257", [](iow_options& o) { o.threads = 257; }, {"threads", "1..256", "257"}},
        BadOption{"max_paused_1000001",
                  [](iow_options& o) { o.max_paused = 1'000'001; },
                  {"max_paused", "0..1000000", "1000001"}},
        BadOption{"poll_min_us_1000001",
                  [](iow_options& o) { o.poll_min_us = 1'000'001; },
                  {"poll_min_us", "1..1000000", "1000001"}},
        BadOption{"poll_max_us_1000001",
                  [](iow_options& o) { o.poll_max_us = 1'000'001; },
                  {"poll_max_us", "..1000000", "1000001"}},
        BadOption{"poll_max_us_below_the_least",
                  [](iow_options& o) {
                    o.poll_min_us = 50;
                    o.poll_max_us = 49;
                  },
                  {"poll_max_us", "50..", "49"}},
        BadOption{"poll_max_us_below_the_default_of_the_least",
                  [](iow_options& o) { o.poll_max_us = 19; },
                  {"poll_max_us", "20..", "19"}}),
    [](const auto& option) { return std::string(option.param.name); });

TEST(COpen, TakesTheEndsOfEveryRange) {
  for (const auto& [depth, threads] : {std::pair{1u, 1u}, std::pair{4096u, 256u}}) {
    iow_options options{};
    options.engine = IOW_ENGINE_THREADS;
    options.queue_depth = depth;
    options.threads = threads;
    std::string why;
    EXPECT_NE(open_service(options, &why), nullptr) << why;
  }
}

TEST(COpen, TakesTheEndsOfTheRangesForTasks) {
  struct Given {
    uint32_t max_paused, poll_min_us, poll_max_us;
  };
  for (const Given& given : {Given{1, 1, 1}, Given{1'000'000, 1'000'000, 1'000'000},
                             Given{1, 1'000'000, 0}, Given{1, 0, 20}}) {
    iow_options options{};
    options.engine = IOW_ENGINE_THREADS;
    options.max_paused = given.max_paused;
    options.poll_min_us = given.poll_min_us;
    options.poll_max_us = given.poll_max_us;
    std::string why;
    EXPECT_NE(open_service(options, &why), nullptr) << why;
  }
}

TEST(COpen, NoOptionsAndZeroedOptionsMeanTheDefaults) {
  ErrorText text;
  iow_service* opened = nullptr;
  ASSERT_EQ(iow_service_open(&opened, nullptr, text.out()), 0);
  const OwnedService by_null(opened);
  EXPECT_EQ(text.str(), "");
  const OwnedService by_zeros = open_service({});
  ASSERT_NE(by_zeros, nullptr);
  EXPECT_STREQ(iow_service_engine(by_null.get(), nullptr),
               iow_service_engine(by_zeros.get(), nullptr));
}

TEST(COpen, SetsTheTextToNullWhereItSucceeds) {
  ErrorText text;
  iow_service* service = nullptr;
  ASSERT_EQ(iow_service_open(&service, nullptr, text.out()), 0);
  const OwnedService owned(service);
  EXPECT_FALSE(text.untouched());
  EXPECT_EQ(text.str(), "");
}

/// The processors of each of this process's threads with such a name.
std::vector<std::string> all_processors_of_threads(const std::string& name) {
  std::vector<std::string> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    bool is_named = false;
    for (std::string line; std::getline(status, line);) {
      is_named = is_named || line.rfind("Name:\t" + name, 0) == 0;
      if (is_named && line.rfind("Cpus_allowed_list:\t", 0) == 0) {
        found.push_back(line.substr(line.find('\t') + 1));
      }
    }
  }
  return found;
}

/// As a set.
std::vector<std::string> processors_of_threads(const std::string& name) {
  std::vector<std::string> found = all_processors_of_threads(name);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

TEST(COpen, ItsThreadsAndTheKernelsWorkersKeepToTheProcessorsForIo) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  if (CPU_COUNT(&allowed) < 2) {
    GTEST_SKIP() << "this process may use one processor only";
  }
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &allowed)) {
    --last;
  }
  const std::string wanted = std::to_string(last);
  for (const iow_engine engine : {IOW_ENGINE_URING, IOW_ENGINE_THREADS}) {
    iow_options options{};
    options.engine = engine;
    options.io_processors = wanted.c_str();
    const OwnedService service = open_service(options);
    ASSERT_NE(service, nullptr);
    const TempFile file(4096);
    Calls calls;
    std::array<std::byte, 4096> bytes{};
    std::array<iow_request, 4> requests{};
    for (iow_request& request : requests) {
      request = make_request(IOW_OP_WRITE, file.fd(), bytes.data(), bytes.size(), 0);
      request.callback = &note_call;
      request.user = &calls;
      iow_request* const one = &request;
      ASSERT_EQ(iow_submit(service.get(), &one, 1), 1);
    }
    await(calls.count, 4);
    EXPECT_EQ(processors_of_threads("ioweave-"), std::vector<std::string>{wanted});
    const std::vector<std::string> workers = processors_of_threads("iou-wrk-");
    EXPECT_TRUE(workers.empty() || workers == std::vector<std::string>{wanted})
        << ::testing::PrintToString(workers);
  }
}

TEST(COpen, NowhereToPutTheServiceIsRefusedWithAText) {
  ErrorText text;
  EXPECT_EQ(iow_service_open(nullptr, nullptr, text.out()), -EINVAL);
  EXPECT_THAT(text.str(), HasSubstr("service"));
  EXPECT_EQ(iow_service_open(nullptr, nullptr, nullptr), -EINVAL);
}

TEST(COpen, OfAnOlderAndShorterStructOnlyTheFieldsThatItHasCount) {
  iow_options options{};
  options.size = offsetof(iow_options, queue_depth);
  options.engine = IOW_ENGINE_THREADS;
  options.queue_depth = 99'999;  // behind the end of the struct that the caller knows
  options.threads = 99'999;
  const OwnedService service = open_service(options);
  ASSERT_NE(service, nullptr);
  EXPECT_STREQ(iow_service_engine(service.get(), nullptr), "threads");

  options.size = offsetof(iow_options, threads);
  std::string why;
  EXPECT_EQ(open_service(options, &why), nullptr);
  EXPECT_THAT(why, HasSubstr("queue_depth"));
}

TEST(COpen, OfANewerAndLongerStructTheUnknownFieldsAreLeftAlone) {
  struct Newer {
    iow_options known{};
    std::array<uint32_t, 64> more{};
  } newer;
  newer.known.size = sizeof newer;
  newer.known.engine = IOW_ENGINE_THREADS;
  newer.more.fill(0xffff'ffff);
  const OwnedService service = open_service(newer.known);
  ASSERT_NE(service, nullptr);
  EXPECT_STREQ(iow_service_engine(service.get(), nullptr), "threads");
}

// ---- Engines
// -------------------------------------------------------------------------------------

class CEngine : public OnEveryEngine {};
INSTANTIATE_TEST_SUITE_P(, CEngine, every_engine(), name_of);

TEST_P(CEngine, IsTheOneRequiredAndHasNothingToExplain) {
  const char* why = nullptr;
  const std::string engine = iow_service_engine(service, &why);
  EXPECT_EQ(engine, GetParam() == IOW_ENGINE_URING ? "io_uring"
                    : GetParam() == IOW_ENGINE_AIO ? "aio"
                                                   : "threads");
  EXPECT_STREQ(why, "");
}

size_t count_threads(const std::string& name) {
  return all_processors_of_threads(name).size();
}

TEST_P(CEngine, HasNoThreadUntilOneIsNeededAndNotMoreThanIsSaid) {
  constexpr uint32_t kWorkers = 3;
  iow_options options{};
  options.threads = kWorkers;
  close();
  open(options);
  EXPECT_EQ(count_threads("ioweave-"), 0u);
  EXPECT_EQ(stats_of(service).lanes, 0u);
  std::byte byte{};
  const TempFile file(100);
  EXPECT_EQ(iow_pread(service, file.fd(), &byte, 1, 0), 1);
  iow_request plain = make_nop();
  EXPECT_EQ(result_of(plain), 0);
  const size_t without_a_callback = GetParam() == IOW_ENGINE_URING ? 0u : count_threads("ioweave-");
  EXPECT_EQ(count_threads("ioweave-"), without_a_callback) << "the thread's own ring takes it";

  Gate gate;
  Calls calls;
  std::array<std::byte, 10> bytes{};
  std::array<iow_request, 10> requests;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests.at(i) = make_request(IOW_OP_READ, gate.fd(), &bytes.at(i), 1, -1);
    requests.at(i).callback = &note_call;
    requests.at(i).user = &calls;
    ASSERT_EQ(submit(requests.at(i)), 1);
  }
  const bool has_workers = GetParam() != IOW_ENGINE_URING;
  while (has_workers && count_threads("ioweave-io") < kWorkers) {
    std::this_thread::yield();
  }
  gate.open("0123456789");
  await(calls.count, 10);
  EXPECT_EQ(count_threads("ioweave-io"), has_workers ? kWorkers : 0u);
  // The reaper, and what takes from it what native AIO cannot do.
  EXPECT_EQ(count_threads("ioweave-pump"), GetParam() == IOW_ENGINE_AIO ? 2u : 1u);
  EXPECT_EQ(stats_of(service).lanes, GetParam() == IOW_ENGINE_AIO ? 3u : 2u);
  close();
  EXPECT_EQ(count_threads("ioweave-"), 0u);
}

TEST_P(CEngine, ClosingCompletesWhatIsInFlightWaitingOrHeldBack) {
  constexpr size_t kEach = 50;
  Calls calls;
  std::vector<iow_request> requests(3 * kEach);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i] = make_nop();
    requests[i].result = -1;
    requests[i].callback = i % 3 == 0 ? nullptr : &note_call;
    requests[i].user = &calls;
    requests[i].flags = i % 3 == 1 ? IOW_CALLBACK_ON_POLL | IOW_MORE : IOW_MORE;
    ASSERT_EQ(submit(requests[i]), 1);
  }
  close();
  EXPECT_EQ(calls.count, static_cast<int>(2 * kEach));
  EXPECT_TRUE(std::all_of(requests.begin(), requests.end(),
                          [](const iow_request& request) { return request.result == 0; }));
}

TEST(CClose, TakesNull) {
  iow_service_close(nullptr);
}

TEST(COpen, RequiredFailsWithTheEnginesOwnErrorAndOtherwiseTheNextOneServes) {
  constexpr int kNoFilter = 77;
  const int code = run_in_child([] {
    if (!refuse_syscall(SYS_io_uring_setup, EPERM)) {
      return kNoFilter;
    }
    iow_options options{};
    options.required = 1;
    char* text = nullptr;
    iow_service* service = nullptr;
    for (const iow_engine engine : {IOW_ENGINE_AUTO, IOW_ENGINE_URING}) {
      options.engine = engine;
      if (iow_service_open(&service, &options, &text) != -EPERM || service != nullptr ||
          text == nullptr || *text == '\0') {
        return 1;
      }
      std::free(text);
    }
    options.required = 0;
    const char* why = nullptr;
    if (iow_service_open(&service, &options, &text) != 0 || text != nullptr) {
      return 2;
    }
    if (std::string(iow_service_engine(service, &why)) != "threads") {
      return 3;
    }
    const bool explained = std::strstr(why, "io_uring: ") != nullptr;
    iow_service_close(service);
    return explained ? 0 : 4;
  });
  if (code == kNoFilter) {
    GTEST_SKIP() << "no seccomp filter can be installed here";
  }
  EXPECT_EQ(code, 0);
}

TEST(COpen, RequiredSqpollIsSqpollOrAnError) {
  iow_options options{};
  options.mode = IOW_MODE_SQPOLL;
  options.required = 1;
  ErrorText text;
  iow_service* service = nullptr;
  const int error = iow_service_open(&service, &options, text.out());
  const OwnedService owned(service);
  if (service != nullptr) {
    EXPECT_EQ(error, 0);
    EXPECT_STREQ(iow_service_engine(service, nullptr), "io_uring+sqpoll");
    return;
  }
  EXPECT_LT(error, 0);
  EXPECT_NE(text.str(), "");
  cpu_set_t cores;
  ASSERT_EQ(::sched_getaffinity(0, sizeof cores, &cores), 0);
  if (CPU_COUNT(&cores) < 3 && open_service({}) != nullptr) {
    EXPECT_EQ(error, -EOPNOTSUPP) << "too few cores to give one to the polling thread";
    EXPECT_THAT(text.str(), HasSubstr("cores"));
  }
}

TEST(COpen, AModeThatIsNotRequiredIsGivenOrExplained) {
  for (const auto& [mode, name] : {std::pair{IOW_MODE_SQPOLL, "io_uring+sqpoll"},
                                   std::pair{IOW_MODE_IOPOLL, "io_uring+iopoll"}}) {
    iow_options options{};
    options.mode = mode;
    const OwnedService service = open_service(options);
    ASSERT_NE(service, nullptr);
    const char* why = nullptr;
    const std::string engine = iow_service_engine(service.get(), &why);
    if (engine == name) {
      EXPECT_STREQ(why, "");
    } else {
      EXPECT_THAT(why, HasSubstr(name)) << "in use: " << engine;
    }
  }
}

TEST(COpen, AProcessHasRoomFor256Services) {
  iow_options options{};
  options.engine = IOW_ENGINE_THREADS;
  std::vector<OwnedService> services;
  while (services.size() < 256) {
    services.push_back(open_service(options));
    ASSERT_NE(services.back(), nullptr) << services.size();
  }
  ErrorText text;
  iow_service* service = nullptr;
  EXPECT_EQ(iow_service_open(&service, &options, text.out()), -EMFILE);
  EXPECT_EQ(service, nullptr);
  EXPECT_THAT(text.str(), HasSubstr("too many services"));
  services.pop_back();
  EXPECT_NE(open_service(options), nullptr) << "closing one makes room";
}

// ---- Conventions
// ---------------------------------------------------------------------------------

class CConvention : public OnEveryEngine {};
INSTANTIATE_TEST_SUITE_P(, CConvention, every_engine(), name_of);

TEST_P(CConvention, NoFunctionTouchesErrno) {
  constexpr int kUntouched = 4242;
  constexpr int kNoFd = 1'000'000;
  std::array<std::byte, 16> bytes{};
  const iovec vector{bytes.data(), bytes.size()};
  Gate gate;
  iow_request blocked = gate.wait_for_byte();
  iow_request* const one = &blocked;
  iow_flow_options bad_flow{};
  bad_flow.device = 77;
  iow_device_options bad_device{};
  bad_device.budget_mb_per_s = -1;
  iow_stats stats{};
  stats.size = sizeof stats;

  const auto untouched = [&](const char* what, const std::function<void()>& call) {
    errno = kUntouched;
    call();
    const int now = errno;
    EXPECT_EQ(now, kUntouched) << what;
  };
  untouched("iow_service_open", [&] { (void)open_service({}); });
  untouched("iow_service_engine", [&] { (void)iow_service_engine(service, nullptr); });
  untouched("iow_pread", [&] { (void)iow_pread(service, kNoFd, bytes.data(), 16, 0); });
  untouched("iow_pwrite", [&] { (void)iow_pwrite(service, kNoFd, bytes.data(), 16, 0); });
  untouched("iow_preadv", [&] { (void)iow_preadv(service, kNoFd, &vector, 1, 0); });
  untouched("iow_pwritev", [&] { (void)iow_pwritev(service, kNoFd, &vector, 1, 0); });
  untouched("iow_fsync", [&] { (void)iow_fsync(service, kNoFd); });
  untouched("iow_fdatasync", [&] { (void)iow_fdatasync(service, kNoFd); });
  untouched("iow_submit", [&] { ASSERT_EQ(iow_submit(service, &one, 1), 1); });
  untouched("iow_test", [&] { (void)iow_test(service, &blocked); });
  untouched("iow_wait", [&] { EXPECT_EQ(iow_wait(service, &blocked, 1'000'000), -ETIME); });
  untouched("iow_wait_all", [&] { EXPECT_EQ(iow_wait_all(service, &one, 1, 1'000'000), -ETIME); });
  untouched("iow_poll", [&] { (void)iow_poll(service, 1, 1'000'000); });
  untouched("iow_cancel", [&] { (void)iow_cancel(service, &blocked); });
  untouched("iow_register_buffer", [&] { (void)iow_register_buffer(service, nullptr, 0); });
  untouched("iow_register_file", [&] { EXPECT_EQ(iow_register_file(service, kNoFd), -EBADF); });
  untouched("iow_unregister_buffer", [&] { (void)iow_unregister_buffer(service, 5); });
  untouched("iow_unregister_file", [&] { (void)iow_unregister_file(service, 5); });
  untouched("iow_device_create",
            [&] { (void)iow_device_create(service, "d", &bad_device, nullptr); });
  untouched("iow_flow_create", [&] { (void)iow_flow_create(service, "f", &bad_flow, nullptr); });
  untouched("iow_service_stats", [&] { (void)iow_service_stats(service, &stats); });
  iow_request tried = make_request(IOW_OP_READ, kNoFd, bytes.data(), 16, 0);
  untouched("iow_try", [&] { (void)iow_try(service, &tried); });
  constexpr uint32_t kNoFlow = 77;
  char* text = nullptr;
  iow_flow_stats flow_stats{};
  flow_stats.size = sizeof flow_stats;
  const auto admitted = [](int64_t, void*) {};
  untouched("iow_admit", [&] { EXPECT_EQ(iow_admit(service, kNoFlow, 1), -EINVAL); });
  untouched("iow_admit_async",
            [&] { EXPECT_EQ(iow_admit_async(service, kNoFlow, 1, admitted, nullptr), -EINVAL); });
  untouched("iow_finish", [&] { (void)iow_finish(service, 1'000'000, 0); });
  untouched("iow_withdraw", [&] { (void)iow_withdraw(service, 1'000'000); });
  untouched("iow_flow_explain",
            [&] { EXPECT_EQ(iow_flow_explain(service, kNoFlow, &text), -EINVAL); });
  untouched("iow_flow_learned",
            [&] { EXPECT_EQ(iow_flow_learned(service, kNoFlow, &text), -EINVAL); });
  untouched("iow_device_sample", [&] { EXPECT_EQ(iow_device_sample(service, 0, 1, 1), -EINVAL); });
  untouched("iow_device_needs_samples", [&] { (void)iow_device_needs_samples(service, 77); });
  untouched("iow_service_flow_stats",
            [&] { EXPECT_EQ(iow_service_flow_stats(service, kNoFlow, &flow_stats), -EINVAL); });
  gate.open();
  EXPECT_EQ(iow_wait(service, &blocked, kForEver), 0);
  untouched("iow_service_close", [&] { close(); });
}

/// A thread that somebody has cancelled, and that makes every call before it asks whether. A call
/// that asked itself would end the thread there, or the process: they are noexcept.
class CancelledThread {
 public:
  explicit CancelledThread(iow_engine engine) : engine_(engine) {}

  /// True where it made all calls, and was still to be cancelled then.
  [[nodiscard]] bool makes_all_calls() {
    pthread_t thread{};
    void* result = nullptr;
    const auto main = [](void* self) -> void* {
      static_cast<CancelledThread*>(self)->run();
      pthread_testcancel();
      return nullptr;
    };
    return pthread_create(&thread, nullptr, main, this) == 0 &&
           pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && has_ended_;
  }
  [[nodiscard]] const std::vector<int64_t>& results() const { return results_; }

 private:
  void run() {
    results_.reserve(100);
    pthread_cancel(pthread_self());
    iow_options options{};
    options.engine = engine_;
    iow_service* service = nullptr;
    note(iow_service_open(&service, &options, nullptr));
    move_bytes(service);
    ask_and_tell(service);
    iow_service_close(service);
    has_ended_ = true;
  }
  void move_bytes(iow_service* service) {
    const int fd = file_.fd();
    const iovec vector{bytes_.data(), 16};
    note(iow_pread(service, fd, bytes_.data(), 16, 0) - 16);
    note(iow_pwrite(service, fd, bytes_.data(), 16, 0) - 16);
    note(iow_preadv(service, fd, &vector, 1, 0) - 16);
    note(iow_pwritev(service, fd, &vector, 1, 0) - 16);
    note(iow_fsync(service, fd));
    note(iow_fdatasync(service, fd));
    note(iow_register_buffer(service, bytes_.data(), 16) - 1);
    note(iow_register_file(service, fd) - 1);
    for (const bool polls : {false, true}) {
      for (const iow_op op : {IOW_OP_READ, IOW_OP_WRITE, IOW_OP_FSYNC, IOW_OP_PREFETCH}) {
        iow_request request = make_request(op, fd, bytes_.data(), 16, 0);
        request.fixed_buffer = 1;
        request.fixed_file = 1;
        request.flags = polls ? IOW_CALLBACK_ON_POLL : 0;
        request.callback = polls ? &note_call : nullptr;
        request.user = &calls_;
        const int wanted = calls_.count + 1;
        iow_request* const one = &request;
        note(iow_submit(service, &one, 1) - 1);
        while (polls && calls_.count < wanted) {
          note(iow_poll(service, 1, kForEver) < 0 ? -1 : 0);
        }
        note(polls ? 0 : iow_wait(service, &request, kForEver));
      }
    }
    note(iow_unregister_buffer(service, 1));
    note(iow_unregister_file(service, 1));
    iow_request tried = make_request(IOW_OP_READ, fd, bytes_.data(), 16, 0);
    note(iow_try(service, &tried) < 0 ? -1 : 0);
    // On the service's own thread, and one that never ends by itself.
    reaped_ = make_request(IOW_OP_READ, fd, bytes_.data(), 16, 0);
    reaped_.callback = &note_call;
    reaped_.user = &calls_;
    std::array<int, 2> pipe{};
    ::pipe2(pipe.data(), O_CLOEXEC);
    std::byte byte{};
    iow_request blocked = make_request(IOW_OP_READ, pipe[0], &byte, 1, -1);
    for (iow_request* const one : {&reaped_, &blocked}) {
      note(iow_submit(service, &one, 1) - 1);
    }
    iow_request* const one = &blocked;
    note(iow_wait(service, one, 1'000'000) + ETIME);
    note(iow_wait_all(service, &one, 1, 1'000'000) + ETIME);
    note(iow_poll(service, 1, 1'000'000));
    note(iow_test(service, one));
    const int cancelled = iow_cancel(service, one);
    note(cancelled == 0 || cancelled == -EALREADY ? 0 : cancelled);
    ::syscall(SYS_write, pipe[1], "x", 1);  // write(3) is a cancellation point
    note(iow_wait(service, one, kForEver));
    ::syscall(SYS_close, pipe[0]);
    ::syscall(SYS_close, pipe[1]);
  }
  void ask_and_tell(iow_service* service) {
    iow_device_options device{};
    device.is_measured = 1;
    device.max_in_flight = 1;
    const int disk = iow_device_create(service, "disk", &device, nullptr);
    iow_flow_options options{};
    options.device = static_cast<uint32_t>(disk);
    options.constraint = "climb";
    const auto flow = static_cast<uint32_t>(iow_flow_create(service, "flow", &options, nullptr));
    const int64_t first = iow_admit(service, flow, 1);
    const auto admitted = [](int64_t, void*) {};
    const int64_t second = iow_admit_async(service, flow, 1, admitted, nullptr);
    note(iow_device_needs_samples(service, options.device) - 1);
    note(iow_device_sample(service, options.device, 1e8, 1));
    note(iow_withdraw(service, second));
    note(iow_finish(service, first, 1));
    for (const auto& ask : {&iow_flow_explain, &iow_flow_learned}) {
      char* text = nullptr;
      note(ask(service, flow, &text));
      std::free(text);
    }
    iow_flow_stats flow_stats{};
    flow_stats.size = sizeof flow_stats;
    note(iow_service_flow_stats(service, flow, &flow_stats));
    iow_stats stats{};
    stats.size = sizeof stats;
    note(iow_service_stats(service, &stats));
  }
  void note(int64_t result) { results_.push_back(result); }

  const iow_engine engine_;
  const TempFile file_{100};
  Calls calls_;
  std::array<std::byte, 16> bytes_{};
  iow_request reaped_{};  // nobody waits for it but the close of the service
  std::vector<int64_t> results_;
  bool has_ended_ = false;
};

TEST_P(CConvention, NoCallIsACancellationPoint) {
  CancelledThread thread(GetParam());
  EXPECT_TRUE(thread.makes_all_calls());
  EXPECT_EQ(thread.results(), std::vector<int64_t>(thread.results().size(), 0));
}

TEST_P(CConvention, AForkedChildCarriesOutAtOnceAndDoesNotWaitForItsParent) {
  const TempFile file(10'000);
  Gate gate;
  iow_request of_parent = gate.wait_for_byte();
  iow_request* const parents = &of_parent;
  ASSERT_EQ(submit(of_parent), 1);
  const iow_stats before = stats_of(service);
  const int code = run_in_child([&] {
    std::vector<std::byte> buffer(5000);
    Calls calls;
    iow_request mine = make_request(IOW_OP_READ, file.fd(), buffer.data(), 5000, 10);
    mine.callback = &note_call;
    mine.user = &calls;
    if (iow_wait(service, &of_parent, kForEver) != -ECANCELED ||
        iow_wait_all(service, &parents, 1, kForEver) != -ECANCELED ||
        iow_test(service, &of_parent) != 0 || iow_cancel(service, &of_parent) != -EALREADY) {
      return 1;
    }
    if (submit(mine) != 1 || calls.count != 1 || calls.thread != std::this_thread::get_id() ||
        mine.result != 5000 || buffer != pattern(10, 5000)) {
      return 2;
    }
    if (iow_poll(service, 1, kForEver) != 0) {
      return 3;
    }
    if (iow_pread(service, file.fd(), buffer.data(), 100, 77) != 100 ||
        !std::equal(buffer.begin(), buffer.begin() + 100, pattern(77, 100).begin())) {
      return 4;
    }
    if (iow_register_file(service, file.fd()) != -ECANCELED ||
        iow_register_buffer(service, buffer.data(), 100) != -ECANCELED ||
        iow_unregister_file(service, 1) != -ECANCELED ||
        iow_unregister_buffer(service, 1) != -ECANCELED) {
      return 5;
    }
    char* text = nullptr;
    if (iow_device_create(service, "d", nullptr, nullptr) != -ECANCELED ||
        iow_flow_create(service, "f", nullptr, &text) != -ECANCELED ||
        std::strstr(text, "fork") == nullptr) {
      return 6;
    }
    std::free(text);
    char* none = nullptr;
    iow_flow_stats flow_stats{};
    flow_stats.size = sizeof flow_stats;
    if (iow_admit(service, 0, 1) != -ECANCELED || iow_finish(service, 1, 0) != -ECANCELED ||
        iow_withdraw(service, 1) != -ECANCELED ||
        iow_flow_explain(service, 0, &none) != -ECANCELED ||
        iow_flow_learned(service, 0, &none) != -ECANCELED ||
        iow_device_sample(service, 0, 1, 1) != -ECANCELED ||
        iow_device_needs_samples(service, 0) != -ECANCELED ||
        iow_service_flow_stats(service, 0, &flow_stats) != -ECANCELED) {
      return 8;
    }
    iow_request tried = make_request(IOW_OP_READ, file.fd(), buffer.data(), 100, 0);
    if (iow_try(service, &tried) != 0) {
      return 9;
    }
    // What a child carries out counts neither as submitted nor as completed.
    const iow_stats after = stats_of(service);
    return after.submitted == before.submitted && after.completed == before.completed ? 0 : 7;
  });
  EXPECT_EQ(code, 0);
  gate.open();
  EXPECT_EQ(iow_wait(service, &of_parent, kForEver), 0);
  EXPECT_EQ(of_parent.result, 1);
}

/// Acts when the thread ends, after whatever the thread made later.
struct AtThreadEnd {
  std::function<void()> act;
  ~AtThreadEnd() {
    if (act) {
      act();
    }
  }
};

TEST_P(CConvention, WhatAThreadSubmitsPastItsEndIsCarriedOutAndCounted) {
  iow_request late = make_nop();
  late.result = -1;
  std::thread([&] {
    thread_local AtThreadEnd at_end;  // before the first submission: destroyed after its hook
    at_end.act = [&] { EXPECT_EQ(result_of(late), 0); };
    iow_request early = make_nop();
    EXPECT_EQ(result_of(early), 0);
  }).join();
  EXPECT_EQ(late.result, 0);
  const iow_stats stats = stats_of(service);
  EXPECT_EQ(stats.submitted, 2u);
  EXPECT_EQ(stats.completed, 2u);
}

}  // namespace
}  // namespace ioweave::test

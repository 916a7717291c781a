// A cancellation meets its request at each point of the request's way: while it is handed over,
// while it is in flight, when it has ended and nobody has been told, inside its callback. Where
// they meet is not left to chance: a back end that is told what to wait for stands between the
// service and the real one. Requests read a byte of a pipe, so that what became of one can be
// counted: a byte is in the buffer or still in the pipe.
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <sched.h>
#include <sys/ioctl.h>

#include "fixture.hpp"

namespace ioweave::service {
namespace {

/// Where a cancellation meets its request.
enum class Point {
  handed_over,  ///< a lane or a pump has it, and the back end has not
  in_flight,    ///< the byte comes after the cancellation
  ending,       ///< the byte comes within the cancellation, before the back end hears of it
  ended,        ///< a back end has reaped its end, and the service has not heard of it
  in_callback,  ///< its callback runs
};
constexpr std::array kPoints{Point::handed_over, Point::in_flight, Point::ending, Point::ended,
                             Point::in_callback};
constexpr std::array kPointNames{"HandedOver", "InFlight", "Ending", "Ended", "InCallback"};

/// One request and one cancellation, which takes place when the request has come to the point.
struct Meeting {
  Meeting(Point where, uint8_t flags) : point(where) {
    request = test::make_request(IOW_OP_READ, gate.fd(), &byte, 1, -1);
    request.flags = flags;
    request.callback = [](iow_request*, void* user) { static_cast<Meeting*>(user)->called(); };
    request.user = this;
  }

  /// Whether they meet there.
  bool come_to(Point where) {
    if (where == point) is_reached = true;
    return where == point;
  }
  void await_cancellation() const {
    while (!is_asked) ::sched_yield();
  }
  /// The byte comes, once.
  void let_end() {
    if (!byte_came.exchange(true)) gate.open();
  }
  void called() {
    result = request.result;
    if (come_to(Point::in_callback)) {
      while (!cancel_returned) ::sched_yield();
    }
    ++callbacks;  // last: the test goes on when it sees it
  }
  [[nodiscard]] int bytes_in_the_pipe() const {
    int bytes = 0;
    EXPECT_EQ(::ioctl(gate.fd(), FIONREAD, &bytes), 0);
    return bytes;
  }

  const Point point;
  test::Gate gate;
  char byte = '-';
  iow_request request{};
  std::atomic<bool> is_queued{false};   ///< in a back end, if not yet in flight
  std::atomic<bool> is_reached{false};  ///< the point
  std::atomic<bool> is_asked{false};    ///< a back end has been asked to give it up
  std::atomic<bool> byte_came{false};
  std::atomic<bool> cancel_returned{false};
  int cancelled = 0;  ///< what the cancellation returned
  std::atomic<int> callbacks{0};
  int64_t result = 0;
};
std::atomic<Meeting*> meeting{nullptr};

/// Holds operations up where the meeting wants them.
class MeetingBackend final : public engine::Backend {
 public:
  explicit MeetingBackend(std::unique_ptr<engine::Backend> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }
  [[nodiscard]] engine::Submitted submit(engine::Operation& operation) noexcept override {
    Meeting& here = *meeting.load();
    if (here.come_to(Point::handed_over)) here.await_cancellation();
    const engine::Submitted answer = inner_->submit(operation);
    if (answer == engine::Submitted::queued) here.is_queued = true;
    return answer;
  }
  [[nodiscard]] int flush() noexcept override {
    const int status = inner_->flush();
    Meeting* const here = meeting.load();
    if (here != nullptr && here->is_queued) {
      here->come_to(Point::in_flight);
      here->come_to(Point::ending);
    }
    return status;
  }
  [[nodiscard]] int reap(std::span<engine::Operation*> out,
                         const engine::Reap& how) noexcept override {
    if (how.flush) {
      const int status = flush();
      if (status < 0) return status;
    }
    const int reaped = inner_->reap(out, how);
    if (reaped > 0 && meeting.load()->come_to(Point::ended)) meeting.load()->await_cancellation();
    return reaped;
  }
  void wake() noexcept override { inner_->wake(); }
  [[nodiscard]] int cancel(engine::Operation& operation) noexcept override {
    Meeting& here = *meeting.load();
    if (here.point == Point::ending) here.let_end();
    const int status = inner_->cancel(operation);
    if (here.point == Point::in_flight) here.let_end();
    here.is_asked = true;
    return status;
  }
  void abandon() noexcept override { inner_->abandon(); }

 private:
  const std::unique_ptr<engine::Backend> inner_;
};

std::unique_ptr<engine::Backend> open_meeting_lane(const engine::BackendOptions& options,
                                                   int& error, std::string& why) {
  auto inner = engine::open_backend(options, error, why);
  return inner != nullptr ? std::make_unique<MeetingBackend>(std::move(inner)) : nullptr;
}

class CancellationMeets : public ::testing::TestWithParam<std::tuple<engine::Kind, Point>> {
 protected:
  void SetUp() override {
    meeting = nullptr;
    Options options;
    options.engine = engine();
    options.required = true;
    options.open_backend = &open_meeting_lane;
    int error = 0;
    std::string why;
    service = Service::open(options, error, why);
    if (service == nullptr) GTEST_SKIP() << why;
  }

  [[nodiscard]] static engine::Kind engine() { return std::get<0>(GetParam()); }
  [[nodiscard]] static Point point() { return std::get<1>(GetParam()); }

  /// From submission to callback.
  void hold(Meeting& here) {
    meeting = &here;
    std::thread canceller([&] {
      while (!here.is_reached) ::sched_yield();
      here.cancelled = service->cancel(here.request);
      here.is_asked = true;
      here.cancel_returned = true;
      if (here.cancelled != 0) here.let_end();  // it ends in any case
    });
    if (point() == Point::ended || point() == Point::in_callback) here.let_end();
    EXPECT_EQ(submit_one(*service, here.request), 1);
    while (here.callbacks == 0) {
      if ((here.request.flags & IOW_CALLBACK_ON_POLL) != 0) {
        (void)service->poll(1, -1);
      } else {
        ::sched_yield();
      }
    }
    canceller.join();
  }

  Service::Owner service;
};

TEST_P(CancellationMeets, ARequestWhoseCallbackRunsOnceAndWhoseByteIsNotLost) {
  constexpr int kRounds = 50;
  std::vector<std::unique_ptr<Meeting>> meetings;  // all kept: a second callback is to be seen
  uint64_t given_up = 0;
  for (int round = 0; round < 2 * kRounds; ++round) {
    const auto flags = static_cast<uint8_t>(round % 2 == 0 ? 0 : IOW_CALLBACK_ON_POLL);
    SCOPED_TRACE("round " + std::to_string(round));
    Meeting& here = *meetings.emplace_back(std::make_unique<Meeting>(point(), flags));
    hold(here);
    ASSERT_TRUE(here.cancelled == 0 || here.cancelled == -EALREADY) << here.cancelled;
    ASSERT_TRUE(here.result == 1 || here.result == -ECANCELED) << here.result;
    const bool moved = here.result == 1;
    given_up += moved ? 0 : 1;
    EXPECT_EQ(here.byte, moved ? 'x' : '-') << "nothing is transferred where it was given up";
    EXPECT_EQ(here.bytes_in_the_pipe() + (moved ? 1 : 0), here.byte_came ? 1 : 0);
    if (point() == Point::ended || point() == Point::in_callback) {
      EXPECT_EQ(here.cancelled, -EALREADY);
      EXPECT_TRUE(moved) << "the end came first";
    }
  }
  iow_stats stats{};
  service->statistics(stats);
  EXPECT_EQ(stats.submitted, meetings.size());
  EXPECT_EQ(stats.completed, meetings.size());
  EXPECT_EQ(stats.cancelled, given_up);
  EXPECT_EQ(stats.failed, 0u);
  service.reset();
  for (const auto& each : meetings) EXPECT_EQ(each->callbacks, 1);
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<engine::Kind, Point>>& of_case) {
  const auto [kind, point] = of_case.param;
  return engine_name({kind, 0}) + "_" + kPointNames[static_cast<size_t>(point)];
}
INSTANTIATE_TEST_SUITE_P(, CancellationMeets,
                         ::testing::Combine(::testing::Values(engine::Kind::uring,
                                                              engine::Kind::aio,
                                                              engine::Kind::threads),
                                            ::testing::ValuesIn(kPoints)),
                         case_name);

}  // namespace
}  // namespace ioweave::service

#include "model/replay.hpp"

#include <algorithm>
#include <vector>

#include "base/assert.hpp"

namespace ioweave::model {
namespace {

/// The state of a replay. `now_s_` is the time of the thread.
class Replay {
 public:
  Replay(std::span<const Step> steps, const Weaving& weaving)
      : steps_(steps),
        weaving_(weaving),
        ahead_bytes_(weaving.ahead_bytes),
        devices_(weaving.write_devices, 0.0) {
    double sum = 0;
    for (const Step& step : steps) until_bytes_.push_back(sum += step.read_bytes);
    taken_s_.reserve(steps.size());
  }

  double run() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      wait_for_buffer(steps_[i]);
      take_input(i);
      now_s_ += steps_[i].compute_s;
      write(steps_[i]);
    }
    return std::max(now_s_, last_written_s_);
  }

 private:
  [[nodiscard]] double& read_device() { return weaving_.one_device ? devices_[0] : reader_s_; }

  /// One buffer is filled while the others are written.
  void wait_for_buffer(const Step& step) {
    if (step.write_s <= 0 || weaving_.buffers < 2) return;
    if (written_s_.size() < weaving_.buffers) return;
    now_s_ = std::max(now_s_, written_s_[written_s_.size() - weaving_.buffers]);
  }

  void take_input(size_t i) {
    if (weaving_.ahead_bytes > 0) {
      while (next_read_ <= i) read_ahead(i);
      if (read_end_s_[i] > now_s_) widen(i);
      now_s_ = std::max(now_s_, read_end_s_[i]);
    } else if (steps_[i].read_s > 0) {
      double& device = read_device();
      now_s_ = std::max(now_s_, device) + steps_[i].read_s;
      device = now_s_;
    }
    taken_s_.push_back(now_s_);
  }

  /// The thread waits at step `i`: more is to be ahead, once what was asked for is taken.
  void widen(size_t i) {
    if (i < enough_until_) return;
    enough_until_ = next_read_;
    ahead_bytes_ = std::max(ahead_bytes_, std::min(2 * ahead_bytes_, weaving_.most_ahead_bytes));
  }

  /// Returns when there is room for the next read: when the thread took the bytes of enough steps.
  /// It does so of step `i` now; of later ones it is not known yet, which is a negative time. What
  /// the thread wants now it reads itself.
  [[nodiscard]] double room_s(size_t i) {
    const double least = until_bytes_[next_read_] - ahead_bytes_;
    while (room_step_ < taken_s_.size() && until_bytes_[room_step_] < least) ++room_step_;
    if (least <= 0) return 0;
    const bool is_wanted = next_read_ <= i;
    if (room_step_ < taken_s_.size()) {
      const double seen_s = taken_s_[room_step_] + weaving_.ahead_delay_s;
      return is_wanted ? std::min(seen_s, now_s_) : seen_s;
    }
    return is_wanted ? now_s_ : -1;
  }

  void read_ahead(size_t i) {
    double ready_s = std::max(room_s(i), read_end_s_.empty() ? 0 : read_end_s_.back());
    if (steps_[next_read_].opens_input) ready_s = std::max(ready_s, now_s_);
    begin_read(ready_s);
  }

  void begin_read(double ready_s) {
    double& device = read_device();
    const double seconds = steps_[next_read_].read_s;
    const double end_s = seconds > 0 ? std::max(ready_s, device) + seconds : ready_s;
    if (seconds > 0) device = end_s;
    read_end_s_.push_back(end_s);
    ++next_read_;
  }

  /// Begins the reads ahead that reach the device before a write that arrives now.
  void begin_earlier_reads() {
    if (weaving_.ahead_bytes <= 0 || !weaving_.one_device) return;
    const size_t i = taken_s_.size() - 1;
    while (next_read_ < steps_.size() && !steps_[next_read_].opens_input) {
      const double room = room_s(i);
      if (room < 0) return;
      const double ready_s = std::max(room, read_end_s_.empty() ? 0 : read_end_s_.back());
      if (ready_s >= now_s_) return;
      begin_read(ready_s);
    }
  }

  void write(const Step& step) {
    if (step.write_s <= 0) return;
    begin_earlier_reads();
    double& device = devices_[writes_++ % devices_.size()];
    device = std::max(now_s_, device) + step.write_s;
    last_written_s_ = std::max(last_written_s_, device);
    if (weaving_.buffers < 2) {
      now_s_ = device;
    } else {
      written_s_.push_back(device);
    }
  }

  std::span<const Step> steps_;
  const Weaving& weaving_;
  double ahead_bytes_;
  size_t enough_until_ = 0;          ///< no wider until the thread comes to this step
  std::vector<double> devices_;      ///< when each is free again
  double reader_s_ = 0;              ///< when that of reads is free again, if it is another
  std::vector<double> until_bytes_;  ///< bytes read up to the end of each step
  std::vector<double> taken_s_;      ///< when the thread had the input of each step
  std::vector<double> read_end_s_;   ///< of reads ahead
  std::vector<double> written_s_;
  size_t next_read_ = 0;
  size_t room_step_ = 0;
  size_t writes_ = 0;
  double now_s_ = 0;
  double last_written_s_ = 0;
};

}  // namespace

double replay_s(std::span<const Step> steps, const Weaving& weaving) {
  IOW_ASSERT(weaving.buffers > 0 && weaving.write_devices > 0);
  return Replay(steps, weaving).run();
}

}  // namespace ioweave::model

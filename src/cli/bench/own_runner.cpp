// How it works: a Course says what the next transfer is. psync makes one after the other. With
// io_uring each Slot has a buffer and an operation; as many slots as the depth are under way, and
// the one whose transfer has ended takes the next, as in fio. All transfers write the same random
// bytes: a device that compresses gains nothing.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/cpu_time.hpp"
#include "cli/bench/load_runner.hpp"
#include "engine/backend.hpp"

namespace ioweave::cli {
namespace {

using device::IoWay;
using device::Load;
using device::LoadSample;

struct Transfer {
  bool is_read = false;
  uint64_t offset = 0;
};

/// The transfers of a load, one pass through the file.
class Course {
 public:
  Course(const Load& load, uint64_t file_bytes)
      : load_(load), blocks_(file_bytes / load.block_bytes), random_(std::random_device{}()) {
    if (!load.random) return;
    order_.resize(blocks_);
    std::iota(order_.begin(), order_.end(), uint32_t{0});
    std::ranges::shuffle(order_, random_);
  }

  [[nodiscard]] bool has_more() const { return begun_ < blocks_; }

  /// Sequential reads and writes each go through the file from its beginning, as in fio.
  [[nodiscard]] Transfer next() {
    const bool is_read = random_() % 100 < load_.read_percent;
    uint64_t& place = is_read ? read_ : written_;
    const uint64_t block = load_.random ? order_[begun_] : place++;
    ++begun_;
    return {is_read, block * load_.block_bytes};
  }

 private:
  const Load load_;
  const uint64_t blocks_;
  std::mt19937_64 random_;
  std::vector<uint32_t> order_;
  uint64_t begun_ = 0;
  uint64_t read_ = 0;
  uint64_t written_ = 0;
};

/// Memory for the transfers under way, filled with random bytes.
class Buffers {
 public:
  explicit Buffers(size_t bytes)
      : bytes_(bytes),
        memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) return;
    std::mt19937_64 random(std::random_device{}());
    auto* const words = static_cast<uint64_t*>(memory_);
    std::generate(words, words + bytes / sizeof(uint64_t), random);
  }
  ~Buffers() {
    if (memory_ != MAP_FAILED) munmap(memory_, bytes_);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  [[nodiscard]] bool exist() const { return memory_ != MAP_FAILED; }
  [[nodiscard]] std::byte* at(size_t offset) const {
    return static_cast<std::byte*>(memory_) + offset;
  }

 private:
  const size_t bytes_;
  void* const memory_;
};

void count(const Transfer& transfer, uint64_t bytes, LoadSample& sample) {
  (transfer.is_read ? sample.read_bytes : sample.written_bytes) += bytes;
}

/// Returns 0 or -errno.
int transfer_plainly(int fd, const Transfer& transfer, std::byte* buffer, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const auto at = static_cast<off_t>(transfer.offset + done);
    const ssize_t moved = transfer.is_read ? pread(fd, buffer + done, bytes - done, at)
                                           : pwrite(fd, buffer + done, bytes - done, at);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return moved < 0 ? -errno : -EIO;  // 0: somebody has cut the file
    done += static_cast<size_t>(moved);
  }
  return 0;
}

int run_psync(int fd, Course& course, const Load& load, const Buffers& buffers,
              uint64_t deadline_ns, LoadSample& sample) {
  do {
    const Transfer transfer = course.next();
    if (const int error = transfer_plainly(fd, transfer, buffers.at(0), load.block_bytes)) {
      return error;
    }
    count(transfer, load.block_bytes, sample);
  } while (course.has_more() && now_ns() < deadline_ns);
  return 0;
}

struct Slot : engine::Operation {
  Transfer transfer;
  std::byte* memory = nullptr;
  uint64_t done = 0;  ///< bytes of the transfer
};

/// Keeps slots under way in a backend.
class BackendLoop {
 public:
  BackendLoop(engine::Backend& backend, int fd, Course& course, const Load& load,
              const Buffers& buffers)
      : backend_(backend),
        fd_(fd),
        course_(course),
        block_bytes_(load.block_bytes),
        slots_(load.depth) {
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i].memory = buffers.at(i * block_bytes_);
  }

  /// Returns 0 or the first -errno. Nothing is under way afterwards, unless the backend is broken.
  int run(uint64_t deadline_ns, LoadSample& sample) {
    for (Slot& slot : slots_) {
      if (course_.has_more()) begin(slot);
    }
    while (under_way_ > 0) {
      std::array<engine::Operation*, 64> ended{};
      const int reaped = backend_.reap(ended, {1, -1, true});
      if (reaped < 0) return reaped;
      const bool goes_on = now_ns() < deadline_ns;
      for (int i = 0; i < reaped; ++i) {
        end(static_cast<Slot&>(*ended[static_cast<size_t>(i)]), goes_on, sample);
      }
    }
    return error_;
  }

 private:
  void begin(Slot& slot) {
    slot.transfer = course_.next();
    slot.done = 0;
    submit(slot);
  }

  void submit(Slot& slot) {
    static_cast<engine::Operation&>(slot) = {};
    slot.op = slot.transfer.is_read ? engine::Op::read : engine::Op::write;
    slot.fd = fd_;
    slot.buffer = slot.memory + slot.done;
    slot.length = block_bytes_ - slot.done;
    slot.offset = static_cast<int64_t>(slot.transfer.offset + slot.done);
    const engine::Submitted submitted = backend_.submit(slot);
    if (submitted == engine::Submitted::queued) {
      ++under_way_;
    } else if (error_ == 0) {
      error_ = submitted == engine::Submitted::busy ? -EBUSY : -ENOTSUP;
    }
  }

  void end(Slot& slot, bool goes_on, LoadSample& sample) {
    --under_way_;
    const int64_t result = slot.result;
    const bool again = result == -EINTR || result == -EAGAIN;
    if (result == 0 || (result < 0 && !(again && goes_on))) {
      if (error_ == 0) error_ = result < 0 ? static_cast<int>(result) : -EIO;
      return;
    }
    slot.done += static_cast<uint64_t>(std::max<int64_t>(result, 0));
    if (slot.done < block_bytes_) {
      submit(slot);
      return;
    }
    count(slot.transfer, block_bytes_, sample);
    if (goes_on && error_ == 0 && course_.has_more()) begin(slot);
  }

  engine::Backend& backend_;
  const int fd_;
  Course& course_;
  const uint64_t block_bytes_;
  std::vector<Slot> slots_;
  unsigned under_way_ = 0;
  int error_ = 0;
};

std::unique_ptr<engine::Backend> open_backend_for(const Load& load, std::string& why) {
  engine::BackendOptions options;
  options.kind = engine::Kind::uring;
  options.mode = load.way == IoWay::sqpoll   ? engine::UringMode::sqpoll
                 : load.way == IoWay::iopoll ? engine::UringMode::iopoll
                                             : engine::UringMode::plain;
  options.entries = load.depth;
  options.single_owner = load.way != IoWay::sqpoll;
  int error = 0;
  return engine::open_backend(options, error, why);
}

class OwnRunner final : public LoadRunner {
 public:
  [[nodiscard]] std::string name() const override { return "ioweave " IOWEAVE_VERSION; }

  bool run(const BenchFile& file, const Load& load, double seconds, LoadSample& sample,
           std::string& why) override {
    const Buffers buffers(load.block_bytes * load.depth);
    if (!buffers.exist()) {
      why = "no memory for its transfers";
      return false;
    }
    Course course(load, file.bytes());
    std::unique_ptr<engine::Backend> backend;
    if (load.way != IoWay::psync) {
      backend = open_backend_for(load, why);
      if (!backend) return false;
    }
    const int fd = file.fd(load.direct);
    const double cpu_before_s = process_cpu_seconds();
    const uint64_t began_ns = now_ns();
    const uint64_t deadline_ns = began_ns + static_cast<uint64_t>(seconds * 1e9);
    const int error =
        backend ? BackendLoop(*backend, fd, course, load, buffers).run(deadline_ns, sample)
                : run_psync(fd, course, load, buffers, deadline_ns, sample);
    sample.seconds = static_cast<double>(now_ns() - began_ns) / 1e9;
    sample.cpu_seconds = process_cpu_seconds() - cpu_before_s;
    if (error != 0) why = std::strerror(-error);
    return error == 0;
  }
};

}  // namespace

std::unique_ptr<LoadRunner> make_own_runner() {
  return std::make_unique<OwnRunner>();
}

}  // namespace ioweave::cli

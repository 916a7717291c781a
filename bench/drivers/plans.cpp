// Reads blocks of a file at random and computes on each: by pread(2) alone, with advice to the
// kernel ahead of it, with threads that call readahead(2), by a plan, by a plan of which every read
// is wrong, and by a loop that is run ahead of itself. One JSON line tells how long it took, and a
// sum over all bytes, by which the ways are compared.
//
// Blocks go into the page cache, so the caller makes the file cold before.

#include "ioweave/plans.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <time.h>

#include "base/clock.hpp"
#include "driver.hpp"
#include "options.hpp"

namespace {

using namespace ioweave::bench;

struct Settings {
  std::string how;
  std::string file;
  uint64_t reads = 1000;
  uint64_t block_bytes = 4096;
  uint64_t seed = 1;
  uint64_t compute_ns = 0;
  uint64_t ahead = 512;
  unsigned threads = 64;
  uint32_t depth = 0;
};

const std::map<std::string, iow_plan_schedule> kSchedules = {{"normal", IOW_PLAN_NORMAL},
                                                             {"pp", IOW_PLAN_PP},
                                                             {"ppis", IOW_PLAN_PPIS},
                                                             {"weighted", IOW_PLAN_WEIGHTED},
                                                             {"auto", IOW_PLAN_AUTO}};

/// The program whose reads are measured. What it reads is known before it begins.
class Program {
 public:
  explicit Program(const Settings& settings)
      : settings_(settings), file_(settings.file, O_RDONLY), buffer_(settings.block_bytes) {
    // No block comes twice: the second time it would be in the page cache.
    std::vector<off_t> blocks(file_.size() / settings.block_bytes);
    if (blocks.size() < 2 * settings.reads) {
      die("the file must hold twice as many blocks as are read");
    }
    for (size_t i = 0; i < blocks.size(); ++i) {
      blocks[i] = static_cast<off_t>(i * settings.block_bytes);
    }
    std::shuffle(blocks.begin(), blocks.end(), std::mt19937_64(settings.seed));
    const auto middle = blocks.begin() + static_cast<ptrdiff_t>(settings.reads);
    offsets_.assign(blocks.begin(), middle);
    other_offsets_.assign(middle, middle + static_cast<ptrdiff_t>(settings.reads));
    // The kernel's read-ahead finds nothing in random blocks, and is told so.
    check(-posix_fadvise(file_.fd(), 0, 0, POSIX_FADV_RANDOM), "posix_fadvise");
  }

  [[nodiscard]] int fd() const { return file_.fd(); }
  [[nodiscard]] const std::vector<off_t>& offsets() const { return offsets_; }
  [[nodiscard]] std::span<std::byte> buffer() const { return {buffer_.data(), buffer_.bytes()}; }

  /// Blocks that the program does not read, as many as it does.
  [[nodiscard]] const std::vector<off_t>& other_offsets() const { return other_offsets_; }

  /// Reads all blocks in turn by `read`, and computes on each.
  template <typename Read>
  void run(const Read& read) {
    for (size_t i = 0; i < offsets_.size(); ++i) {
      read_timed([&] { return read(i); });
      compute();
    }
  }

  template <typename Read>
  void read_timed(const Read& read) {
    const uint64_t before_ns = ioweave::now_ns();
    const auto bytes = static_cast<uint64_t>(read());
    read_ns_ += ioweave::now_ns() - before_ns;
    if (bytes != settings_.block_bytes) {
      die("a read was short");
    }
  }

  void compute() {
    const uint64_t end_ns = ioweave::now_ns() + settings_.compute_ns;
    uint64_t words = 0;
    for (size_t at = 0; at + sizeof words <= settings_.block_bytes; at += sizeof words) {
      std::memcpy(&words, buffer_.data() + at, sizeof words);
      sum_ = sum_ * 31 + words;
    }
    while (settings_.compute_ns != 0 && ioweave::now_ns() < end_ns) {
    }
  }

  [[nodiscard]] double read_s() const { return static_cast<double>(read_ns_) / 1e9; }
  /// Of all bytes in their order; fits a double.
  [[nodiscard]] double sum() const { return static_cast<double>(sum_ >> 12); }

 private:
  const Settings& settings_;
  const File file_;
  const Buffer buffer_;
  std::vector<off_t> offsets_;
  std::vector<off_t> other_offsets_;
  uint64_t read_ns_ = 0;
  uint64_t sum_ = 0;
};

/// What there is to tell of plans only.
struct OfPlan {
  iow_plan_stats stats{};
  double ahead_cpu_s = 0;  ///< of the thread that runs the loop ahead
};

void read_plainly(Program& program) {
  program.run([&](size_t i) {
    return check_errno(
        pread(program.fd(), program.buffer().data(), program.buffer().size(), program.offsets()[i]),
        "pread");
  });
}

/// A window of advice goes ahead of the reads.
void read_advised(Program& program, const Settings& settings) {
  const auto advise = [&](size_t i) {
    if (i < program.offsets().size()) {
      check(-posix_fadvise(program.fd(), program.offsets()[i],
                           static_cast<off_t>(settings.block_bytes), POSIX_FADV_WILLNEED),
            "posix_fadvise");
    }
  };
  for (size_t i = 0; i < settings.ahead; ++i) {
    advise(i);
  }
  program.run([&](size_t i) {
    advise(i + settings.ahead);
    return check_errno(
        pread(program.fd(), program.buffer().data(), program.buffer().size(), program.offsets()[i]),
        "pread");
  });
}

/// Threads take the blocks in turn, and read each ahead: readahead(2) may return before the block
/// is there, so a thread then reads a byte of it.
void read_by_threads(Program& program, const Settings& settings) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < program.offsets().size(); i = next++) {
      std::byte one{};
      check_errno(readahead(program.fd(), program.offsets()[i], settings.block_bytes), "readahead");
      check_errno(pread(program.fd(), &one, sizeof one, program.offsets()[i]), "pread");
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < settings.threads; ++i) {
    threads.emplace_back(work);
  }
  read_plainly(program);
}

iow_plan_options options_for(const Settings& settings, const std::string& schedule) {
  iow_plan_options options{};
  options.schedule = kSchedules.at(schedule);
  options.depth = settings.depth;
  return options;
}

OfPlan read_by_plan(Program& program, const Settings& settings, const std::vector<off_t>& planned,
                    const std::string& schedule) {
  ioweave::Service service;
  ioweave::Plan plan(service, options_for(settings, schedule));
  for (const off_t offset : planned) {
    plan.add(program.fd(), offset, settings.block_bytes);
  }
  program.run(
      [&](size_t i) { return plan.read(program.fd(), program.buffer(), program.offsets()[i]); });
  return {plan.stats(), 0};
}

OfPlan read_by_loop(Program& program, const Settings& settings) {
  ioweave::Service service;
  ioweave::Plan plan(service, options_for(settings, "auto"));
  OfPlan found;
  ioweave::pre_execute(plan, [&](ioweave::LoopIo& io) {
    const auto read = [&](off_t offset) { return io.read(program.fd(), program.buffer(), offset); };
    for (const off_t offset : program.offsets()) {
      if (io.is_ahead()) {
        read(offset);
      } else {
        program.read_timed([&] { return read(offset); });
      }
      io.compute([&] { program.compute(); });
    }
    if (io.is_ahead()) {
      timespec used{};
      check_errno(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used), "clock_gettime");
      found.ahead_cpu_s =
          static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
    }
  });
  found.stats = plan.stats();
  return found;
}

/// Opening a service counts: it is part of what the program has to do.
OfPlan read_in(Program& program, const Settings& settings) {
  if (settings.how == "plain") {
    read_plainly(program);
  } else if (settings.how == "fadvise") {
    read_advised(program, settings);
  } else if (settings.how == "readahead") {
    read_by_threads(program, settings);
  } else if (settings.how == "wrong") {
    return read_by_plan(program, settings, program.other_offsets(), "auto");
  } else if (settings.how == "loop") {
    return read_by_loop(program, settings);
  } else {
    return read_by_plan(program, settings, program.offsets(), settings.how);
  }
  return {};
}

int run(int argc, char** argv) {
  Settings settings;
  Options app("Reads blocks of a file at random, in one of several ways, and computes on each");
  app.add("--how", settings.how, "a schedule of a plan is a way, too")
      .required()
      .one_of({"plain", "fadvise", "readahead", "normal", "pp", "ppis", "weighted", "auto", "wrong",
               "loop"});
  app.add("--file", settings.file).required().existing_file();
  app.add("--reads", settings.reads).between(1, 1 << 20);
  app.add("--bytes", settings.block_bytes, "of a block").between(512, 1 << 30);
  app.add("--seed", settings.seed, "which blocks");
  app.add("--compute-ns", settings.compute_ns, "least time of computing on a block");
  app.add("--ahead", settings.ahead, "blocks that advice goes ahead");
  app.add("--threads", settings.threads, "that call readahead").between(1, 1024);
  app.add("--depth", settings.depth, "slices of a plan at once; 0: found while reading");
  app.parse(argc, argv);

  Program program(settings);
  const Usage before = Usage::now();
  const OfPlan plan = read_in(program, settings);
  const Usage used = Usage::now() - before;
  print_result({{"time_s", static_cast<double>(used.wall_ns) / 1e9},
                {"cpu_s", static_cast<double>(used.cpu_ns) / 1e9},
                {"read_s", program.read_s()},
                {"sum", program.sum()},
                {"hit_reads", static_cast<double>(plan.stats.hit_reads)},
                {"late_reads", static_cast<double>(plan.stats.late_reads)},
                {"ahead_bytes", static_cast<double>(plan.stats.ahead_bytes)},
                {"depth", plan.stats.depth},
                {"schedule", plan.stats.schedule},
                {"gain_of_two", plan.stats.gain_of_two},
                {"ahead_cpu_s", plan.ahead_cpu_s}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}

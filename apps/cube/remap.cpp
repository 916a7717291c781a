#include "remap.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

#include "error.hpp"
#include "layout.hpp"
#include "placement.hpp"

namespace cube {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Adds the time of an action to a sum.
template <typename Act>
auto timed(double& sum, Act act) {
  struct Timer {
    double& seconds;
    Clock::time_point start = Clock::now();
    ~Timer() { seconds += seconds_since(start); }
  } const timer{sum};
  return act();
}

/// Opened without O_TRUNC later on, but what is read must not be emptied either.
void check_distinct(const FileBytes& input, const std::string& output) {
  struct stat a {};
  struct stat b {};
  if (fstat(input.fd(), &a) == -1 || stat(output.c_str(), &b) == -1) return;
  if (a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
    throw CubeError("input '" + input.name() + "' and output '" + output +
                    "' are the same file: choose another output");
  }
}

/// Removes a half-written output unless `keep` is called.
class PartialOutput {
 public:
  explicit PartialOutput(std::string path) : path_(std::move(path)) {}
  PartialOutput(const PartialOutput&) = delete;
  PartialOutput& operator=(const PartialOutput&) = delete;
  ~PartialOutput() {
    struct stat status {};
    if (!kept_ && stat(path_.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
      unlink(path_.c_str());
    }
  }
  void keep() noexcept { kept_ = true; }

 private:
  std::string path_;
  bool kept_ = false;
};

/// Counts what it is given.
class CountingSink : public TextSink {
 public:
  void put(std::string_view text) override { bytes_ += text.size(); }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_ = 0;
};

/// Times of one computing thread.
struct Times {
  double compute_s = 0;
  double write_s = 0;
  double wait_s = 0;
};

/// Writes what it is given to the output from an offset on, item by item. Items end where a
/// multiple of their size is reached in the file.
class ItemSink : public TextSink {
 public:
  ItemSink(ResultWriter& writer, uint64_t offset, Times& times)
      : writer_(writer), offset_(offset), times_(times) {}
  ItemSink(const ItemSink&) = delete;
  ItemSink& operator=(const ItemSink&) = delete;
  ~ItemSink() override {
    if (item_) writer_.drop(*item_);
  }

  void put(std::string_view text) override {
    while (!text.empty()) {
      const Item item = item_.has_value() ? *item_ : begin();
      const size_t bytes = std::min(text.size(), room_ - filled_);
      std::copy_n(reinterpret_cast<const std::byte*>(text.data()), bytes,
                  item.data.begin() + static_cast<std::ptrdiff_t>(filled_));
      filled_ += bytes;
      text.remove_prefix(bytes);
      if (filled_ == room_) flush();
    }
  }
  void flush() {
    if (!item_) return;
    const Item item = *item_;
    item_.reset();
    timed(times_.write_s, [&] { writer_.hand_over(item, filled_, offset_); });
    offset_ += filled_;
  }

 private:
  Item begin() {
    const Item item = timed(times_.wait_s, [&] { return writer_.begin(); });
    room_ = item.data.size() - static_cast<size_t>(offset_ % item.data.size());
    filled_ = 0;
    item_ = item;
    return item;
  }

  ResultWriter& writer_;
  uint64_t offset_;
  Times& times_;
  std::optional<Item> item_;
  size_t room_ = 0;
  size_t filled_ = 0;
};

/// Hands out the items to computing threads: pieces of the output before the anchor, and then, as
/// the last one, the anchor.
class Remapping {
 public:
  Remapping(const RemapOptions& options, const Archive& archive, const Anchor& anchor,
            const Plan& plan, const Layout& layout, uint64_t anchor_bytes)
      : options_(options),
        archive_(archive),
        anchor_(anchor),
        plan_(plan),
        layout_(layout),
        anchor_bytes_(anchor_bytes),
        item_bytes_(options.writer.buffers.bytes),
        items_((layout.anchor_offset() + item_bytes_ - 1) / item_bytes_),
        item_s_(items_) {}

  [[nodiscard]] uint64_t items() const { return items_; }

  /// Computes all items and hands them over.
  void run(ResultWriter& writer, Report& report) {
    on_threads([&] { compute(writer, report); });
  }

  /// After run(), when all is written: computes items from the middle of the output once more, on
  /// as many threads, in buffers of the same kind.
  void run_alone(ResultWriter& writer, Report& report) {
    report.alone_items = std::min(options_.alone_items, items_);
    const uint64_t first = (items_ - report.alone_items) / 2;
    const uint64_t end = first + report.alone_items;
    for (uint64_t item = first; item < end; ++item) report.beside_s += item_s_[item];
    next_ = first;
    on_threads([&] { compute_alone(writer, end, report); });
  }

 private:
  /// Throws the first failure.
  template <typename Act>
  void on_threads(Act act) {
    std::vector<std::thread> threads;
    try {
      for (unsigned i = 0; i < options_.compute_threads; ++i) {
        threads.emplace_back([&] {
          try {
            const OnProcessors here(options_.writer.is_pinned ? choose_placement().computing
                                                              : std::vector<int>{});
            act();
          } catch (...) {
            fail(std::current_exception());
          }
        });
      }
    } catch (const std::exception& error) {
      fail(std::make_exception_ptr(
          CubeError(std::string("cannot start a thread: ") + error.what())));
    }
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
  }

  void compute(ResultWriter& writer, Report& report) {
    Times times;
    Filler filler(archive_, plan_, layout_, options_.work);
    for (uint64_t item; !failed_ && (item = next_++) <= items_;) {
      if (item < items_) {
        compute_item(writer, filler, item, times);
      } else {
        write_anchor_member(writer, times);
      }
    }
    const std::lock_guard lock(mutex_);
    report.compute_s += times.compute_s;
    report.write_s += times.write_s;
    report.wait_s += times.wait_s;
  }

  void compute_alone(ResultWriter& writer, uint64_t end, Report& report) {
    Times times;
    Filler filler(archive_, plan_, layout_, options_.work);
    for (uint64_t item; !failed_ && (item = next_++) < end;) {
      writer.drop(fill_item(writer, filler, item, times));
    }
    const std::lock_guard lock(mutex_);
    report.alone_s += times.compute_s;
  }

  [[nodiscard]] size_t bytes_of(uint64_t number) const {
    const uint64_t rest = layout_.anchor_offset() - number * item_bytes_;
    return static_cast<size_t>(std::min(item_bytes_, rest));
  }

  /// Computes an item, which is out then.
  Item fill_item(ResultWriter& writer, Filler& filler, uint64_t number, Times& times) {
    const Item item = timed(times.wait_s, [&] { return writer.begin(); });
    try {
      timed(times.compute_s,
            [&] { filler.fill(number * item_bytes_, item.data.first(bytes_of(number))); });
    } catch (...) {
      writer.drop(item);
      throw;
    }
    return item;
  }

  void compute_item(ResultWriter& writer, Filler& filler, uint64_t number, Times& times) {
    const uint64_t offset = number * item_bytes_;
    const size_t bytes = bytes_of(number);
    const double before_s = times.compute_s;
    const Item item = fill_item(writer, filler, number, times);
    item_s_[number] = times.compute_s - before_s;
    timed(times.write_s, [&] { writer.hand_over(item, bytes, offset); });
    if (options_.verbose) {
      std::fprintf(stderr, "cube_remap: item %llu of %llu, %zu bytes\n",
                   static_cast<unsigned long long>(number) + 1,
                   static_cast<unsigned long long>(items_), bytes);
    }
  }

  void write_anchor_member(ResultWriter& writer, Times& times) {
    Times within;
    const auto start = Clock::now();
    ItemSink sink(writer, layout_.anchor_offset(), within);
    const auto header = make_header("anchor.xml", anchor_bytes_);
    sink.put({reinterpret_cast<const char*>(header.data()), header.size()});
    write_anchor(anchor_, plan_.stored(), plan_.columns(), sink);
    // Two blocks of zeros end an archive.
    sink.put(std::string(static_cast<size_t>(padding_of(anchor_bytes_)) + 2 * kBlockBytes, '\0'));
    sink.flush();
    times.compute_s += seconds_since(start) - within.write_s - within.wait_s;
    times.write_s += within.write_s;
    times.wait_s += within.wait_s;
  }

  void fail(std::exception_ptr failure) {
    failed_ = true;
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
  }

  const RemapOptions& options_;
  const Archive& archive_;
  const Anchor& anchor_;
  const Plan& plan_;
  const Layout& layout_;
  uint64_t anchor_bytes_;
  uint64_t item_bytes_;
  uint64_t items_;
  std::vector<double> item_s_;  // computation of each, written by whoever computes it
  std::atomic<uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;  // the first
};

void add_notes(Report& report, const std::vector<std::string>& notes) {
  report.notes.insert(report.notes.end(), notes.begin(), notes.end());
}

}  // namespace

Report remap(const RemapOptions& options) {
  auto file = std::make_unique<FileBytes>(options.input);
  check_distinct(*file, options.output);
  const Archive archive(std::move(file));
  const Anchor anchor = read_anchor(archive);
  const Plan plan(archive, anchor, options.plan);
  const Layout layout(archive, plan);
  CountingSink counter;
  write_anchor(anchor, plan.stored(), plan.columns(), counter);
  const uint64_t anchor_end = layout.anchor_offset() + kBlockBytes + counter.bytes();

  Report report;
  report.threads = plan.columns().locations();
  report.columns = plan.columns().count();
  report.metrics = plan.jobs().size();
  for (const Job& job : plan.jobs()) report.rows += job.paths.size();
  report.bytes = anchor_end + padding_of(counter.bytes()) + 2 * kBlockBytes;
  add_notes(report, archive.notes());
  add_notes(report, plan.notes());
  add_notes(report, layout.notes());

  WriterOptions writer_options = options.writer;
  writer_options.path = options.output;
  writer_options.bytes = report.bytes;
  const std::unique_ptr<ResultWriter> writer = make_writer(writer_options);
  PartialOutput partial(options.output);
  Remapping remapping(options, archive, anchor, plan, layout, counter.bytes());
  report.items = remapping.items() + 1;
  const auto start = Clock::now();
  remapping.run(*writer, report);
  timed(report.wait_s, [&] { writer->finish(); });
  report.total_s = seconds_since(start);
  writer->sync();
  report.durable_s = seconds_since(start);
  if (options.alone_items > 0) remapping.run_alone(*writer, report);
  report.read_s = plan.read_s();
  add_notes(report, writer->notes());
  partial.keep();
  return report;
}

}  // namespace cube

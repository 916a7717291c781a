#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>

#include "base/atomic_file.hpp"
#include "base/clock.hpp"
#include "base/waiting_text.hpp"
#include "cli/commands.hpp"
#include "cli/format.hpp"
#include "cli/measure_report.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "cli/report_facts.hpp"
#include "cli/stream_files.hpp"

namespace ioweave::cli {
namespace {

using Direction = StreamFiles::Direction;

/// Tells how far the measuring is and what it still takes: on a terminal with each sample, else
/// with each repetition.
class Progress {
 public:
  explicit Progress(const MeasureOptions& options) : options_(options), began_ns_(now_ns()) {}

  void warmed(uint64_t bytes) {
    warm_bytes_ = bytes;
    warm_s_ = static_cast<double>(now_ns() - began_ns_) / 1e9;
    if (line_.is_terminal()) line_.show("warming up, " + bytes_text(bytes) + " written");
  }

  /// Before a sample.
  void sampling(Direction direction, unsigned streams) {
    const size_t in_all = samples_in_all();
    const size_t in_repetition = options_.streams.size();
    if (!line_.is_terminal() && done_ % in_repetition != 0) return;
    const std::string what =
        line_.is_terminal()
            ? (direction == Direction::write ? ", streams that write: " : ", streams that read: ") +
                  std::to_string(streams)
            : "";
    line_.show("sample " + std::to_string(done_ + 1) + " of " + std::to_string(in_all) + what +
               "; " + waiting_text(seconds_left()) + " left");
  }

  void sampled(unsigned streams, double seconds) {
    ++done_;
    Took& took = took_[streams];
    took.seconds += seconds;
    ++took.times;
  }

 private:
  struct Took {
    double seconds = 0;
    unsigned times = 0;
  };

  [[nodiscard]] size_t samples_in_all() const {
    return options_.streams.size() * options_.repetitions * (options_.read ? 2 : 1);
  }

  /// As long as the same number of streams took before; before that, as the warm-up suggests: what
  /// the page cache takes at once has to be synced.
  [[nodiscard]] double expected_s(unsigned streams) const {
    const auto took = took_.find(streams);
    if (took != took_.end()) return took->second.seconds / took->second.times;
    const double rate = warm_s_ > 0 ? static_cast<double>(warm_bytes_) / warm_s_ : 0;
    const double sync_s =
        options_.direct || rate <= 0 ? 0 : streams * static_cast<double>(options_.bytes) / rate;
    return std::max(options_.seconds, sync_s);
  }

  [[nodiscard]] double seconds_left() const {
    double all_s = 0;
    for (const unsigned streams : options_.streams) all_s += expected_s(streams);
    const auto left = static_cast<double>(samples_in_all() - done_);
    return all_s * left / static_cast<double>(options_.streams.size());
  }

  const MeasureOptions& options_;
  const ProgressLine line_{"measure"};
  const uint64_t began_ns_;
  uint64_t warm_bytes_ = 0;
  double warm_s_ = 0;
  size_t done_ = 0;
  std::map<unsigned, Took> took_;
};

bool sample_all(StreamFiles& files, Direction direction, const MeasureOptions& options,
                std::vector<device::Sample>& samples, Progress& progress, std::string& why) {
  std::mt19937_64 random(std::random_device{}());
  samples = device::take_samples({options.streams, options.repetitions}, random,
                                 [&](unsigned streams, device::Sample& sample) {
                                   progress.sampling(direction, streams);
                                   const bool good =
                                       files.move(direction, streams, options.seconds, sample, why);
                                   progress.sampled(streams, sample.seconds);
                                   return good;
                                 });
  return why.empty();
}

bool measure(Measurement& measured, std::string& why) {
  const MeasureOptions& options = measured.options;
  const std::unique_ptr<StreamFiles> files = StreamFiles::make(
      {options.folder, options.streams.back(), options.bytes, options.direct}, why);
  if (!files) return false;
  Progress progress(options);
  if (!files->warm_up(
          options.warm_up_s, [&](uint64_t bytes) { progress.warmed(bytes); }, measured.warm_up,
          why)) {
    return false;
  }
  if (!sample_all(*files, Direction::write, options, measured.writes, progress, why)) return false;
  if (!options.read) return true;
  measured.still_cached = files->still_cached();
  return sample_all(*files, Direction::read, options, measured.reads, progress, why);
}

}  // namespace

int measure_command(Arguments arguments) {
  Measurement measured;
  if (const auto code = parse_measure(arguments, measured.options)) return *code;
  const MeasureOptions& options = measured.options;
  const std::optional<Place> place = find_place(options.folder);
  if (!place) {
    complain("measure: cannot look at folder " + quoted_name(options.folder) + ": " +
             std::strerror(errno));
    return kFailed;
  }
  measured.folder = place->path;
  measured.mount = place->mount;
  measured.machine = this_machine();
  measured.date = utc_now();
  std::string why;
  if (!measure(measured, why)) {
    complain("measure: " + why);
    return kFailed;
  }
  if (!options.json_file.empty()) {
    const int error = write_atomically(options.json_file, measure_json(measured));
    if (error != 0) {
      complain("measure: cannot write " + options.json_file + ": " + std::strerror(-error));
      print(measure_text(measured));
      return kFailed;
    }
  }
  const std::string text = measure_text(measured);
  const bool as_json = options.json && options.json_file.empty();
  const int error = print(options.toml ? measure_toml(measured)
                          : as_json    ? measure_json(measured)
                                       : text);
  if (options.toml || error != 0) print_error(text);
  if (error != 0) {
    complain("measure: cannot write the report: " + std::string(std::strerror(-error)));
    return kFailed;
  }
  return 0;
}

}  // namespace ioweave::cli

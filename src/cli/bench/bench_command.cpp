// How it works: the loads of the studies are measured in rounds, each in an order of its own, so
// that a device that gets slower meanwhile does not look like a way that is slow. What was measured
// is a profile (device/profile.hpp); the tables, the findings and the pictures are made of it, now
// or from its file later.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>

#include <sys/stat.h>

#include "base/atomic_file.hpp"
#include "base/clock.hpp"
#include "base/machine.hpp"
#include "base/waiting_text.hpp"
#include "cli/bench/bench_file.hpp"
#include "cli/bench/bench_report.hpp"
#include "cli/bench/load_runner.hpp"
#include "cli/bench/profile_file.hpp"
#include "cli/bench/studies.hpp"
#include "cli/commands.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "cli/report_facts.hpp"
#include "config/description.hpp"
#include "engine/probe.hpp"

namespace ioweave::cli {
namespace {

using device::IoWay;
using device::Load;
using device::LoadResult;
using device::Profile;
using engine::Finding;

// ---- What can be measured here ------------------------------------------------------------------

/// Returns why something cannot be used, in a sentence; nothing where it can, or was not tried.
std::string refusal_of(const std::vector<Finding>& findings, const std::string& subject) {
  const auto found = std::ranges::find_if(findings, [&](const Finding& finding) {
    return finding.subject == subject || finding.subject.starts_with(subject + " on ");
  });
  if (found == findings.end() || found->error == 0) return {};
  return found->cause + (found->remedy.empty() ? "" : "; " + found->remedy);
}

std::string why_not(const std::vector<Finding>& findings, const BenchFile& file, IoWay way,
                    bool direct) {
  if (direct && file.fd(true) < 0) return "this file system does not transfer past the page cache";
  std::string why;
  if (way != IoWay::psync) why = refusal_of(findings, "io_uring");
  if (why.empty()) why = refusal_of(findings, std::string(device::way_name(way)));
  return why;
}

/// Takes out of the plan what cannot be measured here, and notes why.
void leave_out_unusable(const BenchOptions& options, const BenchFile& file, std::vector<Load>& plan,
                        Profile& profile) {
  const std::vector<Finding> findings = engine::probe(options.path);
  for (const bool direct : {false, true}) {
    for (const IoWay way : device::kIoWays) {
      const auto is_one = [&](const Load& load) {
        return load.way == way && load.direct == direct;
      };
      if (std::ranges::none_of(plan, is_one)) continue;
      const std::string why = why_not(findings, file, way, direct);
      if (why.empty()) continue;
      profile.unusable.push_back({way, direct, why});
      std::erase_if(plan, is_one);
    }
  }
}

// ---- Measuring ----------------------------------------------------------------------------------

class Measuring {
 public:
  Measuring(const BenchOptions& options, BenchFile& file, LoadRunner& runner, Profile& profile)
      : options_(options), file_(file), runner_(runner), profile_(profile) {}

  bool run(std::string& why) {
    const auto tell = [&](uint64_t bytes) {
      if (progress_.is_terminal()) progress_.show("writing the file, " + bytes_text(bytes));
    };
    if (!file_.fill(tell, why)) return false;
    std::mt19937_64 random(std::random_device{}());
    std::vector<size_t> order(profile_.results.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    began_ns_ = now_ns();
    for (unsigned round = 0; round < options_.repetitions; ++round) {
      std::ranges::shuffle(order, random);
      if (!progress_.is_terminal()) show_how_far("");
      for (const size_t i : order) {
        if (progress_.is_terminal()) show_how_far(what_of(profile_.results[i].load));
        if (!sample(profile_.results[i], why)) return false;
        ++done_;
      }
    }
    return some_were_measured(why);
  }

 private:
  static std::string what_of(const Load& load) {
    return ", " + std::string(device::way_name(load.way)) + ", " + load_text(load);
  }

  /// Takes a sample, unless an earlier one failed. Returns false where the file itself fails.
  bool sample(LoadResult& result, std::string& why) {
    if (!result.failure.empty()) return true;
    if (const int error = file_.settle()) {
      why = std::string("cannot sync the file to measure with: ") + std::strerror(-error);
      return false;
    }
    device::LoadSample sample;
    // fio asks for a block in one piece however large it is. Before Linux 6.3 a polled one that the
    // device does not take at once never ends (engine/polled_size.hpp).
    LoadRunner& runner = result.load.way == IoWay::iopoll ? *own_ : runner_;
    if (runner.run(file_, result.load, options_.seconds, sample, result.failure)) {
      result.samples.push_back(sample);
    }
    return true;
  }

  bool some_were_measured(std::string& why) const {
    const bool some = std::ranges::any_of(
        profile_.results, [](const LoadResult& result) { return !result.samples.empty(); });
    if (!some) why = "no load could be measured: " + profile_.results.front().failure;
    return some;
  }

  void show_how_far(const std::string& what) const {
    const size_t all = profile_.results.size() * options_.repetitions;
    const double took_s = static_cast<double>(now_ns() - began_ns_) / 1e9;
    const double each_s = done_ > 0 ? took_s / static_cast<double>(done_) : options_.seconds;
    progress_.show("sample " + std::to_string(done_ + 1) + " of " + std::to_string(all) + "; " +
                   waiting_text(each_s * static_cast<double>(all - done_)) + " left" + what);
  }

  const BenchOptions& options_;
  BenchFile& file_;
  LoadRunner& runner_;
  const std::unique_ptr<LoadRunner> own_ = make_own_runner();
  Profile& profile_;
  ProgressLine progress_{"bench"};
  uint64_t began_ns_ = 0;
  size_t done_ = 0;
};

std::unique_ptr<LoadRunner> make_runner(const BenchOptions& options, std::string& why) {
  if (options.with == "ioweave") return make_own_runner();
  std::unique_ptr<LoadRunner> fio = make_fio_runner(why);
  if (fio || options.with == "fio") return fio;
  why.clear();
  return make_own_runner();
}

void note_place(const BenchOptions& options, Profile& profile) {
  if (const std::optional<Place> place = find_place(options.path)) {
    profile.path = place->path;
    profile.mount_path = place->mount.path;
    profile.file_system = place->mount.type;
  }
  const Machine machine = this_machine();
  profile.host = machine.host;
  profile.kernel = machine.kernel;
  profile.cpus = machine.cpus_allowed;
  profile.date = utc_now();
}

bool measure(const BenchOptions& options, Profile& profile, std::string& why) {
  const std::unique_ptr<BenchFile> file = BenchFile::open(options.path, options.file_bytes, why);
  if (!file) return false;
  const std::unique_ptr<LoadRunner> runner = make_runner(options, why);
  if (!runner) return false;
  note_place(options, profile);
  profile.by = runner->name();
  profile.file_bytes = file->bytes();
  profile.block_bytes = options.block_bytes;
  profile.seconds = options.seconds;
  std::vector<Load> plan = planned_loads(options, file->bytes(), file->read_only());
  leave_out_unusable(options, *file, plan, profile);
  if (plan.empty()) {
    why = "nothing is left to measure";
    for (const device::UnusableWay& each : profile.unusable) {
      why += "; " + std::string(device::way_name(each.way)) + ": " + each.why;
    }
    return false;
  }
  for (const Load& load : plan) profile.results.push_back({load, {}, {}});
  return Measuring(options, *file, *runner, profile).run(why);
}

// ---- Reporting ----------------------------------------------------------------------------------

int write_pictures(const std::string& folder, const Profile& profile) {
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) return -errno;
  for (const Picture& picture : bench_pictures(profile)) {
    if (const int error = write_atomically(folder + "/" + picture.name, picture.svg)) return error;
  }
  return 0;
}

/// Says how `ioweave run` comes to know the profile.
std::string how_to_use(const std::string& file, const Profile& profile) {
  config::Device device;
  device.name = "measured";
  device.path = profile.path;
  device.profile = std::filesystem::absolute(file).string();
  return "`ioweave run` begins with what is fastest by this profile, with this in ioweave.toml:\n" +
         config::device_toml(device);
}

/// Writes all that was asked for, and the rest too where one cannot be written.
int report(const BenchOptions& options, const Profile& profile) {
  int code = 0;
  const auto check = [&code](int error, const std::string& what) {
    if (error == 0) return;
    complain("bench: cannot write " + what + ": " + std::strerror(-error));
    code = kFailed;
  };
  const bool as_json = options.json && options.json_file.empty();
  check(print(as_json ? profile_json(profile) : bench_text(profile)), "the report");
  if (!options.json_file.empty()) {
    check(write_atomically(options.json_file, profile_json(profile)), options.json_file);
    if (code == 0) print_error(how_to_use(options.json_file, profile));
  }
  if (!options.pictures.empty()) {
    check(write_pictures(options.pictures, profile), "pictures into " + options.pictures);
  }
  return code;
}

}  // namespace

int bench_command(Arguments arguments) {
  BenchOptions options;
  if (const auto code = parse_bench(arguments, options)) return *code;
  Profile profile;
  std::string why;
  const bool done = options.from.empty() ? measure(options, profile, why)
                                         : load_profile(options.from, profile, why);
  if (!done) {
    complain("bench: " + why);
    return kFailed;
  }
  return report(options, profile);
}

}  // namespace ioweave::cli

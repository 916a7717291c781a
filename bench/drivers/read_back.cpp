// Reads the items of a spread and computes on each: by pread(2), past the page cache or through it,
// or by Ioweave's read stream, which reads ahead from all targets. One JSON line tells how long it
// took until the last item was computed. The items are written first, in the same program.

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "driver.hpp"
#include "ioweave/read_streams.hpp"
#include "ioweave/spread.hpp"
#include "options.hpp"
#include "stream_work.hpp"

namespace {

using namespace ioweave::bench;

struct Settings {
  std::string how;
  uint64_t items = 16;
  uint64_t item_bytes = 4 << 20;
  uint64_t work = 0;
  unsigned buffers = 4;
  std::vector<std::filesystem::path> directories;
  bool read_only = false;
  bool verify = false;
};

/// The items on the targets, in turn, and their manifest. Removes them.
class Written {
 public:
  explicit Written(const Settings& settings)
      : item_bytes_(settings.item_bytes), manifest_(settings.directories.front() / "items") {
    for (size_t i = 0; i < settings.directories.size(); ++i) {
      targets_.push_back(settings.directories[i] / ("items." + std::to_string(i)));
    }
    ioweave::Service service;
    iow_write_stream_options options{};
    options.buffer_bytes = item_bytes_;
    options.budget_bytes = item_bytes_ * settings.buffers;
    ioweave::WriteStream stream(service, options);
    ioweave::Spread spread(stream, manifest_, targets_);
    for (uint64_t item = 0; item < settings.items; ++item) {
      ioweave::Lease lease = stream.lease();
      StreamWork(0).compute({lease.data().data(), item_bytes_}, item);
      spread.append(std::move(lease), item_bytes_);
    }
    spread.end();
    for (const std::filesystem::path& target : targets_) {
      const File file(target, O_RDONLY);
      const int error = posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
      if (error != 0) {
        die("posix_fadvise", error);
      }
    }
  }
  ~Written() {
    std::error_code ignored;
    std::filesystem::remove(manifest_, ignored);
    for (const std::filesystem::path& target : targets_) {
      std::filesystem::remove(target, ignored);
    }
  }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;

  [[nodiscard]] const std::filesystem::path& manifest() const { return manifest_; }
  [[nodiscard]] const std::vector<std::filesystem::path>& targets() const { return targets_; }

 private:
  const uint64_t item_bytes_;
  const std::filesystem::path manifest_;
  std::vector<std::filesystem::path> targets_;
};

/// Takes each item in turn.
using Use = std::function<void(std::span<std::byte>, uint64_t item)>;

void read_plainly(const Settings& settings, const Written& written, const Use& use) {
  const Buffer buffer(settings.item_bytes);
  const size_t count = written.targets().size();
  std::vector<std::unique_ptr<File>> files;
  for (const std::filesystem::path& target : written.targets()) {
    const int flags = O_RDONLY | (settings.how == "plain" ? O_DIRECT : 0);
    files.push_back(std::make_unique<File>(target, flags));
  }
  for (uint64_t item = 0; item < settings.items; ++item) {
    const int fd = files[item % count]->fd();
    const auto offset = static_cast<off_t>(item / count * settings.item_bytes);
    for (size_t done = 0; done < settings.item_bytes;) {
      const int64_t got = check_errno(pread(fd, buffer.data() + done, settings.item_bytes - done,
                                            offset + static_cast<off_t>(done)),
                                      "pread");
      if (got == 0) {
        die("item " + std::to_string(item) + " ends early");
      }
      done += static_cast<size_t>(got);
    }
    use({buffer.data(), buffer.bytes()}, item);
  }
}

void read_ahead(ioweave::ReadStream& items, const Use& use) {
  while (const ioweave::ReadLease lease = items.next()) {
    use(lease.data(), lease.item());
  }
}

/// Opening the stream begins to read, so it counts.
void measure(const Settings& settings) {
  const Written written(settings);
  const StreamWork work(settings.work);
  double compute_s = 0;
  const Use use = [&](std::span<std::byte> item, uint64_t number) {
    if (settings.verify && !StreamWork::is_content(item, number, 0)) {
      die("item " + std::to_string(number) + " was read wrongly");
    }
    if (!settings.read_only) {
      const uint64_t before_ns = ioweave::now_ns();
      work.compute(item, number);
      compute_s += seconds_since(before_ns);
    }
  };
  ioweave::Service service;
  const uint64_t start_ns = ioweave::now_ns();
  if (settings.how == "stream") {
    iow_read_stream_options options{};
    options.buffer_bytes = settings.item_bytes;
    options.budget_bytes = settings.item_bytes * settings.buffers;
    ioweave::ReadStream items(service, written.manifest(), options);
    read_ahead(items, use);
  } else {
    read_plainly(settings, written, use);
  }
  print_result({{"time_s", seconds_since(start_ns)},
                {"compute_s", compute_s},
                {"peak_mib", peak_rss_mib()}});
}

int run(int argc, char** argv) {
  Settings settings;
  Options app("Reads the items of a spread, in one of several ways, and computes on each");
  app.add("--how", settings.how).required().one_of({"plain", "cached", "stream"});
  app.add("--items", settings.items).positive();
  app.add("--bytes", settings.item_bytes, "of an item; a multiple of 4096").between(4096, 1 << 30);
  app.add("--work", settings.work, "of an item: what bench_streams --calibrate printed");
  app.add("--buffers", settings.buffers).between(1, 1024);
  std::vector<std::string> directories;
  app.add("--directory", directories, "repeated: items lie in each in turn").required();
  app.add_flag("--read-only", settings.read_only, "compute nothing");
  app.add_flag("--verify", settings.verify, "compare what was read");
  app.parse(argc, argv);
  settings.directories.assign(directories.begin(), directories.end());
  if (settings.item_bytes % StreamWork::kBlockBytes != 0) {
    die("--bytes must be a multiple of 4096");
  }
  measure(settings);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}

// Computes items one after another and writes each: by pwrite(2), by the kinds of asynchronous I/O
// that a program may choose from, or by Ioweave's write streams. One JSON line tells how long it
// took until the program could go on, and until all items were on the device.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "driver.hpp"
#include "options.hpp"
#include "stream_contenders.hpp"
#include "stream_work.hpp"

namespace {

using namespace ioweave::bench;

struct Settings {
  std::string how;
  uint64_t items = 16;
  uint64_t item_bytes = 4 << 20;
  double compute_ms = 0;
  uint64_t work = 0;
  unsigned buffers = 4;
  std::vector<std::string> directories;
  std::string path = "direct";
  bool file_each = false;
  bool write_only = false;
  uint64_t alone = 0;
  uint64_t spend_mib = 0;
  bool verify = false;
};

/// Where an item goes: targets take turns, one file each, or one for each item.
struct Layout {
  std::vector<StreamSettings::Target> files;
  uint64_t targets;
  uint64_t item_bytes;
  bool file_each;

  explicit Layout(const Settings& settings)
      : targets(settings.directories.size()),
        item_bytes(settings.item_bytes),
        file_each(settings.file_each) {
    const uint64_t count = file_each ? settings.items : std::min(targets, settings.items);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t items = file_each ? 1 : (settings.items - i + targets - 1) / targets;
      files.push_back(
          {settings.directories[i % targets] + "/stream-" + std::to_string(i), items * item_bytes});
    }
  }

  [[nodiscard]] size_t file_of(uint64_t item) const { return file_each ? item : item % targets; }
  [[nodiscard]] uint64_t offset_of(uint64_t item) const {
    return file_each ? 0 : item / targets * item_bytes;
  }
};

/// Removes the files in any case.
class Removal {
 public:
  explicit Removal(const Layout& layout) : layout_(layout) {}
  ~Removal() {
    for (const auto& file : layout_.files) {
      unlink(file.path.c_str());
    }
  }
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;

 private:
  const Layout& layout_;
};

/// Writes so much past the page cache, just before the clock starts: a device that banked credit
/// while nothing was written has none afterwards. The file goes later, with what removing it costs.
class SpentCredit {
 public:
  SpentCredit(const std::string& path, uint64_t mib) : path_(path) {
    if (mib == 0) {
      return;
    }
    const Buffer piece(1 << 20);
    const File file(path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT);
    for (uint64_t i = 0; i < mib; ++i) {
      check_errno(write(file.fd(), piece.data(), piece.bytes()), "write");
    }
  }
  ~SpentCredit() { unlink(path_.c_str()); }
  SpentCredit(const SpentCredit&) = delete;
  SpentCredit& operator=(const SpentCredit&) = delete;

 private:
  std::string path_;
};

class Run {
 public:
  Run(const Settings& settings, const Layout& layout)
      : settings_(settings), layout_(layout), work_(settings.work) {}

  void measure() {
    std::unique_ptr<StreamContender> contender = open_stream_contender(
        settings_.how,
        {layout_.files, settings_.item_bytes, settings_.buffers, settings_.path == "direct"});
    // Touched before the clock starts: in a virtual machine new pages take the host's time.
    contender->show_buffers([&](std::span<std::byte* const> buffers) {
      for (uint64_t i = 0; i < buffers.size(); ++i) {
        StreamWork(0).compute({buffers[i], settings_.item_bytes}, i);
      }
    });
    double alone_s = compute_alone(*contender);
    const SpentCredit spent(settings_.directories.front() + "/spent", settings_.spend_mib);
    write_items(*contender);
    const double peak_mib = peak_rss_mib();
    alone_s += compute_alone(*contender);
    contender.reset();
    if (settings_.verify) {
      verify();
    }
    const auto items = static_cast<double>(settings_.items);
    const double alone_item_s =
        settings_.alone == 0 ? 0 : alone_s / static_cast<double>(2 * settings_.alone);
    print_result({{"return_s", return_s_},
                  {"durable_s", durable_s_},
                  {"compute_s", compute_s_},
                  {"alone_s", alone_item_s * items},
                  {"peak_mib", peak_mib},
                  {"bytes", items * static_cast<double>(settings_.item_bytes)}});
  }

 private:
  void write_items(StreamContender& contender) {
    const uint64_t start_ns = ioweave::now_ns();
    for (uint64_t item = 0; item < settings_.items; ++item) {
      std::byte* buffer = contender.take();
      if (!settings_.write_only) {
        const uint64_t before_ns = ioweave::now_ns();
        work_.compute({buffer, settings_.item_bytes}, item);
        compute_s_ += seconds_since(before_ns);
      }
      contender.write(layout_.file_of(item), layout_.offset_of(item));
    }
    return_s_ = seconds_since(start_ns);
    contender.make_durable();
    durable_s_ = seconds_since(start_ns);
  }

  /// The same computation in the same buffers while nothing is written.
  double compute_alone(StreamContender& contender) const {
    if (settings_.alone == 0) {
      return 0;
    }
    double seconds = 0;
    contender.show_buffers([&](std::span<std::byte* const> buffers) {
      const uint64_t start_ns = ioweave::now_ns();
      for (uint64_t i = 0; i < settings_.alone; ++i) {
        work_.compute({buffers[i % buffers.size()], settings_.item_bytes}, i);
      }
      seconds = seconds_since(start_ns);
    });
    return seconds;
  }

  void verify() const {
    std::vector<std::byte> read(settings_.item_bytes);
    for (uint64_t item = 0; item < settings_.items; ++item) {
      const File file(layout_.files[layout_.file_of(item)].path, O_RDONLY);
      const auto offset = static_cast<off_t>(layout_.offset_of(item));
      size_t done = 0;
      while (done < read.size()) {
        const int64_t got = check_errno(pread(file.fd(), read.data() + done, read.size() - done,
                                              offset + static_cast<off_t>(done)),
                                        "pread");
        if (got == 0) {
          die("item " + std::to_string(item) + " ends early");
        }
        done += static_cast<size_t>(got);
      }
      if (!StreamWork::is_content(read, item, 0)) {
        die("item " + std::to_string(item) + " was written wrongly");
      }
    }
  }

  const Settings& settings_;
  const Layout& layout_;
  StreamWork work_;
  double return_s_ = 0;
  double durable_s_ = 0;
  double compute_s_ = 0;
};

uint64_t calibrated(const Settings& settings) {
  const Buffer item(settings.item_bytes);
  return StreamWork::rounds_for(settings.compute_ms / 1e3, {item.data(), item.bytes()});
}

int run(int argc, char** argv) {
  Settings settings;
  bool calibrate = false;
  bool one_file = false;
  bool list = false;
  Options app("Computes items and writes each, in one of several ways");
  app.add("--how", settings.how).one_of(stream_contenders());
  app.add("--items", settings.items).positive();
  app.add("--bytes", settings.item_bytes, "of an item; a multiple of 4096").between(4096, 1 << 30);
  const Option time =
      app.add("--compute-ms", settings.compute_ms, "of an item; measured first").not_negative();
  app.add("--work", settings.work, "of an item, instead: what --calibrate printed").excludes(time);
  app.add("--buffers", settings.buffers).between(1, 1024);
  app.add("--directory", settings.directories, "repeated: items go to each in turn");
  app.add("--path", settings.path).one_of({"direct", "buffered"});
  const Option each =
      app.add_flag("--file-each", settings.file_each, "each item has a file of its own");
  app.add_flag("--one-file", one_file, "in each directory (the default)").excludes(each);
  app.add_flag("--write-only", settings.write_only, "compute nothing");
  app.add("--alone", settings.alone, "compute so many items before and after, for alone_s");
  app.add("--spend-mib", settings.spend_mib, "write so much before the clock starts");
  app.add_flag("--verify", settings.verify, "read all back and compare");
  app.add_flag("--calibrate", calibrate, "only print the work that takes --compute-ms");
  app.add_flag("--list", list, "only print the names for --how");
  app.parse(argc, argv);
  if (list) {
    for (const std::string& name : stream_contenders()) {
      std::printf("%s\n", name.c_str());
    }
    return 0;
  }
  if (settings.item_bytes % StreamWork::kBlockBytes != 0) {
    die("--bytes must be a multiple of 4096");
  }
  if (calibrate) {
    print_result({{"work", static_cast<double>(calibrated(settings))}});
    return 0;
  }
  if (settings.how.empty() || settings.directories.empty()) {
    die("--how and --directory are needed");
  }
  if (settings.compute_ms > 0) {
    settings.work = calibrated(settings);
  }
  const Layout layout(settings);
  const Removal removal(layout);
  Run(settings, layout).measure();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}

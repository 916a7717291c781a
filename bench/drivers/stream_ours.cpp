// Ioweave's write streams as contenders of bench_streams: files that the program chooses, and a
// spread that does.

#include <cstdio>
#include <memory>
#include <utility>

#include "ioweave/spread.hpp"
#include "ioweave/streams.hpp"
#include "stream_contenders.hpp"

namespace ioweave::bench {
namespace {

/// The buffers, which are leases of a stream.
class OwnBuffers : public StreamContender {
 public:
  explicit OwnBuffers(const StreamSettings& settings)
      : buffers_(settings.buffers),
        item_bytes_(settings.item_bytes),
        stream_(service_, options_of(settings)) {}

  std::byte* take() override {
    lease_ = stream_.lease();
    return lease_.data().data();
  }
  void show_buffers(const std::function<void(std::span<std::byte* const>)>& look) override {
    std::vector<Lease> leases;
    std::vector<std::byte*> all;
    for (unsigned i = 0; i < buffers_; ++i) {
      leases.push_back(stream_.lease());
      all.push_back(leases.back().data().data());
    }
    look(all);
  }

 protected:
  [[nodiscard]] size_t item_bytes() const { return item_bytes_; }
  WriteStream& stream() { return stream_; }
  Lease& lease() { return lease_; }

 private:
  static iow_write_stream_options options_of(const StreamSettings& settings) {
    iow_write_stream_options options{};
    options.buffer_bytes = settings.item_bytes;
    options.budget_bytes = settings.item_bytes * settings.buffers;
    options.path = settings.direct ? IOW_PATH_DIRECT : IOW_PATH_BUFFERED;
    return options;
  }

  const unsigned buffers_;
  const size_t item_bytes_;
  Service service_;
  WriteStream stream_;
  Lease lease_;
};

class OwnStream final : public OwnBuffers {
 public:
  explicit OwnStream(const StreamSettings& settings) : OwnBuffers(settings) {
    for (const StreamSettings::Target& target : settings.files) {
      iow_write_file_options options{};
      options.expected_bytes = target.bytes;
      files_.push_back(stream().create(target.path, options));
    }
  }

  void write(size_t file, uint64_t offset) override {
    lease().write(files_[file], item_bytes(), static_cast<off_t>(offset));
  }
  void make_durable() override { stream().sync(); }

 private:
  std::vector<int> files_;
};

/// Takes the files in turn, as the program would.
class OwnSpread final : public OwnBuffers {
 public:
  explicit OwnSpread(const StreamSettings& settings)
      : OwnBuffers(settings), manifest_(settings.files.front().path + ".manifest") {
    std::vector<std::filesystem::path> targets;
    iow_spread_options options{};
    for (const StreamSettings::Target& target : settings.files) {
      targets.emplace_back(target.path);
      options.expected_bytes += target.bytes;
    }
    spread_ = std::make_unique<Spread>(stream(), manifest_, targets, options);
  }
  ~OwnSpread() override { std::remove(manifest_.c_str()); }

  void write(size_t /*file*/, uint64_t /*offset*/) override {
    spread_->append(std::move(lease()), item_bytes());
  }
  void make_durable() override { spread_->end(); }

 private:
  const std::string manifest_;
  std::unique_ptr<Spread> spread_;
};

}  // namespace

std::unique_ptr<StreamContender> open_own_stream(const StreamSettings& settings) {
  return std::make_unique<OwnStream>(settings);
}

std::unique_ptr<StreamContender> open_own_spread(const StreamSettings& settings) {
  return std::make_unique<OwnSpread>(settings);
}

}  // namespace ioweave::bench

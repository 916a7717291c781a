// Ioweave's write streams as a contender of bench_streams.

#include "ioweave/streams.hpp"
#include "stream_contenders.hpp"

namespace ioweave::bench {
namespace {

class OwnStream final : public StreamContender {
 public:
  explicit OwnStream(const StreamSettings& settings)
      : buffers_(settings.buffers),
        item_bytes_(settings.item_bytes),
        stream_(service_, options_of(settings)) {
    for (const StreamSettings::Target& target : settings.files) {
      iow_write_file_options options{};
      options.expected_bytes = target.bytes;
      files_.push_back(stream_.create(target.path, options));
    }
  }

  std::byte* take() override {
    lease_ = stream_.lease();
    return lease_.data().data();
  }
  void write(size_t file, uint64_t offset) override {
    lease_.write(files_[file], item_bytes_, static_cast<off_t>(offset));
  }
  void make_durable() override { stream_.sync(); }

  void show_buffers(const std::function<void(std::span<std::byte* const>)>& look) override {
    std::vector<Lease> leases;
    std::vector<std::byte*> all;
    for (unsigned i = 0; i < buffers_; ++i) {
      leases.push_back(stream_.lease());
      all.push_back(leases.back().data().data());
    }
    look(all);
  }

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
  std::vector<int> files_;
  Lease lease_;
};

}  // namespace

std::unique_ptr<StreamContender> open_own_stream(const StreamSettings& settings) {
  return std::make_unique<OwnStream>(settings);
}

}  // namespace ioweave::bench

// Ioweave's write stream. Its buffers always lie in one aligned slab; --pool and --align are how it
// works.
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>

#include <unistd.h>

#include <ioweave/streams.hpp>

#include "error.hpp"
#include "placement.hpp"
#include "result_writer.hpp"

namespace cube {
namespace {

iow_write_path path_of(WritePath path) {
  return path == WritePath::kDirect     ? IOW_PATH_DIRECT
         : path == WritePath::kBuffered ? IOW_PATH_BUFFERED
                                        : IOW_PATH_AUTO;
}

class IoweaveWriter : public ResultWriter {
 public:
  explicit IoweaveWriter(const WriterOptions& options) : path_(options.path) {
    Placement placement;
    if (options.is_pinned) {
      placement = choose_placement();
      if (placement.io.empty()) {
        notes_.emplace_back("--pin: there is one processor only; nothing is pinned");
      }
    }
    // Threads of the service inherit the processors of the thread that opens it.
    const OnProcessors there(placement.io);
    explain([&] { open(options); });
  }

  Item begin() override {
    return explain([&] {
      ioweave::Lease lease = stream_->lease();
      const std::span<std::byte> data = lease.data();
      const std::lock_guard lock(mutex_);
      if (free_.empty()) {
        free_.push_back(leases_.size());
        leases_.emplace_back();
      }
      const size_t slot = free_.back();
      free_.pop_back();
      leases_[slot] = std::move(lease);
      return Item{data.first(item_bytes_), slot};
    });
  }
  void hand_over(const Item& item, size_t bytes, uint64_t offset) override {
    ioweave::Lease lease = take_back(item.slot);
    explain([&] { lease.write(file_, bytes, static_cast<off_t>(offset)); });
  }
  void drop(const Item& item) override { static_cast<void>(take_back(item.slot)); }
  void finish() override {
    explain([&] { stream_->flush(file_); });
  }
  void sync() override {
    explain([&] { stream_->sync(file_); });
  }
  [[nodiscard]] std::vector<std::string> notes() const override { return notes_; }

 private:
  void open(const WriterOptions& options) {
    item_bytes_ = options.buffers.bytes;
    service_.emplace();
    iow_write_stream_options stream{};
    stream.buffer_bytes = item_bytes_;
    stream.budget_bytes = uint64_t{item_bytes_} * options.buffers.count;
    stream.path = path_of(options.write_path);
    stream.small_pages = options.buffers.is_huge ? 0 : 1;
    stream_.emplace(*service_, stream);
    iow_write_file_options file{};
    file.expected_bytes = options.bytes;
    try {
      file_ = stream_->create(path_, file);
    } catch (const std::system_error& error) {
      // Without room for it the file has been made, or emptied, in vain.
      const int code = error.code().value();
      if (code == ENOSPC || code == EFBIG || code == EDQUOT) unlink(path_.c_str());
      throw;
    }
  }

  ioweave::Lease take_back(size_t slot) {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
    return std::move(leases_[slot]);
  }

  /// Says what went wrong in the words of the stream, which knows path and offset.
  template <typename Act>
  auto explain(Act act) -> decltype(act()) {
    try {
      return act();
    } catch (const std::system_error& error) {
      char* text = nullptr;
      if (stream_ && stream_->raw() != nullptr && file_ >= 0) {
        iow_write_stream_error(stream_->raw(), file_, &text);
      }
      const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
      throw CubeError(owned ? owned.get() : error.what());
    }
  }

  std::string path_;
  std::vector<std::string> notes_;
  size_t item_bytes_ = 0;
  int file_ = -1;
  std::mutex mutex_;
  std::vector<ioweave::Lease> leases_;  // of items that are out
  std::vector<size_t> free_;            // places in leases_
  std::optional<ioweave::Service> service_;
  std::optional<ioweave::WriteStream> stream_;
};

}  // namespace

std::unique_ptr<ResultWriter> make_ioweave_writer(const WriterOptions& options) {
  return std::make_unique<IoweaveWriter>(options);
}

}  // namespace cube

#include "stream/manifest/manifest_writer.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/atomic_file.hpp"
#include "base/cancellation_off.hpp"
#include "base/file_id.hpp"
#include "base/json_string.hpp"

namespace ioweave::stream {

ManifestWriter::ManifestWriter(const std::vector<std::string>& targets, uint64_t page)
    : targets_(targets.size()), page_(page) {
  text_ = "{\"ioweave_manifest\":" + std::to_string(kManifestVersion) +
          ",\"page\":" + std::to_string(page) + ",\"targets\":[";
  for (size_t i = 0; i < targets.size(); ++i) {
    text_ += i != 0 ? "," : "";
    append_json_string(text_, targets[i]);
  }
  text_ += "]}\n";
}

ManifestWriter::~ManifestWriter() {
  discard();
}

int ManifestWriter::open(const std::string& path, uint32_t mode, std::string& why) {
  const CancellationOff uncancelled;  // opens a file
  path_ = path;
  const std::string beside = path + ".part";
  while (true) {
    Descriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode));
    if (!file.is_open()) {
      const int error = errno;
      why = "cannot create '" + beside + "': " + std::strerror(error);
      return -error;
    }
    // Of a process that was killed it is left over; the lock went with that process.
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      why = "'" + path + "' is being written by another spread";
      return -EBUSY;
    }
    struct stat ours {};
    struct stat named {};
    const bool is_it = ::fstat(file.get(), &ours) == 0 && ::stat(beside.c_str(), &named) == 0 &&
                       FileId::of(ours) == FileId::of(named);
    if (!is_it) {
      continue;  // it got its final name before we had the lock
    }
    if (::ftruncate(file.get(), 0) != 0) {
      const int error = errno;
      why = "cannot empty '" + beside + "': " + std::strerror(error);
      return -error;
    }
    file_ = std::move(file);
    beside_ = beside;
    return 0;
  }
}

void ManifestWriter::add(const ManifestItem& item) {
  const bool is_lost = item.target == ManifestItem::kLost;
  const uint64_t rounds = count_ / targets_;
  const bool continues =
      count_ != 0 && !is_lost && run_.target != ManifestItem::kLost && item.bytes == run_.bytes &&
      item.target == (run_.target + count_) % targets_ &&
      item.offset == run_.offset + static_cast<int64_t>(rounds * round_up(run_.bytes, page_));
  if (!continues) {
    end_run();
    run_ = item;
  }
  ++count_;
  ++items_;
  lost_items_ += is_lost ? 1 : 0;
  bytes_ += is_lost ? 0 : item.bytes;
}

void ManifestWriter::end_run() {
  if (count_ == 0) {
    return;
  }
  const std::string count = count_ == 1 ? "" : "," + std::to_string(count_);
  const std::string place =
      run_.target == ManifestItem::kLost
          ? ",null,null,"
          : "," + std::to_string(run_.target) + "," + std::to_string(run_.offset) + ",";
  text_ += "[" + std::to_string(run_.number) + place + std::to_string(run_.bytes) + count + "]\n";
  count_ = 0;
}

void ManifestWriter::add_end() {
  end_run();
  text_ += "{\"items\":" + std::to_string(items_) + ",\"bytes\":" + std::to_string(bytes_) +
           ",\"lost\":" + std::to_string(lost_items_) + "}\n";
}

int ManifestWriter::write(std::string_view text) noexcept {
  const CancellationOff uncancelled;
  return write_all(file_.get(), text);
}

int ManifestWriter::finish() noexcept {
  if (::rename(beside_.c_str(), path_.c_str()) != 0) {
    return -errno;
  }
  file_.reset();
  return 0;
}

void ManifestWriter::discard() noexcept {
  if (file_.is_open()) {
    ::unlink(beside_.c_str());
    file_.reset();
  }
}

}  // namespace ioweave::stream

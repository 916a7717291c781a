#include "stream/spread/spread.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <set>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/cancellation_off.hpp"
#include "base/clock.hpp"
#include "base/file_id.hpp"
#include "base/json_string.hpp"
#include "stream/write/write_parts.hpp"

namespace ioweave::stream {
namespace {

namespace fs = std::filesystem;

/// Where the files of a spread are, without links in the names of folders.
struct Paths {
  std::string manifest;
  std::vector<std::string> targets;
  std::vector<std::string> names;  ///< of the targets, in the manifest

  [[nodiscard]] std::vector<std::string> folders() const {
    std::set<std::string> all{fs::path(manifest).parent_path()};
    for (const std::string& target : targets) {
      all.insert(fs::path(target).parent_path());
    }
    return {all.begin(), all.end()};
  }
};

/// `path` with the real path of its folder: 0 or -errno.
int resolve(const fs::path& path, std::string& resolved, std::string& why) {
  if (path.filename().empty() || path.filename() == "." || path.filename() == "..") {
    why = "'" + path.string() + "' does not name a file";
    return -EINVAL;
  }
  std::error_code error;
  const fs::path folder = fs::canonical(path.has_parent_path() ? path.parent_path() : ".", error);
  if (error) {
    why = "cannot find the folder of '" + path.string() + "': " + error.message();
    return -error.value();
  }
  resolved = folder / path.filename();
  return 0;
}

int find_paths(const std::string& manifest, const std::vector<std::string>& targets, Paths& paths,
               std::string& why) {
  if (const int error = resolve(manifest, paths.manifest, why); error != 0) {
    return error;
  }
  const fs::path own_folder = fs::path(paths.manifest).parent_path();
  const std::string within = own_folder / "";
  const std::string name = fs::path(paths.manifest).filename();
  std::set<std::string> known{paths.manifest};
  for (size_t i = 0; i < targets.size(); ++i) {
    std::error_code ignored;
    const bool is_folder = fs::is_directory(targets[i], ignored);
    const fs::path given =
        is_folder ? fs::path(targets[i]) / (name + "." + std::to_string(i)) : fs::path(targets[i]);
    std::string path;
    if (const int error = resolve(given, path, why); error != 0) {
      return error;
    }
    if (!known.insert(path).second) {
      why = "'" + path + "' would be two files of the spread: each target needs one of its own";
      return -EINVAL;
    }
    if (!is_utf8(path)) {
      why = "'" + path + "' is not UTF-8, so the manifest cannot name it";
      return -EINVAL;
    }
    paths.names.push_back(path.starts_with(within) ? path.substr(within.size()) : path);
    paths.targets.push_back(std::move(path));
  }
  return 0;
}

int open_folder(const std::string& path) noexcept {
  const CancellationOff uncancelled;
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/// Makes what was created or renamed in the folder durable: 0 or -errno.
int sync_folder(service::Service& service, const std::string& path) {
  const Descriptor folder(open_folder(path));
  if (!folder.is_open()) {
    return -errno;
  }
  const service::Call sync{engine::Op::fsync, folder.get(), nullptr, 0, 0, false};
  const auto result = static_cast<int>(service.transfer(sync));
  return result == -EINVAL ? 0 : result;  // some file systems have nothing to be done
}

/// What stands at the manifest's place goes, as its data will.
int remove_old(service::Service& service, const std::string& path, bool exclusive,
               std::string& why) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    return 0;
  }
  if (exclusive) {
    why = "'" + path + "' exists";
    return -EEXIST;
  }
  if (!S_ISREG(found.st_mode) && !S_ISLNK(found.st_mode)) {
    why = "'" + path + "' is not a regular file: a manifest cannot take its place";
    return -EINVAL;
  }
  int error = ::unlink(path.c_str()) != 0 ? -errno : 0;
  if (error == 0) {
    // It must not come back after its data were overwritten.
    error = sync_folder(service, fs::path(path).parent_path());
  }
  if (error != 0) {
    why = "cannot remove '" + path + "': " + std::strerror(-error);
  }
  return error;
}

}  // namespace

// ---- Life

std::unique_ptr<Spread> Spread::create(WriteStream& stream, const std::string& manifest,
                                       const std::vector<std::string>& targets,
                                       const iow_spread_options& options, int& error,
                                       std::string& why) {
  Paths paths;
  error = find_paths(manifest, targets, paths, why);
  if (error != 0) {
    return nullptr;
  }
  std::unique_ptr<Spread> spread(
      new Spread(stream, options, paths.manifest, paths.folders(), paths.names));
  const uint32_t mode = options.mode != 0 ? options.mode : 0666;
  error = spread->manifest_.open(paths.manifest, mode, why);
  if (error == 0) {
    error = remove_old(stream.service(), paths.manifest, options.exclusive != 0, why);
  }
  if (error == 0) {
    error = spread->open_files(paths.targets, why);
  }
  return error == 0 ? std::move(spread) : nullptr;
}

Spread::Spread(WriteStream& stream, const iow_spread_options& options, std::string manifest,
               std::vector<std::string> folders, const std::vector<std::string>& names)
    : stream_(stream.share()),
      options_(options),
      manifest_path_(std::move(manifest)),
      folders_(std::move(folders)),
      manifest_(names, cache_page_bytes()),
      next_offsets_(names.size()),
      placement_(names.size(), options.placement == IOW_PLACE_BY_LOAD),
      holds_bytes_(names.size()) {
  stats_.targets = static_cast<uint32_t>(names.size());
}

int Spread::open_files(const std::vector<std::string>& paths, std::string& why) {
  iow_write_file_options options{};
  options.exclusive = options_.exclusive;
  options.mode = options_.mode;
  options.expected_bytes = (options_.expected_bytes + paths.size() - 1 < options_.expected_bytes
                                ? options_.expected_bytes
                                : options_.expected_bytes + paths.size() - 1) /
                           paths.size();
  std::set<FileId> known;
  for (const std::string& path : paths) {
    struct stat found {};
    if (::stat(path.c_str(), &found) == 0 && !known.insert(FileId::of(found)).second) {
      why = "'" + path + "' is a link to another target: each needs a file of its own";
      return -EINVAL;
    }
    const int file = stream_->create(path, options, why);
    if (file < 0) {
      return file;
    }
    stream_->give_file(file, *this);
    files_.push_back(file);
    if (::stat(path.c_str(), &found) == 0) {
      known.insert(FileId::of(found));
    }
  }
  return 0;
}

Spread::~Spread() {
  if (has_ended_) {
    return;
  }
  std::vector<WriteStream::FileEnd> ends;
  try {
    static_cast<void>(stream_->end_placed(*this, files_, false, ends));
  } catch (const std::bad_alloc&) {
    stream_->wait_placed(*this, files_);  // the files stay open until the stream ends
  }
}

// ---- Items on their way

int Spread::append(WriteStream::Buffer& buffer, uint64_t bytes, uint64_t& item) noexcept {
  if (&WriteStream::stream_of(buffer) != stream_.get()) {
    WriteStream::stream_of(buffer).end_lease(buffer);
    return -EINVAL;
  }
  const int error = stream_->write_placed(buffer, *this, bytes, item);
  spill();
  return error;
}

int Spread::choose(uint64_t bytes) noexcept {
  if (manifest_error_ != 0) {
    return std::exchange(is_manifest_error_told_, true) ? -ECANCELED : manifest_error_;
  }
  if (failed_file_ >= 0) {
    return failed_file_;
  }
  return files_[placement_.choose(bytes, now_ns())];
}

bool Spread::leave(int file) noexcept {
  const size_t target = target_of(file);
  placement_.fail(target);
  stats_.failed_targets = static_cast<uint32_t>(placement_.failed());
  if (options_.on_failure == IOW_FAILURE_MOVE && placement_.failed() < files_.size()) {
    return true;
  }
  failed_file_ = failed_file_ < 0 ? file : failed_file_;
  return false;
}

size_t Spread::target_of(int file) const noexcept {
  return static_cast<size_t>(std::find(files_.begin(), files_.end(), file) - files_.begin());
}

int64_t Spread::place(int file, uint64_t bytes, uint64_t& tag) noexcept {
  const size_t target = target_of(file);
  const int64_t offset = next_offsets_[target];
  const uint64_t now = now_ns();
  if (tag == kNew) {
    try {
      outstanding_.push_back({static_cast<uint32_t>(target), false, offset, bytes});
    } catch (const std::bad_alloc&) {
      return -ENOMEM;
    }
    tag = stats_.items++;
    stats_.bytes += bytes;
    ++under_way_;
  } else {
    Outstanding& item = outstanding_[tag - first_];
    placement_.end(item.target, item.bytes, false, now);
    item.target = static_cast<uint32_t>(target);
    item.offset = offset;
    ++stats_.moved_items;
  }
  placement_.start(target, bytes, now);
  next_offsets_[target] += static_cast<int64_t>(round_up(bytes, cache_page_bytes()));
  return offset;
}

void Spread::note_end(uint64_t tag, int error) noexcept {
  Outstanding& ended = outstanding_[tag - first_];
  placement_.end(ended.target, ended.bytes, error == 0, now_ns());
  ended.has_ended = true;
  --under_way_;
  if (error != 0) {
    ended.target = ManifestItem::kLost;
    ++stats_.lost_items;
  } else if (ended.bytes != 0) {
    holds_bytes_[ended.target] = true;
  }
  try {
    for (; !outstanding_.empty() && outstanding_.front().has_ended; outstanding_.pop_front()) {
      const Outstanding& item = outstanding_.front();
      manifest_.add({first_++, item.target, item.offset, item.bytes});
    }
  } catch (const std::bad_alloc&) {
    manifest_error_ = -ENOMEM;
    outstanding_.pop_front();  // its number has gone
  }
}

/// Writes the lines that are complete, unless somebody does already.
void Spread::spill() noexcept {
  std::string text;
  stream_->under_lock([&] {
    if (!is_spilling_ && manifest_.is_long()) {
      is_spilling_ = true;
      text = manifest_.take_text();
    }
  });
  if (text.empty()) {
    return;
  }
  const int error = manifest_.write(text);
  stream_->under_lock([&] {
    is_spilling_ = false;
    manifest_error_ = manifest_error_ == 0 ? error : manifest_error_;
  });
}

// ---- End

int Spread::end(bool durable, std::string& why) {
  why.clear();
  std::vector<WriteStream::FileEnd> ends;
  const int error = stream_->end_placed(*this, files_, durable, ends);
  has_ended_ = true;
  if (error != 0) {
    why = "the stream of '" + manifest_path_ + "' was closed, or its files were ended, before";
    manifest_.discard();
    return error;
  }
  return complete(ends, durable, why);
}

/// Writes the manifest if it may be, and says what is to be reported: the first error, and a
/// sentence on each; where all were reported, -ECANCELED and a sentence on the first.
int Spread::complete(const std::vector<WriteStream::FileEnd>& ends, bool durable,
                     std::string& why) {
  const bool are_moved = options_.on_failure == IOW_FAILURE_MOVE && failed_file_ < 0;
  int result = 0;
  bool is_in_doubt = false;
  for (size_t i = 0; i < ends.size(); ++i) {
    const WriteStream::FileEnd& end = ends[i];
    const bool is_missed = end.is_in_doubt && holds_bytes_[i];
    is_in_doubt = is_in_doubt || is_missed;
    if (end.error == 0 || (are_moved && stats_.lost_items == 0 && !is_missed)) {
      continue;
    }
    const bool is_first = result == 0 || (result == -ECANCELED && !end.was_reported);
    if (is_first) {
      result = end.was_reported ? -ECANCELED : end.error;
      why = end.why;
    } else if (!end.was_reported) {
      why += "; " + end.why;
    }
  }
  int error = 0;
  if (is_in_doubt) {
    manifest_.discard();
  } else {
    error = finish_manifest(durable);
  }
  if (error != 0 && (result == 0 || result == -ECANCELED)) {
    result = std::exchange(is_manifest_error_told_, true) ? -ECANCELED : error;
    why = "cannot write the manifest '" + manifest_path_ + "': " + std::strerror(-error);
  }
  return result;
}

int Spread::finish_manifest(bool durable) {
  int error = manifest_error_;
  service::Service& service = stream_->service();
  if (error == 0) {
    manifest_.add_end();
    error = manifest_.write(manifest_.take_text());
  }
  if (error == 0 && durable) {
    const service::Call sync{engine::Op::fsync, manifest_.fd(), nullptr, 0, 0, false};
    error = static_cast<int>(service.transfer(sync));
    for (const std::string& folder : folders_) {
      error = error == 0 ? sync_folder(service, folder) : error;
    }
  }
  if (error == 0) {
    error = manifest_.finish();
  }
  if (error == 0 && durable) {
    error = sync_folder(service, fs::path(manifest_path_).parent_path());
  }
  manifest_.discard();
  return error;
}

iow_spread_stats Spread::statistics() const noexcept {
  iow_spread_stats stats{};
  stream_->under_lock([&] { stats = stats_; });
  return stats;
}

}  // namespace ioweave::stream

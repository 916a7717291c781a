#include "cli/held_writes.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <map>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_id.hpp"
#include "base/file_time.hpp"
#include "base/process_start.hpp"
#include "cli/format.hpp"
#include "config/run_config.hpp"

namespace ioweave::cli {
namespace {

using stats::BehindBlock;
using stats::BehindFile;
using stats::BehindPool;
using stats::BehindRanges;

/// Opens the file that a process wrote, if it is still there under its name. Returns 0 or an errno:
/// ESTALE if somebody else has written it since. `is_timed`: the process was writing nothing when
/// it ended, so that it knew when it last did.
int open_target(const BehindFile& file, bool is_timed, Descriptor& target) {
  if (file.path[0] != '/' || file.path[sizeof file.path - 1] != '\0') return ENOENT;
  target = Descriptor(open(file.path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!target.is_open()) return errno;
  struct stat status {};
  const bool is_same = fstat(target.get(), &status) == 0 && S_ISREG(status.st_mode) &&
                       FileId::of(status) == FileId{file.device, file.inode};
  struct statx times {};
  if (!is_same || statx(target.get(), "", AT_EMPTY_PATH, STATX_BTIME | STATX_MTIME, &times) != 0) {
    return ENOENT;
  }
  const bool has_birth = file.birth_ns != 0 && (times.stx_mask & STATX_BTIME) != 0;
  if (has_birth && in_ns(times.stx_btime) != file.birth_ns) return ENOENT;
  const int64_t changed_ns = file.changed_ns.load(std::memory_order_relaxed);
  const bool is_changed = is_timed && changed_ns != 0 && in_ns(times.stx_mtime) != changed_ns;
  return is_changed ? ESTALE : 0;
}

/// Returns 0 or an errno.
int write_whole(int fd, const std::vector<char>& data, uint64_t offset) {
  size_t at = 0;
  while (at < data.size()) {
    const ssize_t written =
        pwrite(fd, data.data() + at, data.size() - at, static_cast<off_t>(offset + at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written == 0 ? EIO : errno;
    at += static_cast<size_t>(written);
  }
  return 0;
}

std::string reason_text(int error) {
  return error == ESTALE ? "others have written the file since" : std::strerror(error);
}

/// A file that is written. It is opened once: each write changes its times.
struct Target {
  Descriptor descriptor;
  int error = 0;
};

const BehindRanges* ranges_of(const BehindBlock& block) {
  const bool is_held = block.state.load(std::memory_order_relaxed) != BehindBlock::State::free;
  const uint32_t current = block.current.load(std::memory_order_relaxed);
  const bool is_sound = is_held && block.file < BehindPool::kFiles && current < 2 &&
                        block.ranges[current].count <= BehindRanges::kMost;
  return is_sound ? &block.ranges[current] : nullptr;
}

}  // namespace

HeldWrites::HeldWrites(int directory, const std::string& name)
    : file_(openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
  auto pool = std::make_unique<BehindPool>();
  constexpr size_t kHead = offsetof(BehindPool, file);
  const bool is_ours =
      file_.is_open() && pread(file_.get(), static_cast<void*>(pool.get()), kHead, 0) == kHead &&
      pool->magic == stats::kBehindMagic && pool->version == config::kLayoutVersion;
  if (is_ours) pool_ = std::move(pool);
}

bool HeldWrites::load() {
  return pread(file_.get(), static_cast<void*>(pool_.get()), sizeof *pool_, 0) == sizeof *pool_;
}

bool HeldWrites::process_is_gone() const {
  const ProcessStat process = stat_of_process(pool_->pid);
  const bool has_ended = (process.state == 'Z' || process.state == 'X') && process.threads <= 1;
  return has_ended || process.start_time != pool_->start_time;
}

bool HeldWrites::await_end() const {
  constexpr int kMost = 1000;     // looks
  constexpr int kUnaskedFor = 4;  // of a process that was killed, and does not know it yet
  const timespec pause{0, 5'000'000};
  for (int i = 0; i < kMost; ++i) {
    if (process_is_gone()) return true;
    const ProcessStat process = stat_of_process(pool_->pid);
    const bool is_ending = process.state == 'Z' || (process.flags & ProcessStat::kExiting) != 0;
    if (!is_ending && i >= kUnaskedFor) break;
    nanosleep(&pause, nullptr);
  }
  return process_is_gone();
}

void HeldWrites::add_figures(stats::BehindReport& report) const noexcept {
  const auto value = [](const std::atomic<uint64_t>& figure) {
    return figure.load(std::memory_order_relaxed);
  };
  report.calls += value(pool_->calls);
  report.bytes += value(pool_->bytes);
  report.writes += value(pool_->writes);
  report.written_bytes += value(pool_->written_bytes);
  report.waited_ns += value(pool_->waited_ns);
  report.errors += value(pool_->errors);
}

/// Returns 0 or an errno; `bytes` are those of the block.
int HeldWrites::write_block(const BehindBlock& block, const Descriptor& target,
                            uint64_t& bytes) const {
  const BehindRanges& ranges = *ranges_of(block);
  const auto number = static_cast<uint64_t>(&block - pool_->block);
  int error = 0;
  std::vector<char> data;
  for (uint32_t i = 0; i < ranges.count; ++i) {
    const BehindRanges::Range range = ranges.range[i];
    if (range.begin >= range.end || range.end > BehindPool::kBlockBytes) return EINVAL;
    data.resize(range.end - range.begin);
    bytes += data.size();
    const uint64_t at = BehindPool::kDataOffset + number * BehindPool::kBlockBytes + range.begin;
    const bool is_read = pread(file_.get(), data.data(), data.size(), static_cast<off_t>(at)) ==
                         static_cast<ssize_t>(data.size());
    const int failed = !is_read ? EIO
                       : !target.is_open()
                           ? ENOENT
                           : write_whole(target.get(), data, block.offset + range.begin);
    if (error == 0) error = failed;
  }
  return error;
}

void HeldWrites::write_rest(stats::BehindReport& report, std::vector<std::string>& remarks) const {
  std::vector<const BehindBlock*> rest;
  for (const BehindBlock& block : pool_->block) {
    const BehindRanges* const ranges = ranges_of(block);
    if (ranges != nullptr && ranges->count > 0) rest.push_back(&block);
  }
  std::ranges::sort(rest, {}, &BehindBlock::order);
  std::map<uint32_t, Target> targets;
  for (const BehindBlock* const block : rest) {
    const BehindFile& file = pool_->file[block->file];
    const auto [found, is_new] = targets.try_emplace(block->file);
    Descriptor& target = found->second.descriptor;
    if (is_new) {
      const bool was_writing = std::ranges::any_of(pool_->block, [&](const BehindBlock& each) {
        return each.file == block->file &&
               each.state.load(std::memory_order_relaxed) == BehindBlock::State::writing;
      });
      found->second.error = open_target(file, !was_writing, target);
      if (found->second.error != 0) target.reset();
    }
    int error = found->second.error;
    uint64_t bytes = 0;
    const int failed = write_block(*block, target, bytes);
    if (error == 0) error = failed;
    (error == 0 ? report.rest_bytes : report.lost_bytes) += bytes;
    if (error == 0) continue;
    const std::string remark = "What a process had written to " + quoted_name(file.path) +
                               " when it ended could not be written: " + reason_text(error) + ".";
    if (std::ranges::find(remarks, remark) == remarks.end()) remarks.push_back(remark);
  }
}

}  // namespace ioweave::cli

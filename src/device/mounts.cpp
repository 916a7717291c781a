#include "device/mounts.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <sys/sysmacros.h>

#include "base/proc_text.hpp"

namespace ioweave::device {
namespace {

/// mountinfo writes blanks and backslashes as \ooo.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      const int code = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
      plain += static_cast<char>(code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::string_view take_word(std::string_view& line) {
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(std::min(word.size() + 1, line.size()));
  return word;
}

/// "8:1"; 0 where it is none.
dev_t number_of(std::string_view text) {
  unsigned major_number = 0;
  unsigned minor_number = 0;
  const char* const end = text.data() + text.size();
  const auto [colon, error] = std::from_chars(text.data(), end, major_number);
  if (error != std::errc{} || colon == end || *colon != ':') return 0;
  std::from_chars(colon + 1, end, minor_number);
  return makedev(major_number, minor_number);
}

}  // namespace

std::vector<Mount> parse_mountinfo(std::string_view text) {
  std::vector<Mount> mounts;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    // id parent major:minor root MOUNT options [tags] - TYPE SOURCE options
    for (int skipped = 0; skipped < 2; ++skipped) take_word(line);
    const dev_t number = number_of(take_word(line));
    take_word(line);
    const std::string_view path = take_word(line);
    while (!line.empty() && take_word(line) != "-") {
    }
    const std::string_view type = take_word(line);
    const std::string_view source = take_word(line);
    if (!path.empty() && !type.empty()) {
      mounts.push_back({unescaped(path), std::string(type), unescaped(source), number});
    }
  }
  return mounts;
}

std::vector<Mount> this_mounts(const char* mountinfo) {
  constexpr size_t kMostBytes = 8u << 20;
  std::string text;
  if (read_proc_text(mountinfo, kMostBytes, text) != 0) return {};
  return parse_mountinfo(text);
}

bool is_shared_file_system(std::string_view type) noexcept {
  constexpr auto kShared = std::to_array<std::string_view>(
      {"afs",      "beegfs",    "ceph",    "ceph-fuse", "cifs", "daos",  "dfuse", "gfs2",
       "gpfs",     "glusterfs", "juicefs", "lustre",    "mfs",  "nfs",   "nfs4",  "ocfs2",
       "orangefs", "panfs",     "pvfs2",   "s3fs",      "smb3", "smbfs", "sshfs", "wekafs"});
  if (type.starts_with("fuse.")) type.remove_prefix(5);
  return std::ranges::find(kShared, type) != kShared.end();
}

bool holds(std::string_view folder, std::string_view path) noexcept {
  if (folder == "/") return path.starts_with('/');
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

const Mount* mount_of(const std::vector<Mount>& mounts, std::string_view path) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts) {
    // A later mount on the same place hides the earlier one.
    if (holds(mount.path, path) && (best == nullptr || mount.path.size() >= best->path.size())) {
      best = &mount;
    }
  }
  return best;
}

const Mount* mount_with(const std::vector<Mount>& mounts, dev_t number) {
  const auto found = std::ranges::find(mounts, number, &Mount::number);
  return found == mounts.end() ? nullptr : &*found;
}

}  // namespace ioweave::device

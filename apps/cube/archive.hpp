// The container of a Cube profile: a ustar archive, read without ever opening a path that it names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bytes.hpp"

namespace cube {

inline constexpr size_t kBlockBytes = 512;
/// What a size of 11 octal digits can say.
inline constexpr uint64_t kMaxMemberBytes = (uint64_t{1} << 33) - 1;
inline constexpr size_t kMaxMembers = size_t{1} << 18;

struct Member {
  std::string name;
  uint64_t offset = 0;  // of its first byte in the archive
  uint64_t bytes = 0;   // lie within the archive
};

/// The table of contents. Immutable; any thread may read.
class Archive {
 public:
  /// Reads all headers. Throws CubeError for whatever is no plain ustar archive of regular files.
  explicit Archive(std::unique_ptr<ByteSource> source);

  [[nodiscard]] const std::string& name() const { return source_->name(); }
  [[nodiscard]] const std::vector<Member>& members() const { return members_; }
  [[nodiscard]] const Member* find(const std::string& name) const;
  /// Fills `into` from `offset` of the member on. Throws CubeError where the member ends before.
  void read(const Member& member, uint64_t offset, std::span<std::byte> into) const;
  /// Throws a CubeError that names the archive, the member and the offset in it.
  [[noreturn]] void fail(const Member& member, uint64_t offset, const std::string& what) const;
  /// What is odd about the archive and was accepted all the same.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  using Header = std::array<std::byte, kBlockBytes>;
  void read_headers();
  [[nodiscard]] Member parse_header(const Header& header, uint64_t offset);
  [[noreturn]] void fail_header(uint64_t offset, const std::string& what) const;

  std::unique_ptr<ByteSource> source_;
  std::vector<Member> members_;
  std::unordered_map<std::string, size_t> by_name_;
  std::vector<std::string> notes_;
};

/// The header of a regular file. The name has at most 99 bytes, `bytes` <= kMaxMemberBytes.
std::array<std::byte, kBlockBytes> make_header(const std::string& name, uint64_t bytes);

/// The bytes up to the next block.
inline uint64_t padding_of(uint64_t bytes) {
  return (kBlockBytes - bytes % kBlockBytes) % kBlockBytes;
}

}  // namespace cube

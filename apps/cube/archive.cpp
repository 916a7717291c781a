#include "archive.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "error.hpp"

namespace cube {
namespace {

// Where the fields of a ustar header lie (POSIX.1-1988).
struct Field {
  size_t offset;
  size_t bytes;
};
constexpr Field kName{0, 100};
constexpr Field kMode{100, 8};
constexpr Field kOwner{108, 8};
constexpr Field kGroup{116, 8};
constexpr Field kSize{124, 12};
constexpr Field kTime{136, 12};
constexpr Field kChecksum{148, 8};
constexpr Field kType{156, 1};
constexpr Field kMagic{257, 8};
constexpr Field kPrefix{345, 155};

std::string_view text_of(std::span<const std::byte> header, Field field) {
  const auto* begin = reinterpret_cast<const char*>(header.data()) + field.offset;
  return {begin, std::find(begin, begin + field.bytes, '\0')};
}

std::optional<uint64_t> parse_octal(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.empty() || text.size() > 12) return std::nullopt;
  uint64_t value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '7') return std::nullopt;
    value = value * 8 + static_cast<uint64_t>(digit - '0');
  }
  return value;
}

/// The sum of all bytes, those of the checksum itself counted as spaces.
uint64_t checksum_of(std::span<const std::byte> header) {
  uint64_t sum = 0;
  for (size_t i = 0; i < header.size(); ++i) {
    const bool own = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.bytes;
    sum += own ? uint64_t{' '} : std::to_integer<uint64_t>(header[i]);
  }
  return sum;
}

/// What a name may be shown as in a message.
std::string printable(std::string_view name) {
  std::string shown(name.substr(0, 64));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return shown;
}

}  // namespace

Archive::Archive(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {
  read_headers();
}

void Archive::fail_header(uint64_t offset, const std::string& what) const {
  throw CubeError("'" + name() + "', header at offset " + std::to_string(offset) + ": " + what);
}

void Archive::fail(const Member& member, uint64_t offset, const std::string& what) const {
  throw CubeError("'" + name() + "', member '" + printable(member.name) + "', offset " +
                  std::to_string(offset) + ": " + what);
}

void Archive::read_headers() {
  uint64_t offset = 0;
  const uint64_t end = source_->size();
  while (offset < end) {
    if (end - offset < kBlockBytes) fail_header(offset, "the file ends within the header");
    Header header;
    source_->read(offset, header);
    // Zeros end an archive. What follows them is no part of it.
    if (std::all_of(header.begin(), header.end(), [](std::byte b) { return b == std::byte{0}; })) {
      break;
    }
    Member member = parse_header(header, offset);
    if (members_.size() == kMaxMembers) {
      fail_header(offset, "more than " + std::to_string(kMaxMembers) + " members");
    }
    offset = member.offset + member.bytes;
    offset += std::min(padding_of(member.bytes), end - offset);
    if (text_of(header, kType) == "5") continue;  // a folder: the names in it come with it
    if (!by_name_.emplace(member.name, members_.size()).second) {
      fail_header(member.offset - kBlockBytes, "a second member '" + printable(member.name) + "'");
    }
    members_.push_back(std::move(member));
  }
}

Member Archive::parse_header(const Header& header, uint64_t offset) {
  if (offset == 0 && header[0] == std::byte{0x1f} && header[1] == std::byte{0x8b}) {
    fail_header(offset, "the archive as a whole is compressed: gunzip it first");
  }
  if (!text_of(header, kMagic).starts_with("ustar")) {
    fail_header(offset, "this is no ustar archive");
  }
  Member member;
  const std::string_view prefix = text_of(header, kPrefix);
  member.name = std::string(prefix) + (prefix.empty() ? "" : "/");
  member.name += text_of(header, kName);
  const std::string shown = printable(member.name);
  const std::string_view type = text_of(header, kType);
  if (!type.empty() && type != "0" && type != "5") {
    fail_header(offset, "'" + shown +
                            "' is no regular file of a plain ustar archive (its type is '" +
                            printable(type) + "')");
  }
  const std::optional<uint64_t> bytes = parse_octal(text_of(header, kSize));
  if (!bytes) fail_header(offset, "the size of '" + shown + "' is no octal number");
  member.offset = offset + kBlockBytes;
  member.bytes = *bytes;
  if (member.bytes > source_->size() - member.offset) {
    fail_header(offset, "'" + shown + "' is said to have " + std::to_string(member.bytes) +
                            " bytes, but the file ends " +
                            std::to_string(source_->size() - member.offset) + " bytes behind");
  }
  // Version 4.8 of CubeWriter is known for wrong checksums; pyCubexR reads its files, too.
  if (parse_octal(text_of(header, kChecksum)) != checksum_of(header) && notes_.empty()) {
    notes_.push_back("the checksum of the header of '" + shown + "' is wrong");
  }
  return member;
}

const Member* Archive::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &members_[found->second];
}

void Archive::read(const Member& member, uint64_t offset, std::span<std::byte> into) const {
  if (offset > member.bytes || into.size() > member.bytes - offset) {
    fail(member, offset,
         std::to_string(into.size()) + " bytes are wanted, it has " + std::to_string(member.bytes));
  }
  source_->read(member.offset + offset, into);
}

std::array<std::byte, kBlockBytes> make_header(const std::string& name, uint64_t bytes) {
  std::array<std::byte, kBlockBytes> header{};
  const auto put = [&header](Field field, std::string_view text) {
    for (size_t i = 0; i < std::min(text.size(), field.bytes); ++i) {
      header[field.offset + i] = static_cast<std::byte>(text[i]);
    }
  };
  std::array<char, 16> size{};
  std::snprintf(size.data(), size.size(), "%011llo", static_cast<unsigned long long>(bytes));
  put(kName, name);
  put(kMode, "0000644");
  put(kOwner, "0000000");
  put(kGroup, "0000000");
  put(kSize, {size.data(), 11});
  put(kTime, "00000000000");  // the same input gives the same bytes
  put(kType, "0");
  put(kMagic, std::string_view("ustar\00000", 8));
  std::array<char, 16> sum{};
  std::snprintf(sum.data(), sum.size(), "%06llo",
                static_cast<unsigned long long>(checksum_of(header)));
  put(kChecksum, std::string_view(sum.data(), 7));  // six digits and a NUL
  header[kChecksum.offset + 7] = std::byte{' '};
  return header;
}

}  // namespace cube

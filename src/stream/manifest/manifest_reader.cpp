#include "stream/manifest/manifest_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/cancellation_off.hpp"

namespace ioweave::stream {
namespace {

/// 1024 targets with paths of 4096 bytes, some of them escaped.
constexpr size_t kMostHeaderBytes = 16 << 20;
/// Five numbers of 20 digits.
constexpr size_t kMostLineBytes = 128;
constexpr uint64_t kMostPageBytes = 1 << 20;

/// Takes JSON apart. Each call returns whether the text goes on so, and passes it.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool mark(char c) {
    skip_blanks();
    if (text_.empty() || text_.front() != c) {
      return false;
    }
    text_.remove_prefix(1);
    return true;
  }
  bool number(uint64_t& number) {
    skip_blanks();
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
    if (error != std::errc()) {
      return false;
    }
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return true;
  }
  bool null() {
    skip_blanks();
    if (!text_.starts_with("null")) {
      return false;
    }
    text_.remove_prefix(4);
    return true;
  }
  /// "name":
  bool name(std::string_view wanted) {
    std::string found;
    return string(found) && found == wanted && mark(':');
  }
  bool string(std::string& found) {
    found.clear();
    if (!mark('"')) {
      return false;
    }
    while (!text_.empty() && text_.front() != '"') {
      const auto c = static_cast<unsigned char>(text_.front());
      text_.remove_prefix(1);
      if (c < 0x20 || (c == '\\' && !escape(found))) {
        return false;
      }
      if (c != '\\') {
        found += static_cast<char>(c);
      }
    }
    return mark('"');
  }
  bool end() {
    skip_blanks();
    return text_.empty();
  }

 private:
  void skip_blanks() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\t')) {
      text_.remove_prefix(1);
    }
  }

  bool hex(uint32_t& code) {
    if (text_.size() < 4) {
      return false;
    }
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + 4, code, 16);
    if (error != std::errc() || end != text_.data() + 4) {
      return false;
    }
    text_.remove_prefix(4);
    return true;
  }

  bool escape(std::string& to) {
    constexpr std::string_view kShort = "\"\\/bfnrt";
    constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    const char c = text_.empty() ? '\0' : text_.front();
    text_.remove_prefix(text_.empty() ? 0 : 1);
    if (const size_t at = kShort.find(c); at != std::string_view::npos) {
      to += kMeant[at];
      return true;
    }
    uint32_t code = 0;
    if (c != 'u' || !hex(code)) {
      return false;
    }
    if (code >= 0xD800 && code < 0xDC00) {
      uint32_t low = 0;
      if (!text_.starts_with("\\u")) {
        return false;
      }
      text_.remove_prefix(2);
      if (!hex(low) || low < 0xDC00 || low >= 0xE000) {
        return false;
      }
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
      return false;
    }
    append_utf8(code, to);
    return true;
  }

  static void append_utf8(uint32_t code, std::string& to) {
    const auto add = [&](uint32_t byte) { to += static_cast<char>(byte); };
    if (code < 0x80) {
      add(code);
    } else if (code < 0x800) {
      add(0xC0 | code >> 6);
      add(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      add(0xE0 | code >> 12);
      add(0x80 | (code >> 6 & 0x3F));
      add(0x80 | (code & 0x3F));
    } else {
      add(0xF0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3F));
      add(0x80 | (code >> 6 & 0x3F));
      add(0x80 | (code & 0x3F));
    }
  }

  std::string_view text_;
};

ssize_t read_at(int fd, void* buffer, size_t bytes, int64_t offset) noexcept {
  const CancellationOff uncancelled;
  return ::pread(fd, buffer, bytes, offset);
}

}  // namespace

std::unique_ptr<ManifestReader> ManifestReader::open(const std::string& path, bool relative_only,
                                                     int& error, std::string& why) {
  std::unique_ptr<ManifestReader> reader(new ManifestReader(path));
  reader->file_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (!reader->file_.is_open() || ::fstat(reader->file_.get(), &found) != 0) {
    error = -errno;
    why = "cannot open '" + path + "': " + std::strerror(-error);
    return nullptr;
  }
  if (!S_ISREG(found.st_mode)) {
    error = -EINVAL;
    why = "'" + path + "' is not a manifest: it is not a regular file";
    return nullptr;
  }
  error = reader->check_all(relative_only, why);
  return error == 0 ? std::move(reader) : nullptr;
}

int ManifestReader::check_all(bool relative_only, std::string& why) {
  int status = read_header(relative_only, why);
  while (status == 0 && (status = read_run(why)) == 1) {
    status = 0;
  }
  totals_ = found_;
  return status == 0 ? start_again(why) : status;
}

/// Behind the header, which was checked.
int ManifestReader::start_again(std::string& why) {
  begin_ = end_ = 0;
  read_from_ = 0;
  line_number_ = 0;
  found_ = {};
  run_ = {};
  return read_line(kMostHeaderBytes, why);
}

int ManifestReader::refuse(const std::string& what, std::string& why) const {
  why = "'" + path_ + "' is not a complete manifest: line " + std::to_string(line_number_) + " " +
        what;
  return -EINVAL;
}

/// The next line to `line_`, without its end: 0 or -errno. The end of the file is a breach.
int ManifestReader::read_line(size_t most_bytes, std::string& why) {
  ++line_number_;
  line_.clear();
  while (true) {
    const char* const from = buffer_.data() + begin_;
    const char* const until =
        std::find(from, static_cast<const char*>(buffer_.data()) + end_, '\n');
    const auto bytes = static_cast<size_t>(until - from);
    if (line_.size() + bytes > most_bytes) {
      return refuse("is longer than " + std::to_string(most_bytes) + " bytes", why);
    }
    line_.append(from, bytes);
    begin_ += bytes;
    if (begin_ != end_) {
      ++begin_;
      return 0;
    }
    const ssize_t got = read_at(file_.get(), buffer_.data(), buffer_.size(), read_from_);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      const int error = errno;
      why = "cannot read '" + path_ + "': " + std::strerror(error);
      return -error;
    }
    if (got == 0) {
      return refuse("is cut off: the last one tells how many items there are", why);
    }
    begin_ = 0;
    end_ = static_cast<size_t>(got);
    read_from_ += got;
  }
}

// ---- The first line

int ManifestReader::read_header(bool relative_only, std::string& why) {
  if (const int error = read_line(kMostHeaderBytes, why); error != 0) {
    return error;
  }
  Scanner scan(line_);
  uint64_t version = 0;
  if (!scan.mark('{') || !scan.name("ioweave_manifest") || !scan.number(version)) {
    return refuse("does not begin with {\"ioweave_manifest\":", why);
  }
  if (version != kManifestVersion) {
    return refuse("names version " + std::to_string(version) + ", and this is for version " +
                      std::to_string(kManifestVersion),
                  why);
  }
  if (!scan.mark(',') || !scan.name("page") || !scan.number(page_) || page_ == 0 ||
      page_ > kMostPageBytes) {
    return refuse("has no \"page\" of 1 to 1048576 behind the version", why);
  }
  if (!scan.mark(',') || !scan.name("targets") || !scan.mark('[')) {
    return refuse("has no \"targets\" behind the page", why);
  }
  std::string name;
  do {
    if (!scan.string(name)) {
      return refuse("has a target that is not a string", why);
    }
    if (const int error = add_target(name, relative_only, why); error != 0) {
      return error;
    }
  } while (scan.mark(','));
  return scan.mark(']') && scan.mark('}') && scan.end() ? 0 : refuse("does not end with ]}", why);
}

int ManifestReader::add_target(const std::string& name, bool relative_only, std::string& why) {
  namespace fs = std::filesystem;
  if (targets_.size() == kMostTargets) {
    return refuse("has more than " + std::to_string(kMostTargets) + " targets", why);
  }
  if (name.empty() || name.find('\0') != std::string::npos) {
    return refuse("has a target whose path is empty, or has a null byte", why);
  }
  const fs::path path = name;
  if (path.is_absolute()) {
    if (relative_only) {
      return refuse("has the target '" + name + "', which lies elsewhere: relative_only forbids it",
                    why);
    }
    targets_.push_back(name);
    return 0;
  }
  if (std::find(path.begin(), path.end(), "..") != path.end()) {
    return refuse("has the target '" + name + "', which leaves the folder of the manifest by ..",
                  why);
  }
  targets_.push_back(fs::path(path_).parent_path() / path);
  return 0;
}

// ---- Items

/// Of the run, without a look at what overflows: check_run() has had it.
int64_t ManifestReader::offset_of(uint64_t index) const noexcept {
  const uint64_t rounds = index / targets_.size();
  return run_.first.offset + static_cast<int64_t>(rounds * round_up(run_.first.bytes, page_));
}

int ManifestReader::read_run(std::string& why) {
  if (const int error = read_line(kMostLineBytes, why); error != 0) {
    return error;
  }
  run_ = {};
  run_.count = 1;
  ManifestItem& first = run_.first;
  Scanner scan(line_);
  if (!scan.mark('[')) {
    return check_end(line_, why);
  }
  bool is_lost = false;
  uint64_t target = 0;
  uint64_t offset = 0;
  const bool is_right =
      scan.number(first.number) && scan.mark(',') &&
      ((is_lost = scan.null()) ? scan.mark(',') && scan.null()
                               : scan.number(target) && scan.mark(',') && scan.number(offset)) &&
      scan.mark(',') && scan.number(first.bytes) && (!scan.mark(',') || scan.number(run_.count)) &&
      scan.mark(']') && scan.end();
  if (!is_right) {
    return refuse(
        "is none of the forms [item,target,offset,bytes], [item,null,null,bytes], either "
        "with a count behind, and {\"items\":",
        why);
  }
  if (first.number != found_.items) {
    return refuse("has item " + std::to_string(first.number) + " where item " +
                      std::to_string(found_.items) + " comes",
                  why);
  }
  if (!is_lost && target >= targets_.size()) {
    return refuse("has target " + std::to_string(target) + " of " +
                      std::to_string(targets_.size()) + ", counted from 0",
                  why);
  }
  first.target = is_lost ? ManifestItem::kLost : static_cast<uint32_t>(target);
  if (offset > INT64_MAX) {
    return refuse("has an offset that no file has", why);
  }
  first.offset = static_cast<int64_t>(offset);
  return check_run(why);
}

/// That no number overflows, from the first item of the run to the last one.
int ManifestReader::check_run(std::string& why) {
  const ManifestItem& first = run_.first;
  const bool is_lost = first.target == ManifestItem::kLost;
  if (run_.count == 0 || (is_lost && run_.count != 1)) {
    return refuse("has a count of " + std::to_string(run_.count), why);
  }
  const uint64_t rounds = (run_.count - 1) / targets_.size();
  uint64_t bytes = 0;
  uint64_t end = 0;
  const bool is_too_large =
      first.bytes > INT64_MAX || __builtin_add_overflow(found_.items, run_.count, &found_.items) ||
      found_.items > INT64_MAX ||
      __builtin_mul_overflow(rounds, round_up(first.bytes, page_), &end) ||
      __builtin_add_overflow(end, static_cast<uint64_t>(first.offset), &end) ||
      __builtin_add_overflow(end, first.bytes, &end) || end > INT64_MAX ||
      __builtin_mul_overflow(first.bytes, is_lost ? 0 : run_.count, &bytes) ||
      __builtin_add_overflow(found_.bytes, bytes, &found_.bytes) || found_.bytes > INT64_MAX;
  if (is_too_large) {
    return refuse("has more bytes or items than there can be", why);
  }
  found_.lost += is_lost ? 1 : 0;
  found_.largest = is_lost ? found_.largest : std::max(found_.largest, first.bytes);
  return 1;
}

int ManifestReader::check_end(std::string_view line, std::string& why) {
  Scanner scan(line);
  uint64_t items = 0;
  uint64_t bytes = 0;
  uint64_t lost = 0;
  const bool is_right = scan.mark('{') && scan.name("items") && scan.number(items) &&
                        scan.mark(',') && scan.name("bytes") && scan.number(bytes) &&
                        scan.mark(',') && scan.name("lost") && scan.number(lost) &&
                        scan.mark('}') && scan.end();
  if (!is_right) {
    return refuse("is neither items nor the end, {\"items\":", why);
  }
  if (items != found_.items || bytes != found_.bytes || lost != found_.lost) {
    return refuse("tells " + std::to_string(items) + " items with " + std::to_string(bytes) +
                      " bytes, of which " + std::to_string(lost) + " are lost; there are " +
                      std::to_string(found_.items) + " with " + std::to_string(found_.bytes) +
                      ", " + std::to_string(found_.lost) + " lost",
                  why);
  }
  char more = 0;
  const bool is_last = begin_ == end_ && read_at(file_.get(), &more, 1, read_from_) == 0;
  return is_last ? 0 : refuse("is the end, but more follows", why);
}

int ManifestReader::next(ManifestItem& item, std::string& why) {
  if (run_.given == run_.count) {
    if (const int status = read_run(why); status != 1) {
      return status;
    }
  }
  const uint64_t index = run_.given++;
  item = run_.first;
  if (item.target != ManifestItem::kLost) {
    item.number += index;
    item.target = static_cast<uint32_t>((item.target + index) % targets_.size());
    item.offset = offset_of(index);
  }
  return 1;
}

}  // namespace ioweave::stream

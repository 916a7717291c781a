#include "stream/watch/replay/read_plan.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <unordered_set>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.hpp"
#include "base/json_string.hpp"

namespace ioweave::stream {

// ---- The reads of a file ------------------------------------------------------------------------

bool PlannedReads::add(uint64_t offset, uint64_t bytes) {
  if (bytes == 0 || bytes > kMostBytes || offset > kMostOffset - bytes || count_ == kMostReads) {
    return false;
  }
  if (count_ > 0 && offset != end_) ++jumps_;
  PlannedRun* const last = runs_.empty() ? nullptr : &runs_.back();
  const auto step = static_cast<int64_t>(offset - last_offset_);
  if (last != nullptr && last->bytes == bytes && (last->count == 1 || last->stride == step)) {
    last->stride = step;
    ++last->count;
  } else {
    runs_.push_back({offset, bytes, 1, 0, count_, bytes_});
  }
  ++count_;
  bytes_ += bytes;
  last_offset_ = offset;
  end_ = offset + bytes;
  return true;
}

bool PlannedReads::add(const PlannedRun& run) {
  if (run.count == 1) return add(run.offset, run.bytes);
  int64_t way = 0;
  int64_t last = 0;
  const bool is_far =
      run.count == 0 || run.count > kMostReads - count_ || run.bytes == 0 ||
      run.bytes > kMostBytes || run.offset > kMostOffset - run.bytes ||
      __builtin_mul_overflow(run.stride, static_cast<int64_t>(run.count - 1), &way) ||
      __builtin_add_overflow(static_cast<int64_t>(run.offset), way, &last) || last < 0 ||
      static_cast<uint64_t>(last) > kMostOffset - run.bytes;
  if (is_far) return false;
  const bool is_sequential = run.stride == static_cast<int64_t>(run.bytes);
  jumps_ += (count_ > 0 && run.offset != end_ ? 1 : 0) + (is_sequential ? 0 : run.count - 1);
  runs_.push_back({run.offset, run.bytes, run.count, run.stride, count_, bytes_});
  count_ += run.count;
  bytes_ += run.count * run.bytes;  // at most 2^63
  last_offset_ = static_cast<uint64_t>(last);
  end_ = static_cast<uint64_t>(last) + run.bytes;
  return true;
}

const PlannedRun& PlannedReads::run_of(uint64_t number) const noexcept {
  const auto behind = std::ranges::upper_bound(runs_, number, {}, &PlannedRun::first);
  return *std::prev(behind);
}

FileRange PlannedReads::at(uint64_t number) const noexcept {
  const PlannedRun& run = run_of(number);
  const auto way = static_cast<int64_t>(number - run.first) * run.stride;
  return {run.offset + static_cast<uint64_t>(way), run.bytes};
}

uint64_t PlannedReads::bytes_before(uint64_t number) const noexcept {
  if (number >= count_) return bytes_;
  const PlannedRun& run = run_of(number);
  return run.bytes_before + (number - run.first) * run.bytes;
}

uint64_t ReadPlan::reads() const noexcept {
  uint64_t sum = 0;
  for (const PlannedFile& file : files) sum += file.reads.count();
  return sum;
}

uint64_t ReadPlan::bytes() const noexcept {
  uint64_t sum = 0;
  for (const PlannedFile& file : files) sum += file.reads.bytes();
  return sum;
}

// ---- Writing ------------------------------------------------------------------------------------

namespace {

constexpr std::string_view kFamily = "ioweave-plan/";
constexpr std::string_view kHeader = "ioweave-plan/1";
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr const char* kHexDigits = "0123456789abcdef";

void append_quoted(std::string& text, const std::string& name) {
  const bool is_text = is_utf8(name);
  text += '"';
  for (const char letter : name) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      text.append(1, '\\').append(1, letter);
    } else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !is_text)) {
      text.append("\\x").append(1, kHexDigits[byte >> 4]).append(1, kHexDigits[byte & 15]);
    } else {
      text += letter;
    }
  }
  text += '"';
}

std::string time_text(int64_t ns) {
  int64_t seconds = ns / kSecondNs;
  int64_t rest = ns % kSecondNs;
  if (rest < 0) {  // before 1970: the part behind the point counts forward
    --seconds;
    rest += kSecondNs;
  }
  const std::string digits = std::to_string(rest);
  return std::to_string(seconds) + "." + std::string(9 - digits.size(), '0') + digits;
}

void append_read(std::string& text, uint64_t offset, uint64_t bytes) {
  text.append("read ").append(std::to_string(offset)).append(" ").append(std::to_string(bytes));
}

/// Two reads at some distance are no pattern, and are two lines.
void append_run(std::string& text, const PlannedRun& run) {
  append_read(text, run.offset, run.bytes);
  if (run.count == 2) {
    text += '\n';
    append_read(text, run.offset + static_cast<uint64_t>(run.stride), run.bytes);
  } else if (run.count > 2) {
    text.append(" x").append(std::to_string(run.count)).append(run.stride < 0 ? " " : " +");
    text += std::to_string(run.stride);
  }
  text += '\n';
}

}  // namespace

std::string plan_text(const ReadPlan& plan) {
  std::string text(kHeader);
  text += '\n';
  for (const PlannedFile& file : plan.files) {
    text += "file ";
    append_quoted(text, file.name);
    text.append(" size ").append(std::to_string(file.size));
    text.append(" mtime ").append(time_text(file.mtime_ns)).append("\n");
    for (const PlannedRun& run : file.reads.runs()) append_run(text, run);
  }
  text.append("end ").append(std::to_string(plan.files.size())).append(" files ");
  return text.append(std::to_string(plan.reads())).append(" reads\n");
}

// ---- Reading ------------------------------------------------------------------------------------

namespace {

/// The words of one line, from left to right.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  /// Returns the next word; empty at the end.
  std::string_view next() {
    skip_blanks();
    const std::string_view word = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(word.size());
    return word;
  }
  template <class Number>
  [[nodiscard]] bool next_number(Number& number) {
    return to_number(next(), number);
  }
  /// Takes a quoted name. Returns false if it is malformed.
  [[nodiscard]] bool next_name(std::string& name);
  [[nodiscard]] bool is_at_end() {
    skip_blanks();
    return rest_.empty();
  }

  template <class Number>
  [[nodiscard]] static bool to_number(std::string_view word, Number& number) {
    const char* const end = word.data() + word.size();
    const auto parsed = std::from_chars(word.data(), end, number);
    return !word.empty() && parsed.ec == std::errc{} && parsed.ptr == end;
  }

 private:
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }
  [[nodiscard]] bool take_escaped(std::string& name);

  std::string_view rest_;
};

/// Takes what stands behind a backslash.
bool Words::take_escaped(std::string& name) {
  if (rest_.empty()) return false;
  const char kind = rest_[0];
  rest_.remove_prefix(1);
  if (kind == '"' || kind == '\\') {
    name += kind;
    return true;
  }
  unsigned value = 0;
  const char* const end = rest_.data() + std::min<size_t>(2, rest_.size());
  if (kind != 'x' || rest_.size() < 2 || std::from_chars(rest_.data(), end, value, 16).ptr != end ||
      value == 0) {
    return false;
  }
  name += static_cast<char>(value);
  rest_.remove_prefix(2);
  return true;
}

bool Words::next_name(std::string& name) {
  skip_blanks();
  if (!rest_.starts_with('"')) return false;
  rest_.remove_prefix(1);
  while (!rest_.empty() && name.size() <= ReadPlan::kMostNameBytes) {
    const char letter = rest_[0];
    rest_.remove_prefix(1);
    if (letter == '"') return rest_.empty() || rest_[0] == ' ';
    if (letter == '\0') return false;
    if (letter != '\\') {
      name += letter;
    } else if (!take_escaped(name)) {
      return false;
    }
  }
  return false;
}

bool to_time(std::string_view word, int64_t& ns) {
  constexpr size_t kDigits = 9;
  const size_t point = word.find('.');
  int64_t seconds = 0;
  int64_t rest = 0;
  if (point == std::string_view::npos || word.size() - point - 1 != kDigits ||
      word[point + 1] == '-' || !Words::to_number(word.substr(0, point), seconds) ||
      !Words::to_number(word.substr(point + 1), rest)) {
    return false;
  }
  return !__builtin_mul_overflow(seconds, kSecondNs, &ns) && !__builtin_add_overflow(ns, rest, &ns);
}

/// Takes the lines of a plan in order. Each function returns what is wrong with its line, or an
/// empty text.
class PlanParser {
 public:
  explicit PlanParser(ReadPlan& plan) : plan_(plan) {}

  std::string take(std::string_view line) {
    Words words(line);
    const std::string_view kind = words.next();
    if (kind.empty() || kind.starts_with('#')) return {};
    if (has_ended_) return "stands behind the line 'end'";
    if (kind == "file") return take_file(words);
    if (kind == "read") return take_read(words);
    if (kind == "end") return take_end(words);
    return "is none of 'file', 'read' and 'end'";
  }
  [[nodiscard]] bool has_ended() const { return has_ended_; }

 private:
  std::string take_file(Words& words) {
    PlannedFile file;
    if (!words.next_name(file.name)) return "'file' is not followed by a name in quotes";
    if (file.name.empty()) return "the name of the file is empty";
    if (words.next() != "size" || !words.next_number(file.size)) {
      return "the name is not followed by 'size BYTES'";
    }
    if (words.next() != "mtime" || !to_time(words.next(), file.mtime_ns)) {
      return "the size is not followed by 'mtime SECONDS.NANOSECONDS'";
    }
    if (!words.is_at_end()) return kMore;
    if (plan_.files.size() == ReadPlan::kMostFiles) return "is one file too many";
    if (!names_.insert(file.name).second) return "the file stands in the plan already";
    plan_.files.push_back(std::move(file));
    return {};
  }

  std::string take_read(Words& words) {
    PlannedRun run;
    if (plan_.files.empty()) return "stands before the first 'file'";
    if (!words.next_number(run.offset) || !words.next_number(run.bytes)) {
      return "'read' is not followed by OFFSET BYTES";
    }
    if (!words.is_at_end()) {
      const std::string_view count = words.next();
      std::string_view stride = words.next();
      if (stride.starts_with('+')) stride.remove_prefix(1);
      if (!count.starts_with('x') || !Words::to_number(count.substr(1), run.count) ||
          !Words::to_number(stride, run.stride)) {
        return "the bytes are not followed by 'xCOUNT +STRIDE'";
      }
    }
    if (!words.is_at_end()) return kMore;
    const bool added = plan_.files.back().reads.add(run);
    if (!added) return "the read is empty, or too large: a number is out of bounds";
    if (++lines_ > 2 * ReadPlan::kMostRuns) return "is one read too many";
    return {};
  }

  std::string take_end(Words& words) {
    uint64_t files = 0;
    uint64_t reads = 0;
    if (!words.next_number(files) || words.next() != "files" || !words.next_number(reads) ||
        words.next() != "reads" || !words.is_at_end()) {
      return "is not of the form 'end N files N reads'";
    }
    if (files != plan_.files.size() || reads != plan_.reads()) {
      return "counts other files or reads than stand above: lines were lost or added";
    }
    has_ended_ = true;
    return {};
  }

  static constexpr const char* kMore = "has words behind its end";

  ReadPlan& plan_;
  std::unordered_set<std::string> names_;
  size_t lines_ = 0;
  bool has_ended_ = false;
};

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

std::string explain_header(std::string_view line) {
  if (!line.starts_with(kFamily)) return "is not a plan: its first line is not 'ioweave-plan/1'";
  return "is a plan of another version of Ioweave: record it again";
}

/// Reads all of a file. Returns 0 or -errno.
int read_text(int fd, size_t bytes, std::string& text) {
  text.resize(bytes);
  size_t at = 0;
  while (at < bytes) {
    const ssize_t got = read(fd, text.data() + at, bytes - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0) break;
    at += static_cast<size_t>(got);
  }
  text.resize(at);
  return 0;
}

}  // namespace

bool parse_plan(std::string_view text, ReadPlan& plan, std::string& why) {
  plan = {};
  std::string_view header = take_line(text);
  if (header != kHeader) {
    why = explain_header(header);
    return false;
  }
  PlanParser parser(plan);
  for (uint64_t number = 2; !text.empty(); ++number) {
    const std::string wrong = parser.take(take_line(text));
    if (wrong.empty()) continue;
    why = "line " + std::to_string(number) + ": " + wrong;
    return false;
  }
  if (!parser.has_ended()) {
    why = "is cut off: its last line is not 'end N files N reads'";
    return false;
  }
  return true;
}

bool read_plan(const std::string& path, ReadPlan& plan, std::string& why) {
  constexpr const char* kRemedy = "; write one with 'ioweave run --record ";
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) {
    why = path + ": " + std::strerror(errno);
    if (errno == ENOENT) why += kRemedy + path + " -- PROGRAM'";
    return false;
  }
  struct stat status {};
  std::string text;
  int error = fstat(file.get(), &status) != 0 ? -errno : 0;
  if (error == 0 && !S_ISREG(status.st_mode)) {
    why = path + (S_ISDIR(status.st_mode) ? " is a directory" : " is not a regular file") +
          ": a plan is a file";
    return false;
  }
  if (status.st_size > static_cast<off_t>(ReadPlan::kMostTextBytes)) {
    why = path + " is larger than 256 MiB: no plan is";
    return false;
  }
  if (error == 0) error = read_text(file.get(), static_cast<size_t>(status.st_size), text);
  if (error != 0) {
    why = path + ": " + std::strerror(-error);
    return false;
  }
  if (text.empty()) {
    why = path + " is empty" + kRemedy + path + " -- PROGRAM'";
    return false;
  }
  if (!parse_plan(text, plan, why)) {
    why.insert(0, path + (why.starts_with("line") ? ", " : " "));
    return false;
  }
  if (plan.reads() > 0) return true;
  why = path + " names no reads" + kRemedy + path + " -- PROGRAM'";
  return false;
}

}  // namespace ioweave::stream

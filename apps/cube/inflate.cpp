#include "inflate.hpp"

#include <algorithm>
#include <limits>

#include <zlib.h>

namespace cube {
namespace {

constexpr int kZlibWindow = 15;
constexpr int kGzipWindow = 15 + 16;  // zlib: 16 more means a gzip header and trailer
constexpr size_t kStepBytes = size_t{1} << 20;

/// zlib's stream, ended in any case.
class Inflater {
 public:
  Inflater(std::span<const std::byte> from, int window) : from_(from) {
    ready_ = inflateInit2(&stream_, window) == Z_OK;
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }

  /// Inflates up to into.size() bytes and returns how many; `status` is zlib's.
  size_t step(std::span<std::byte> into, int& status) {
    size_t produced = 0;
    status = ready_ ? Z_OK : Z_MEM_ERROR;
    while (status == Z_OK && produced < into.size()) {
      feed();
      const size_t room = std::min<size_t>(into.size() - produced, kStepBytes);
      stream_.next_out = reinterpret_cast<Bytef*>(into.data() + produced);
      stream_.avail_out = static_cast<uInt>(room);
      status = inflate(&stream_, Z_NO_FLUSH);
      produced += room - stream_.avail_out;
      if (status == Z_BUF_ERROR) status = Z_DATA_ERROR;  // the data end too early
    }
    return produced;
  }

  [[nodiscard]] const char* message() const { return stream_.msg; }

 private:
  void feed() {
    if (stream_.avail_in != 0) return;
    const size_t bytes = std::min<size_t>(from_.size(), std::numeric_limits<uInt>::max());
    // zlib only reads it, but its interface is older than const.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from_.data()));
    stream_.avail_in = static_cast<uInt>(bytes);
    from_ = from_.subspan(bytes);
  }

  std::span<const std::byte> from_;
  z_stream stream_{};
  bool ready_ = false;
};

std::string explain(int status, const Inflater& inflater) {
  if (status == Z_MEM_ERROR) return "no memory for zlib";
  if (status == Z_NEED_DICT) return "zlib data with a dictionary";
  const char* message = inflater.message();
  return std::string("broken zlib data: ") + (message != nullptr ? message : "they end too early");
}

}  // namespace

std::string inflate_exactly(std::span<const std::byte> deflated, std::span<std::byte> into) {
  Inflater inflater(deflated, kZlibWindow);
  int status = Z_OK;
  const size_t produced = inflater.step(into, status);
  if (status != Z_OK && status != Z_STREAM_END) return explain(status, inflater);
  if (produced < into.size()) {
    return "inflates to " + std::to_string(produced) + " bytes instead of " +
           std::to_string(into.size());
  }
  // The data may have an end to check: a sum, that is.
  std::byte beyond{};
  if (status == Z_OK && inflater.step({&beyond, 1}, status) != 0) {
    return "inflates to more than " + std::to_string(into.size()) + " bytes";
  }
  return status == Z_STREAM_END ? "" : explain(status, inflater);
}

std::string gunzip(std::span<const std::byte> zipped, uint64_t limit, std::string& text) {
  Inflater inflater(zipped, kGzipWindow);
  int status = Z_OK;
  while (status == Z_OK) {
    const size_t before = text.size();
    if (before > limit) {
      return "inflates to more than " + std::to_string(limit) + " bytes";
    }
    text.resize(before + kStepBytes);
    const size_t produced =
        inflater.step(std::as_writable_bytes(std::span(text).subspan(before)), status);
    text.resize(before + produced);
  }
  if (text.size() > limit) return "inflates to more than " + std::to_string(limit) + " bytes";
  return status == Z_STREAM_END ? "" : explain(status, inflater);
}

uint64_t most_deflated_bytes(uint64_t bytes) {
  return compressBound(bytes) + 64;
}

}  // namespace cube

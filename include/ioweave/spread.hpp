// Ioweave's spreads for C++20: RAII over the C interface of spread.h, which holds the contracts.
//
//   ioweave::WriteStream stream(service);
//   ioweave::Spread results(stream, "run7.manifest", {"/disk1", "/disk2"});
//   for (...) {
//     ioweave::Lease lease = stream.lease();
//     size_t bytes = compute(lease.data());
//     results.append(std::move(lease), bytes);
//   }
//   results.end();                                   // durable; throws the first error
//
// Errors are std::system_error, thrown on the calling thread only.
#ifndef IOWEAVE_SPREAD_HPP
#define IOWEAVE_SPREAD_HPP

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ioweave/spread.h"
#include "ioweave/streams.hpp"

namespace ioweave {

namespace detail {

/// The result of an append, with the sentence on the write whose error it is.
inline void check_append(iow_write_stream* stream, int result) {
  if (result < 0) {
    char* text = nullptr;
    if (iow_write_stream_error(stream, IOW_ALL_FILES, &text) != result) {
      std::free(std::exchange(text, nullptr));  // on another error
    }
    check_with_text(result, text, "iow_spread_append");
  }
}

}  // namespace detail

/// Items of a write stream on several targets. Thread-safe but for construction, moving, end() and
/// destruction. It ends before its stream is closed.
class Spread {
 public:
  /// Throws std::system_error whose text names what is wrong.
  Spread(WriteStream& stream, const std::filesystem::path& manifest,
         const std::vector<std::filesystem::path>& targets, const iow_spread_options& options = {})
      : stream_(stream.raw()) {
    std::vector<const char*> paths;
    paths.reserve(targets.size());
    for (const std::filesystem::path& target : targets) {
      paths.push_back(target.c_str());
    }
    char* text = nullptr;
    iow_spread* created = nullptr;
    const int error = iow_spread_create(stream_, &created, manifest.c_str(), paths.data(),
                                        static_cast<unsigned>(paths.size()), &options, &text);
    spread_.reset(created);
    detail::check_with_text(error, text, "iow_spread_create");
  }

  /// Hands the first `bytes` over; the lease is empty afterwards, whatever happens. Returns the
  /// number of the item.
  uint64_t append(Lease&& lease, size_t bytes) {
    uint64_t item = 0;
    iow_lease taken = lease.release();
    detail::check_append(stream_, iow_spread_append(&taken, raw(), bytes, &item));
    return item;
  }
  /// Copies bytes into a buffer. Returns the number of the item.
  uint64_t append(std::span<const std::byte> bytes) {
    uint64_t item = 0;
    detail::check_append(stream_, iow_spread_copy(raw(), bytes.data(), bytes.size(), &item));
    return item;
  }

  /// Writes the manifest once all items are there. A spread that is destroyed without it has none.
  void end(bool durable = true) {
    char* text = nullptr;
    const int error = iow_spread_end(spread_.release(), durable ? 1 : 0, &text);
    detail::check_with_text(error, text, "iow_spread_end");
  }

  [[nodiscard]] iow_spread_stats stats() const {
    iow_spread_stats stats{};
    stats.size = sizeof stats;
    check(iow_spread_get_stats(raw(), &stats), "iow_spread_get_stats");
    return stats;
  }
  [[nodiscard]] iow_spread* raw() const noexcept { return spread_.get(); }

 private:
  struct Abandon {
    void operator()(iow_spread* spread) const noexcept { iow_spread_abandon(spread); }
  };
  iow_write_stream* stream_;
  std::unique_ptr<iow_spread, Abandon> spread_;
};

}  // namespace ioweave

#endif  // IOWEAVE_SPREAD_HPP

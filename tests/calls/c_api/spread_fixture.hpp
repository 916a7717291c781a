#pragma once

// A write stream, folders as targets, and items of a spread that know what they contain.

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ioweave/read_streams.h"
#include "ioweave/spread.h"
#include "stream_support.hpp"

namespace ioweave::test {

class SpreadOnEveryEngine : public OnEveryEngine {
 protected:
  void SetUp() override {
    OnEveryEngine::SetUp();
    if (service != nullptr) {
      open_stream(small_stream());
    }
  }
  void TearDown() override { close_stream(); }

  void open_stream(const iow_write_stream_options& options) {
    close_stream();
    ErrorText text;
    ASSERT_EQ(iow_write_stream_open(service, &stream, &options, text.out()), 0) << text.str();
  }
  void close_stream() {
    EXPECT_EQ(iow_write_stream_close(std::exchange(stream, nullptr), 0, nullptr), 0);
  }

  /// Folders "0", "1", ... below the test's.
  [[nodiscard]] std::vector<std::string> folders(size_t count) const {
    std::vector<std::string> made;
    for (size_t i = 0; i < count; ++i) {
      made.push_back(dir.file(std::to_string(i)));
      std::filesystem::create_directory(made.back());
    }
    return made;
  }

  /// The result of iow_spread_create(), whose sentence is in `why` afterwards.
  int create(const std::vector<std::string>& targets, const iow_spread_options* options = nullptr) {
    std::vector<const char*> paths;
    std::transform(targets.begin(), targets.end(), std::back_inserter(paths),
                   [](const std::string& one) { return one.c_str(); });
    ErrorText text;
    const int error = iow_spread_create(stream, &spread, manifest.c_str(), paths.data(),
                                        static_cast<unsigned>(paths.size()), options, text.out());
    why = text.str();
    EXPECT_EQ(error == 0, spread != nullptr);
    return error;
  }
  /// Appends an item of so many bytes of the pattern from `at` on.
  int append(uint64_t at, uint64_t bytes, uint64_t* item = nullptr) {
    iow_lease lease = lease_of(stream);
    fill(lease, at, bytes);
    const int error = iow_spread_append(&lease, spread, bytes, item);
    EXPECT_EQ(lease.data, nullptr);
    return error;
  }
  int end(bool durable = false) {
    ErrorText text;
    const int error = iow_spread_end(std::exchange(spread, nullptr), durable ? 1 : 0, text.out());
    why = text.str();
    return error;
  }
  [[nodiscard]] iow_spread_stats spread_stats() const {
    iow_spread_stats stats{};
    stats.size = sizeof stats;
    EXPECT_EQ(iow_spread_get_stats(spread, &stats), 0);
    return stats;
  }

  /// Opens the manifest to be read.
  int open_read(const iow_read_stream_options* options = nullptr) {
    ErrorText text;
    const int error = iow_read_stream_open(service, &read, manifest.c_str(), options, text.out());
    why = text.str();
    EXPECT_EQ(error == 0, read != nullptr);
    return error;
  }
  void close_read() { EXPECT_EQ(iow_read_stream_close(std::exchange(read, nullptr)), 0); }
  /// What comes next: its bytes, or the negated errno; 0 at the end. Sets `why`.
  int next(std::vector<std::byte>& bytes, uint64_t& item) {
    iow_read_lease lease{};
    const int result = iow_read_stream_next(read, &lease, kLongNs);
    item = lease.item;
    bytes.clear();
    if (result == 1) {
      const auto* const data = static_cast<const std::byte*>(lease.data);
      bytes.assign(data, data + lease.bytes);
    } else if (result < 0) {
      ErrorText text;
      EXPECT_EQ(iow_read_stream_explain(read, &lease, result, text.out()), 0);
      why = text.str();
      EXPECT_EQ(lease.data, nullptr);
    }
    iow_read_lease_end(&lease);
    EXPECT_EQ(lease.data, nullptr);
    return result;
  }

  TempDir dir;
  const std::string manifest = dir.file("run.manifest");
  std::string why;
  iow_write_stream* stream = nullptr;
  iow_spread* spread = nullptr;
  iow_read_stream* read = nullptr;
};

}  // namespace ioweave::test

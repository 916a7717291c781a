#pragma once

// What tests of streams share: small buffers, files that fail, and writes that are held back.

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <gtest/gtest.h>

#include "fixture.hpp"
#include "ioweave/streams.h"

namespace ioweave::test {

inline constexpr uint64_t kBuffer = 64 << 10;
inline constexpr uint64_t kBuffers = 4;

inline std::vector<std::byte> content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

inline iow_write_stream_options small_stream() {
  iow_write_stream_options options{};
  options.buffer_bytes = kBuffer;
  options.budget_bytes = kBuffers * kBuffer;
  return options;
}

inline iow_lease lease_of(iow_write_stream* stream) {
  iow_lease lease{};
  EXPECT_EQ(iow_lease_begin(stream, &lease, kLongNs), 0);
  return lease;
}

inline void fill(const iow_lease& lease, uint64_t offset, uint64_t bytes) {
  const std::vector<std::byte> content = pattern(offset, bytes);
  std::copy(content.begin(), content.end(), static_cast<std::byte*>(lease.data));
}

/// No file of this process may grow beyond so many bytes while it lives.
class SmallFilesOnly {
 public:
  explicit SmallFilesOnly(uint64_t bytes = 1 << 20) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    ::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit {
      bytes, before_.rlim_max
    };
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~SmallFilesOnly() { EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0); }
  SmallFilesOnly(const SmallFilesOnly&) = delete;
  SmallFilesOnly& operator=(const SmallFilesOnly&) = delete;

 private:
  struct rlimit before_ {};
};
inline constexpr int64_t kTooFar = 2 << 20;

/// A flow whose operations wait until they are let go.
class HeldFlow {
 public:
  explicit HeldFlow(iow_service* service) : service_(service) {
    iow_device_options one_at_once{};
    one_at_once.max_in_flight = 1;
    iow_flow_options options{};
    options.device =
        static_cast<uint32_t>(iow_device_create(service, "held", &one_at_once, nullptr));
    flow_ = static_cast<uint32_t>(iow_flow_create(service, "held", &options, nullptr));
    before_ = iow_admit(service, flow_, 1);
    EXPECT_GT(before_, 0);
  }
  [[nodiscard]] uint32_t flow() const { return flow_; }
  void let_go() const { EXPECT_EQ(iow_finish(service_, before_, 1), 0); }
  /// Operations that wait, of those that were begun.
  [[nodiscard]] uint64_t waiting() const {
    iow_flow_stats stats{};
    stats.size = sizeof stats;
    EXPECT_EQ(iow_service_flow_stats(service_, flow_, &stats), 0);
    return stats.waiting;
  }

 private:
  iow_service* service_;
  uint32_t flow_ = 0;
  int64_t before_ = 0;
};

}  // namespace ioweave::test

#pragma once

// Items of a spread in a folder of their own, written and read back over a faulty back end.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/backend.hpp"
#include "service/service.hpp"
#include "stream/manifest/manifest_reader.hpp"
#include "stream/read/file_list.hpp"
#include "stream/read/read_stream.hpp"
#include "stream/spread/spread.hpp"
#include "support/faulty_backend.hpp"
#include "support/temp_dir.hpp"
#include "support/temp_file.hpp"

namespace ioweave::stream {

inline test::FaultOptions spread_faults;

inline std::unique_ptr<engine::Backend> open_spread_faulty(const engine::BackendOptions& options,
                                                           int& error, std::string& why) {
  auto inner = engine::open_backend(options, error, why);
  return inner == nullptr ? nullptr
                          : std::make_unique<test::FaultyBackend>(std::move(inner), spread_faults);
}

class SpreadFixture {
 public:
  static constexpr uint64_t kBuffer = 16 << 10;

  /// What was read of an item, or why not.
  struct Found {
    int error = 0;
    std::vector<std::byte> bytes;
    std::string why;
  };

  /// Its faults are those of the service that was opened last: a lane is made at its first use.
  service::Service::Owner open_service(engine::Kind engine, const test::FaultOptions& faults) {
    spread_faults = faults;
    service::Options options;
    options.engine = engine;
    options.open_backend = &open_spread_faulty;
    int error = 0;
    std::string text;
    service::Service::Owner opened = service::Service::open(options, error, text);
    EXPECT_NE(opened, nullptr) << text;
    return opened;
  }

  WriteStream::Owner open_stream(service::Service& on, uint32_t buffers,
                                 iow_write_path path = IOW_PATH_AUTO,
                                 iow_overflow overflow = IOW_OVERFLOW_BLOCK) {
    WriteStreamOptions options;
    options.buffer_bytes = kBuffer;
    options.buffers = buffers;
    options.depth = buffers;
    options.path = path;
    options.overflow = overflow;
    return WriteStream::open(on, options);
  }

  /// Folders "0", "1", ... below the test's.
  std::vector<std::string> make_targets(size_t count) {
    std::vector<std::string> targets;
    for (size_t i = 0; i < count; ++i) {
      targets.push_back(dir.file(std::to_string(i)));
      std::filesystem::create_directory(targets.back());
    }
    return targets;
  }

  static std::vector<std::byte> content(uint64_t item, uint64_t bytes) {
    return test::pattern(item * 1'000'003, bytes);
  }

  /// An item with the content of its number, if it is accepted.
  static int append(WriteStream& stream, Spread& spread, uint64_t item, uint64_t bytes,
                    uint64_t& number) {
    WriteStream::Buffer* buffer = nullptr;
    EXPECT_EQ(stream.lease(buffer, -1), 0);
    const std::vector<std::byte> data = content(item, bytes);
    std::copy(data.begin(), data.end(),
              static_cast<std::byte*>(WriteStream::lease_of(*buffer).data));
    return spread.append(*buffer, bytes, number);
  }

  ReadStream::Owner open_read(service::Service& on, const std::string& path_of,
                              uint64_t buffer_bytes = kBuffer, uint32_t buffers = 4,
                              iow_write_path path = IOW_PATH_AUTO) {
    int error = 0;
    auto reader = ManifestReader::open(path_of, false, error, why);
    if (reader == nullptr) {
      return nullptr;
    }
    std::vector<std::unique_ptr<SourceTarget>> targets;
    for (const std::string& target : reader->targets()) {
      auto& one = *targets.emplace_back(std::make_unique<SourceTarget>());
      one.error = one.file.open(target, path, one.why);
    }
    ReadStreamOptions options;
    options.buffer_bytes = buffer_bytes;
    options.buffers = buffers;
    return ReadStream::open(on, std::move(reader), std::move(targets), options);
  }

  /// All items, whose pieces must come in order.
  static std::map<uint64_t, Found> read_all(ReadStream& stream) {
    std::map<uint64_t, Found> all;
    iow_read_lease lease;
    int result = 0;
    while (lease = {}, (result = stream.next(lease, -1)) != 0) {
      Found& found = all[lease.item];
      EXPECT_EQ(all.rbegin()->first, lease.item);
      if (result < 0) {
        EXPECT_EQ(lease.data, nullptr);
        found.error = result;
        found.why = stream.explain(lease, result);
        continue;
      }
      EXPECT_EQ(lease.offset, found.bytes.size());
      const auto* const data = static_cast<const std::byte*>(lease.data);
      found.bytes.insert(found.bytes.end(), data, data + lease.bytes);
      ReadStream::end_lease(*static_cast<ReadStream::Buffer*>(lease.internal[0]));
    }
    return all;
  }

  const test::TempDir dir;
  const std::string manifest = dir.file("manifest");
  std::string why;
};

}  // namespace ioweave::stream

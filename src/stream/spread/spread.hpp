#pragma once

// A spread: the items of a write stream on several targets, and the manifest that says where each
// lies. The contract is include/ioweave/spread.h.
//
// append() hands a buffer to the stream, which asks the spread for a place under its lock. The
// spread chooses a target (placement.hpp), gives the item its number and its offset there, a
// multiple of a page, and notes it in `outstanding_`. When the write has ended, items leave that
// list in their order and become lines of the manifest. What of them is long enough is written to
// a file beside the manifest by whoever appends next.
//
// The stream's lock guards all that both sides know. The file of the manifest belongs to who has
// set `is_spilling_`, and to end().

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ioweave/spread.h"
#include "stream/manifest/manifest_writer.hpp"
#include "stream/spread/placement.hpp"
#include "stream/write/write_stream.hpp"

namespace ioweave::stream {

/// Any thread, but end() is the last call. Owns a part of its stream.
class Spread final : private WritePlacer {
 public:
  /// Null with -errno in `error` and a sentence. May throw std::bad_alloc.
  [[nodiscard]] static std::unique_ptr<Spread> create(WriteStream& stream,
                                                      const std::string& manifest,
                                                      const std::vector<std::string>& targets,
                                                      const iow_spread_options& options, int& error,
                                                      std::string& why);
  /// Ends it without a manifest, if it has not ended.
  ~Spread() override;

  [[nodiscard]] WriteStream& stream() const noexcept { return *stream_; }

  // The contracts of the functions of spread.h that are called alike.

  [[nodiscard]] int append(WriteStream::Buffer& buffer, uint64_t bytes, uint64_t& item) noexcept;
  [[nodiscard]] int end(bool durable, std::string& why);
  [[nodiscard]] iow_spread_stats statistics() const noexcept;

 private:
  /// An item whose line is not in the manifest yet.
  struct Outstanding {
    uint32_t target = 0;
    bool has_ended = false;
    int64_t offset = 0;
    uint64_t bytes = 0;
  };

  Spread(WriteStream& stream, const iow_spread_options& options, std::string manifest,
         std::vector<std::string> folders, const std::vector<std::string>& names);
  [[nodiscard]] int open_files(const std::vector<std::string>& paths, std::string& why);
  [[nodiscard]] size_t target_of(int file) const noexcept;
  void spill() noexcept;
  [[nodiscard]] int complete(const std::vector<WriteStream::FileEnd>& ends, bool durable,
                             std::string& why);
  [[nodiscard]] int finish_manifest(bool durable);

  [[nodiscard]] int choose(uint64_t bytes) noexcept override;
  [[nodiscard]] bool leave(int file) noexcept override;
  [[nodiscard]] int64_t place(int file, uint64_t bytes, uint64_t& tag) noexcept override;
  void note_end(uint64_t tag, int error) noexcept override;
  [[nodiscard]] bool is_idle() const noexcept override { return under_way_ == 0; }

  const WriteStream::Owner stream_;
  const iow_spread_options options_;
  const std::string manifest_path_;
  const std::vector<std::string> folders_;  ///< to be synced
  ManifestWriter manifest_;
  std::vector<int> files_;  ///< of the targets, in the stream

  std::vector<int64_t> next_offsets_;  ///< on the targets
  Placement placement_;
  std::vector<bool> holds_bytes_;        ///< of the targets: whether anything was written there
  std::deque<Outstanding> outstanding_;  ///< from item number first_ on
  uint64_t first_ = 0;
  uint64_t under_way_ = 0;
  int manifest_error_ = 0;
  bool is_manifest_error_told_ = false;
  bool is_spilling_ = false;
  int failed_file_ = -1;  ///< all that follows goes there, to be refused
  bool has_ended_ = false;
  iow_spread_stats stats_{};
};

}  // namespace ioweave::stream

#pragma once

// Writes a manifest (manifest.hpp) beside its final name while the items are written, so that it
// takes no memory, and gives it that name at the end.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"
#include "stream/manifest/manifest.hpp"

namespace ioweave::stream {

/// Two halves for two threads at a time: add() to take_text(), and write() to finish().
class ManifestWriter {
 public:
  /// `targets`: as they stand in the manifest, UTF-8.
  ManifestWriter(const std::vector<std::string>& targets, uint64_t page);
  ~ManifestWriter();
  ManifestWriter(const ManifestWriter&) = delete;
  ManifestWriter& operator=(const ManifestWriter&) = delete;

  /// Opens a file beside `path`, which nobody else may be writing: 0, or -errno and a sentence.
  [[nodiscard]] int open(const std::string& path, uint32_t mode, std::string& why);

  /// The next item. May throw std::bad_alloc.
  void add(const ManifestItem& item);
  /// Whether there is enough text that it is worth writing it.
  [[nodiscard]] bool is_long() const noexcept { return text_.size() >= kSpillBytes; }
  [[nodiscard]] std::string take_text() noexcept { return std::exchange(text_, {}); }
  /// The last lines. May throw std::bad_alloc.
  void add_end();

  /// 0 or -errno.
  [[nodiscard]] int write(std::string_view text) noexcept;
  [[nodiscard]] int fd() const noexcept { return file_.get(); }
  /// Gives it its name. 0 or -errno.
  [[nodiscard]] int finish() noexcept;
  /// Nothing is left of it. The destructor does the same unless it is finished.
  void discard() noexcept;

 private:
  static constexpr size_t kSpillBytes = 64 << 10;

  void end_run();

  const size_t targets_;
  const uint64_t page_;
  std::string path_;
  std::string beside_;
  Descriptor file_;

  std::string text_;
  ManifestItem run_;  ///< of `count_` items, not yet in the text
  uint64_t count_ = 0;
  uint64_t items_ = 0;
  uint64_t lost_items_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace ioweave::stream

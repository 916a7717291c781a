#pragma once

// Reads a manifest (manifest.hpp) that anybody may have written: twice, once to check all of it,
// and then item by item, in bounded memory.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"
#include "stream/manifest/item_source.hpp"

namespace ioweave::stream {

/// One thread at a time.
class ManifestReader final : public ItemSource {
 public:
  /// Null with -errno in `error` and a sentence: it cannot be read, or breaks a rule.
  /// `relative_only`: an absolute path does. May throw std::bad_alloc.
  [[nodiscard]] static std::unique_ptr<ManifestReader> open(const std::string& path,
                                                            bool relative_only, int& error,
                                                            std::string& why);

  [[nodiscard]] const ItemTotals& totals() const noexcept override { return totals_; }
  /// Absolute, or with the folder of the manifest before them.
  [[nodiscard]] const std::vector<std::string>& targets() const noexcept override {
    return targets_;
  }
  [[nodiscard]] int next(ManifestItem& item, std::string& why) override;

 private:
  /// A line with items, of which `given` were told.
  struct Run {
    ManifestItem first;
    uint64_t count = 0;
    uint64_t given = 0;
  };

  explicit ManifestReader(const std::string& path) : path_(path) {}
  [[nodiscard]] int check_all(bool relative_only, std::string& why);
  [[nodiscard]] int read_header(bool relative_only, std::string& why);
  [[nodiscard]] int add_target(const std::string& name, bool relative_only, std::string& why);
  /// 1: a run, 0: the end line, which was right, or -errno.
  [[nodiscard]] int read_run(std::string& why);
  [[nodiscard]] int check_run(std::string& why);
  [[nodiscard]] int check_end(std::string_view line, std::string& why);
  [[nodiscard]] int read_line(size_t most_bytes, std::string& why);
  [[nodiscard]] int refuse(const std::string& what, std::string& why) const;
  [[nodiscard]] int64_t offset_of(uint64_t index) const noexcept;
  [[nodiscard]] int start_again(std::string& why);

  const std::string path_;
  Descriptor file_;
  std::array<char, 64 << 10> buffer_;
  size_t begin_ = 0;  ///< of what is not read yet in it
  size_t end_ = 0;
  int64_t read_from_ = 0;

  std::string line_;
  uint64_t line_number_ = 0;
  uint64_t page_ = 0;
  std::vector<std::string> targets_;
  Run run_;
  ItemTotals found_;   ///< so far
  ItemTotals totals_;  ///< of all, once it was checked
};

}  // namespace ioweave::stream

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace cube {

/// Where the bytes of an archive come from. Immutable; any thread may read.
class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  /// What messages call it: the path of a file.
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual uint64_t size() const = 0;
  /// Fills all of `into` from `offset` on. Throws CubeError.
  virtual void read(uint64_t offset, std::span<std::byte> into) const = 0;
};

/// A regular file, opened here and closed in the end.
class FileBytes : public ByteSource {
 public:
  explicit FileBytes(std::string path);
  ~FileBytes() override;

  [[nodiscard]] const std::string& name() const override { return path_; }
  [[nodiscard]] uint64_t size() const override { return size_; }
  void read(uint64_t offset, std::span<std::byte> into) const override;
  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  std::string path_;
  int fd_;
  uint64_t size_ = 0;
};

class MemoryBytes : public ByteSource {
 public:
  /// The bytes are not copied.
  MemoryBytes(std::string name, std::span<const std::byte> bytes)
      : name_(std::move(name)), bytes_(bytes) {}

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] uint64_t size() const override { return bytes_.size(); }
  void read(uint64_t offset, std::span<std::byte> into) const override;

 private:
  std::string name_;
  std::span<const std::byte> bytes_;
};

/// Returns a * b, or nothing if it exceeds 64 bits.
inline std::optional<uint64_t> checked_product(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// Reverses the bytes of each element of `element_bytes` bytes.
void swap_elements(std::span<std::byte> bytes, size_t element_bytes);

/// Reads an integer of the other byte order if `swapped`.
template <typename T>
[[nodiscard]] T load_integer(const std::byte* from, bool swapped) {
  std::byte raw[sizeof(T)];
  for (size_t i = 0; i < sizeof(T); ++i) raw[i] = from[swapped ? sizeof(T) - 1 - i : i];
  T value;
  std::memcpy(&value, raw, sizeof value);
  return value;
}

}  // namespace cube

#pragma once

// Where in a file the elements of a view lie.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "calls/mpiio/access_pattern.hpp"
#include "calls/mpiio/mpi.hpp"

namespace ioweave::calls {

struct FileRange {
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// What MPI_File_set_view() set. MPI itself is asked where elements of one tile (a filetype) of it
/// lie, so all datatypes there are work alike: elements of a filetype come in the order of the
/// file, so that those between two lie behind each other if the two are as far apart as they would
/// be. It is asked when that is first of use: programs set views more often than they read by them.
class FileView {
 public:
  /// A file without a view: of bytes.
  FileView() = default;
  /// The view that was just set.
  FileView(MPI_File file, int64_t offset, MPI_Datatype etype, MPI_Datatype filetype,
           std::string_view representation) noexcept;

  /// Nonzero unless the view is one that nothing can be foretold of: its elements are of no bytes,
  /// a tile of it is found to be of too many pieces, or they are not in the file as they are in
  /// memory.
  [[nodiscard]] int64_t element_bytes() const noexcept { return element_bytes_; }

  /// Adds the ranges of an access, in the view's order; those that follow each other closely, as
  /// one. False, if there would be more than `most` of them, or MPI cannot tell: none were added
  /// then. May throw std::bad_alloc.
  [[nodiscard]] bool find_ranges(const Access& access, size_t most, std::vector<FileRange>& ranges);
  /// The bytes of an access and no others, if they lie behind each other; otherwise nothing. May
  /// throw std::bad_alloc.
  [[nodiscard]] std::optional<FileRange> find_solid_range(const Access& access);

 private:
  /// Elements of a tile without a gap between them.
  struct Block {
    int64_t first = 0;  ///< element of the tile
    int64_t elements = 0;
    int64_t offset = 0;  ///< bytes from the beginning of the tile
  };
  [[nodiscard]] int64_t offset_of(int64_t element, const Block& block) const noexcept;
  [[nodiscard]] const Block& block_of(int64_t element) const noexcept;
  [[nodiscard]] bool find_blocks();
  [[nodiscard]] bool ask(int64_t element, int64_t& offset) const noexcept;
  [[nodiscard]] int64_t count_solid(const Block& begin, int64_t guess) const noexcept;
  void find_gaps() noexcept;

  MPI_File file_{};  ///< to be asked; none once the blocks are known
  int64_t offset_ = 0;
  int64_t element_bytes_ = 1;
  int64_t tile_elements_ = 1;
  int64_t tile_extent_ = 1;  ///< bytes from one tile to the next
  std::vector<Block> blocks_{Block{0, 1, 0}};
  bool is_solid_ = true;  ///< no gap is worth leaving out
  bool has_no_gap_ = true;
};

}  // namespace ioweave::calls

#include "calls/mpiio/file_view.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "calls/mpiio/real_mpi.hpp"

namespace ioweave::calls {
namespace {

/// Pieces of a tile: to find them takes MPI the longer, the more there are.
constexpr size_t kMostBlocks = 4096;
/// Gaps up to here are read rather than left out: the device would take as long.
constexpr int64_t kLeastGap = 4096;

/// Adds a range; false if there is no place for another.
bool add(const FileRange& range, size_t most, std::vector<FileRange>& ranges) {
  if (!ranges.empty()) {
    FileRange& last = ranges.back();
    const int64_t gap = range.offset - (last.offset + last.bytes);
    if (gap >= 0 && gap < kLeastGap) {
      last.bytes += gap + range.bytes;
      return true;
    }
  }
  if (ranges.size() == most) {
    return false;
  }
  ranges.push_back(range);
  return true;
}

}  // namespace

FileView::FileView(MPI_File file, int64_t offset, MPI_Datatype etype, MPI_Datatype filetype,
                   std::string_view representation) noexcept
    : offset_(offset), element_bytes_(0) {
  const RealMpi& real = real_mpi();
  MPI_Count element = 0;
  MPI_Count tile = 0;
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  if (representation != "native" || !is_plausible(etype) || !is_plausible(filetype) ||
      real.Type_size_x(etype, &element) != MPI_SUCCESS || element <= 0 ||
      real.Type_size_x(filetype, &tile) != MPI_SUCCESS || tile <= 0 || tile % element != 0 ||
      real.Type_get_extent_x(filetype, &lower, &extent) != MPI_SUCCESS || extent <= 0) {
    return;
  }
  tile_elements_ = tile / element;
  tile_extent_ = extent;
  element_bytes_ = element;
  file_ = file;
}

bool FileView::find_blocks() {
  if (file_ == MPI_File{}) {
    return true;
  }
  std::vector<Block> blocks;
  int64_t guess = 1;  // most are as long as the one before
  for (int64_t first = 0; first < tile_elements_; first += guess) {
    Block block{first, 1, 0};
    if (blocks.size() == kMostBlocks || !ask(first, block.offset)) {
      element_bytes_ = 0;
      return false;
    }
    guess = block.elements = count_solid(block, guess);
    blocks.push_back(block);
  }
  blocks_ = std::move(blocks);
  file_ = MPI_File{};
  find_gaps();
  return true;
}

/// Where an element of the first tile lies, from its beginning on.
bool FileView::ask(int64_t element, int64_t& offset) const noexcept {
  MPI_Offset at = 0;
  if (real_mpi().File_get_byte_offset(file_, element, &at) != MPI_SUCCESS) {
    return false;
  }
  offset = at - offset_;
  return true;
}

/// How many elements lie behind each other from the first one of a block on.
int64_t FileView::count_solid(const Block& begin, int64_t guess) const noexcept {
  const int64_t most = tile_elements_ - begin.first;
  const auto is_solid = [&](int64_t elements) {
    int64_t last = 0;
    return ask(begin.first + elements - 1, last) &&
           last == begin.offset + (elements - 1) * element_bytes_;
  };
  int64_t solid = 1;
  int64_t not_solid = most + 1;
  // One more than the guess decides it mostly; otherwise twice as many each time.
  for (int64_t next = std::min(std::max<int64_t>(guess, 2), most); solid < most;) {
    if (!is_solid(next)) {
      not_solid = next;
      break;
    }
    solid = next;
    next = std::min(next == guess ? next + 1 : 2 * next, most);
  }
  while (solid + 1 < not_solid) {
    const int64_t middle = solid + (not_solid - solid) / 2;
    (is_solid(middle) ? solid : not_solid) = middle;
  }
  return solid;
}

void FileView::find_gaps() noexcept {
  is_solid_ = true;
  has_no_gap_ = true;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const int64_t end = blocks_[i].offset + blocks_[i].elements * element_bytes_;
    const int64_t next =
        i + 1 < blocks_.size() ? blocks_[i + 1].offset : blocks_[0].offset + tile_extent_;
    is_solid_ = is_solid_ && next >= end && next - end < kLeastGap;
    has_no_gap_ = has_no_gap_ && next == end;
  }
}

const FileView::Block& FileView::block_of(int64_t element) const noexcept {
  const auto behind =
      std::upper_bound(blocks_.begin(), blocks_.end(), element % tile_elements_,
                       [](int64_t at, const Block& block) { return at < block.first; });
  return *std::prev(behind);
}

int64_t FileView::offset_of(int64_t element, const Block& block) const noexcept {
  return offset_ + element / tile_elements_ * tile_extent_ + block.offset +
         (element % tile_elements_ - block.first) * element_bytes_;
}

bool FileView::find_ranges(const Access& access, size_t most, std::vector<FileRange>& ranges) {
  if (element_bytes_ == 0 || !find_blocks()) {
    return false;
  }
  const size_t before = ranges.size();
  const int64_t end = access.offset + access.count;
  if (is_solid_ && access.count > 0) {
    const int64_t first = offset_of(access.offset, block_of(access.offset));
    const int64_t last = offset_of(end - 1, block_of(end - 1)) + element_bytes_;
    return add({first, last - first}, most, ranges);
  }
  for (int64_t at = access.offset; at < end;) {
    const Block& block = block_of(at);
    const int64_t left = block.first + block.elements - at % tile_elements_;
    const int64_t elements = std::min(left, end - at);
    if (!add({offset_of(at, block), elements * element_bytes_}, most, ranges)) {
      ranges.resize(before);
      return false;
    }
    at += elements;
  }
  return true;
}

std::optional<FileRange> FileView::find_solid_range(const Access& access) {
  if (element_bytes_ == 0 || !find_blocks()) {
    return std::nullopt;
  }
  const Block& block = block_of(access.offset);
  const int64_t left = block.first + block.elements - access.offset % tile_elements_;
  if (!has_no_gap_ && left < access.count) {
    return std::nullopt;
  }
  return FileRange{offset_of(access.offset, block), access.count * element_bytes_};
}

}  // namespace ioweave::calls

// Any bytes as a Cube profile: an error, or an output that can be read again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "anchor.hpp"
#include "archive.hpp"
#include "error.hpp"
#include "layout.hpp"
#include "plan.hpp"

namespace {

constexpr uint64_t kMaxOutputBytes = uint64_t{4} << 20;  // of the parts that are computed
constexpr uint64_t kInputLimit = uint64_t{16} << 20;

class Discard : public cube::TextSink {
 public:
  void put(std::string_view text) override { bytes += text.size(); }
  uint64_t bytes = 0;
};

void remap(const cube::Archive& archive, const cube::Anchor& anchor,
           const cube::PlanOptions& options) {
  const cube::Plan plan(archive, anchor, options);
  const cube::Layout layout(archive, plan);
  cube::Filler filler(archive, plan, layout, 1);
  std::vector<std::byte> piece(10007);  // values lie across the ends of pieces
  const uint64_t end = std::min(layout.anchor_offset(), kMaxOutputBytes);
  for (uint64_t at = 0; at < end; at += piece.size()) {
    filler.fill(at, std::span(piece).first(std::min<size_t>(piece.size(), end - at)));
  }
  Discard sink;
  cube::write_anchor(anchor, plan.stored(), plan.columns(), sink);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const cube::Archive archive(std::make_unique<cube::MemoryBytes>(
        "fuzz", std::as_bytes(std::span<const uint8_t>(data, size))));
    const cube::Anchor anchor = cube::read_anchor(archive);
    const uint64_t locations = anchor.system.locations.size();
    remap(archive, anchor, {.input_limit = kInputLimit});
    remap(
        archive, anchor,
        {.as = cube::StoreAs::kExclusive, .locations = locations + 3, .input_limit = kInputLimit});
    remap(archive, anchor,
          {.as = cube::StoreAs::kStored,
           .aggregate = cube::Aggregate::kProcess,
           .input_limit = kInputLimit});
  } catch (const cube::CubeError&) {
    return 0;  // what is asked of a bad profile
  }
  return 0;
}

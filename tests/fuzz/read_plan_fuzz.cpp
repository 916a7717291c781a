// Any bytes as a plan of reads: an error with a sentence, or a plan that reads the same when it is
// written again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "stream/watch/replay/read_plan.hpp"

namespace {

using ioweave::stream::PlannedFile;
using ioweave::stream::PlannedReads;
using ioweave::stream::ReadPlan;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ReadPlan plan;
  std::string why;
  const bool is_read =
      ioweave::stream::parse_plan({reinterpret_cast<const char*>(data), size}, plan, why);
  require(is_read == why.empty());
  if (!is_read) {
    return 0;
  }
  for (const PlannedFile& file : plan.files) {
    for (const uint64_t number : {uint64_t{0}, file.reads.count() / 2, file.reads.count() - 1}) {
      require(file.reads.count() == 0 || file.reads.at(number).end() <= PlannedReads::kMostOffset);
    }
  }
  ReadPlan again;
  require(ioweave::stream::parse_plan(ioweave::stream::plan_text(plan), again, why));
  require(again.reads() == plan.reads() && again.bytes() == plan.bytes());
  return 0;
}

#include "placement.hpp"

namespace cube {

Placement choose_placement() {
  Placement placement;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  // Fails on machines of more than 1024 processors: then nothing is pinned.
  if (sched_getaffinity(0, sizeof mask, &mask) == -1) return placement;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(static_cast<size_t>(processor), &mask)) placement.computing.push_back(processor);
  }
  if (placement.computing.size() < 2) return {};
  placement.io.push_back(placement.computing.back());
  placement.computing.pop_back();
  return placement;
}

OnProcessors::OnProcessors(const std::vector<int>& processors) {
  if (processors.empty() || sched_getaffinity(0, sizeof before_, &before_) == -1) return;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const int processor : processors) CPU_SET(static_cast<size_t>(processor), &wanted);
  changed_ = sched_setaffinity(0, sizeof wanted, &wanted) == 0;
}

OnProcessors::~OnProcessors() {
  if (changed_) sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace cube

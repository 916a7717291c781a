#include "call_tree.hpp"

#include <algorithm>

namespace cube {

bool CallTree::open() {
  if (ends_.size() == kMaxCallPaths || open_.size() == kMaxDepth) return false;
  const auto depth = static_cast<uint32_t>(open_.size());
  open_.push_back(size());
  ends_.push_back(0);
  depths_.push_back(depth);
  deepest_ = std::max(deepest_, depth);
  return true;
}

void CallTree::close() {
  ends_[open_.back()] = size();
  open_.pop_back();
}

void CallTree::finish() {
  path_of_wide_.clear();
  path_of_wide_.reserve(size());
  // Cube's order: take a path from the stack, number its children one after the other, and put
  // them on the stack so that the first child comes next.
  std::vector<uint32_t> waiting;
  std::vector<uint32_t> children;
  for (uint32_t root = 0; root < size(); root = end(root)) {
    path_of_wide_.push_back(root);
    waiting.push_back(root);
    while (!waiting.empty()) {
      const uint32_t path = waiting.back();
      waiting.pop_back();
      children.clear();
      for_children(path, [&children](uint32_t child) { children.push_back(child); });
      path_of_wide_.insert(path_of_wide_.end(), children.begin(), children.end());
      waiting.insert(waiting.end(), children.rbegin(), children.rend());
    }
  }
  wide_of_path_.resize(size());
  for (uint32_t number = 0; number < size(); ++number)
    wide_of_path_[path_of_wide_[number]] = number;
}

}  // namespace cube

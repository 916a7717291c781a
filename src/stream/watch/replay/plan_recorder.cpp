#include "stream/watch/replay/plan_recorder.hpp"

#include <optional>
#include <set>
#include <utility>

#include <sys/stat.h>

#include "base/file_time.hpp"

namespace ioweave::stream {
namespace {

/// Returns the name for a plan.
std::string name_in(const std::string& folder, const std::string& path) {
  const std::string prefix = folder.ends_with('/') ? folder : folder + "/";
  return path.size() > prefix.size() && path.starts_with(prefix) ? path.substr(prefix.size())
                                                                 : path;
}

/// Finds a path that leads to the file, and describes the file as it is now.
std::optional<PlannedFile> find_file(const ReadFile& file, const std::string& folder) {
  for (const std::string& path : file.paths) {
    struct stat status {};
    const bool is_same = stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
                         FileId::of(status) == file.id;
    if (!is_same) continue;
    PlannedFile found;
    found.name = name_in(folder, path);
    found.size = static_cast<uint64_t>(status.st_size);
    found.mtime_ns = in_ns(status.st_mtim);
    return found;
  }
  return std::nullopt;
}

}  // namespace

void PlanRecorder::take(uint32_t file, FileRange range) {
  if (file >= reads_.size()) reads_.resize(file + 1);
  PlannedReads& reads = reads_[file];
  const bool is_first = reads.count() == 0;
  const size_t before = reads.runs().size();
  const bool added = runs_ < ReadPlan::kMostRuns && reads.add(range.offset, range.bytes);
  if (!added) {
    ++left_out_reads_;
    return;
  }
  runs_ += reads.runs().size() - before;
  if (is_first) order_.push_back(file);
}

PlanRecorder::Recorded PlanRecorder::finish(const RunReads& reads, const std::string& folder) && {
  Recorded recorded;
  recorded.left_out_reads = left_out_reads_;
  std::set<std::string> names;
  for (const uint32_t number : order_) {
    std::optional<PlannedFile> file = find_file(reads.file(number), folder);
    const bool has_name = file && file->name.size() <= ReadPlan::kMostNameBytes &&
                          recorded.plan.files.size() < ReadPlan::kMostFiles &&
                          names.insert(file->name).second;
    if (!has_name) {
      ++recorded.nameless_files;
      recorded.nameless_bytes += reads_[number].bytes();
      continue;
    }
    file->reads = std::move(reads_[number]);
    recorded.plan.files.push_back(*std::move(file));
  }
  return recorded;
}

}  // namespace ioweave::stream

#pragma once

// The files of a run that are left alone, because its processes read them by MPI-IO:
// libioweave_mpiio_*.so reads ahead of them by schedules of its own, or on purpose does not.
//
// The list is data that another program writes. It is read by read(2) and never mapped, as a
// segment is.

#include <set>
#include <string>
#include <utility>

#include <sys/types.h>

#include "base/descriptor.hpp"
#include "base/file_id.hpp"

namespace ioweave::stream {

/// One thread.
class MpiioFiles {
 public:
  /// `run_directory`: where the list is; empty: there is none.
  explicit MpiioFiles(const std::string& run_directory);

  /// Reads what was added to the list. Returns true if that is anything.
  bool refresh();
  [[nodiscard]] bool contain(const FileId& id) const { return files_.contains(id); }

 private:
  std::string path_;  // empty: no list
  Descriptor list_;
  off_t read_bytes_ = 0;
  std::set<FileId> files_;
};

}  // namespace ioweave::stream

#include "cli/plan_files.hpp"

#include <cerrno>
#include <cstring>

#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.hpp"
#include "cli/format.hpp"
#include "stream/watch/replay/read_plan.hpp"

namespace ioweave::cli {
namespace {

std::string count_text(uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// "is" or "are".
const char* be(uint64_t count) {
  return count == 1 ? "is" : "are";
}

}  // namespace

std::string explain_unwritable_plan(const std::string& path) {
  struct stat status {};
  if (path.empty()) return "the name of the plan to record is empty";
  const bool exists = stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    return path + " is a directory: name a file for the plan, such as " + path +
           (path.ends_with('/') ? "" : "/") + "run.plan";
  }
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (access(folder.c_str(), F_OK) != 0) {
    return "the folder " + folder + " of the plan: " + std::strerror(errno) +
           "; make it, or name another file";
  }
  if (access(exists ? path.c_str() : folder.c_str(), W_OK) != 0) {
    return "the plan " + path + " cannot be written: " + std::strerror(errno) +
           "; change the permissions, or name another file";
  }
  return {};
}

std::vector<std::string> write_plan(const stream::PlanRecorder::Recorded& recorded,
                                    stats::RecordReport& report) {
  report.files = recorded.plan.files.size();
  report.reads = recorded.plan.reads();
  report.bytes = recorded.plan.bytes();
  report.nameless_files = recorded.nameless_files;
  report.nameless_bytes = recorded.nameless_bytes;
  report.left_out_reads = recorded.left_out_reads;
  if (report.reads == 0) {
    return {
        "No read was recorded, and no plan was written: reads of the C library's streams, of "
        "memory maps, io_uring and static programs are not seen, nor those of files in "
        "memory."};
  }
  const std::string text = stream::plan_text(recorded.plan);
  const int error =
      text.size() > stream::ReadPlan::kMostTextBytes ? -EFBIG : write_atomically(report.plan, text);
  std::vector<std::string> remarks;
  if (error != 0) {
    remarks.push_back("The plan " + report.plan + " was not written: " + std::strerror(-error) +
                      ".");
  }
  if (report.nameless_files > 0) {
    remarks.push_back(count_text(report.nameless_files, "file") + " " + be(report.nameless_files) +
                      " not in the plan: removed before the end, or their paths are longer than "
                      "255 bytes.");
  }
  if (report.left_out_reads > 0) {
    remarks.push_back(count_text(report.left_out_reads, "read") + " did not fit into the plan.");
  }
  return remarks;
}

std::vector<std::string> remarks_on_replay(const stats::ReplayReport& report) {
  std::vector<std::string> remarks;
  const std::string of_all = " of the plan's " + count_text(report.files, "file") + " ";
  if (report.missing_files > 0) {
    remarks.push_back(std::to_string(report.missing_files) + of_all + be(report.missing_files) +
                      " missing, and skipped.");
  }
  if (report.changed_files > 0) {
    remarks.push_back(std::to_string(report.changed_files) + of_all +
                      (report.changed_files == 1 ? "has" : "have") +
                      " another size or time than recorded, and was replayed as far as it goes.");
  }
  if (report.given_up_files > 0) {
    remarks.push_back("The program read something else than the plan says of " +
                      count_text(report.given_up_files, "file") +
                      ": help by the plan was given up there.");
  }
  if (report.followed_files > 0) {
    remarks.push_back(std::to_string(report.followed_files) + of_all + be(report.followed_files) +
                      " read in order, and left to ordinary prefetching.");
  }
  return remarks;
}

}  // namespace ioweave::cli

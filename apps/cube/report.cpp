#include "report.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "error.hpp"

namespace cube {
namespace {

const char* word_of(bool value) {
  return value ? "true" : "false";
}

const char* word_of(StoreAs as) {
  return as == StoreAs::kInclusive   ? "inclusive"
         : as == StoreAs::kExclusive ? "exclusive"
                                     : "stored";
}

const char* word_of(Aggregate aggregate) {
  return aggregate == Aggregate::kNone   ? "none"
         : aggregate == Aggregate::kNode ? "node"
                                         : "process";
}

/// Since exec: getrusage() would begin with what the process that started this one had.
unsigned long long peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    unsigned long long kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  throw CubeError("/proc/self/status does not tell the peak of memory, which --json reports");
}

}  // namespace

ReportFile::ReportFile(std::string path)
    : path_(std::move(path)),
      file_(path_ == "-" ? stdout : std::fopen(path_.c_str(), "w"),
            [](FILE* file) { return file == stdout ? 0 : std::fclose(file); }) {
  if (!file_) fail();
}

void ReportFile::fail() const {
  throw CubeError("cannot write the report to '" + path_ + "': " + std::strerror(errno));
}

void ReportFile::write(const RemapOptions& options, const Report& report) {
  const BufferOptions& buffers = options.writer.buffers;
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::fprintf(file_.get(),
               "{\"mode\": \"%s\", \"as\": \"%s\", \"aggregate\": \"%s\",\n"
               " \"threads\": %llu, \"columns\": %llu, \"metrics\": %llu, \"rows\": %llu,\n"
               " \"items\": %llu, \"item_bytes\": %zu, \"buffers\": %zu, \"budget_bytes\": %llu,\n"
               " \"compute_threads\": %u, \"work\": %.17g, \"pin\": %s, \"align\": %s, "
               "\"pool\": %s, \"huge_pages\": %s,\n",
               std::string(mode_name(options.writer.mode)).c_str(), word_of(options.plan.as),
               word_of(options.plan.aggregate), number(report.threads), number(report.columns),
               number(report.metrics), number(report.rows), number(report.items), buffers.bytes,
               buffers.count, number(uint64_t{buffers.bytes} * buffers.count),
               options.compute_threads, options.work, word_of(options.writer.is_pinned),
               word_of(buffers.is_aligned), word_of(buffers.is_pooled), word_of(buffers.is_huge));
  std::fprintf(file_.get(),
               " \"bytes\": %llu, \"peak_bytes\": %llu,\n"
               " \"read_s\": %.9f, \"compute_s\": %.9f, \"write_s\": %.9f, \"wait_s\": %.9f, "
               "\"total_s\": %.9f, \"durable_s\": %.9f,\n"
               " \"alone_items\": %llu, \"alone_s\": %.9f, \"beside_s\": %.9f}\n",
               number(report.bytes), peak_bytes(), report.read_s, report.compute_s, report.write_s,
               report.wait_s, report.total_s, report.durable_s, number(report.alone_items),
               report.alone_s, report.beside_s);
  if (std::fflush(file_.get()) != 0) fail();
}

}  // namespace cube

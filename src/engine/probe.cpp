#include "engine/probe.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "engine/backends.hpp"
#include "engine/fixed_table.hpp"
#include "engine/probe_parts.hpp"
#include "engine/system_facts.hpp"

namespace ioweave::engine {
namespace {

/// Opens the backend, runs a nop through it and says what came of it.
Finding probe_engine(const BackendOptions& options, std::string detail) {
  Finding finding;
  finding.subject = backend_name(options.kind, options.mode);
  finding.detail = std::move(detail);
  Refusal refusal;
  const auto backend = try_open_backend(options, refusal);
  if (backend == nullptr) {
    finding.usable = Usable::no;
    finding.error = -refusal.error;
    finding.cause = refusal.cause;
    finding.remedy = refusal.remedy;
    return finding;
  }
  Operation nop;
  const int64_t result = run_one(*backend, nop);
  if (result == 0) return finding;
  finding.usable = Usable::no;
  finding.error = static_cast<int>(-result);
  finding.cause = "it opens, but a no-op ends in " + error_words(result);
  finding.remedy = "report this with the kernel's version; the engine threads works";
  return finding;
}

Finding probe_sqpoll() {
  Finding finding = probe_engine(small_backend(Kind::uring, UringMode::sqpoll), {});
  const unsigned cores = online_cores();
  finding.detail = std::to_string(cores) + " cores";
  if (finding.usable != Usable::yes || cores >= kCoresForSqpoll) return finding;
  finding.usable = Usable::degraded;
  finding.cause = "its polling thread would take one of only " + std::to_string(cores) +
                  " cores from the program";
  finding.remedy =
      "use the plain mode here; it pays from " + std::to_string(kCoresForSqpoll) + " cores on";
  return finding;
}

/// Registers a megabyte, which is what a small pool of transfer buffers takes.
Finding probe_registered_buffers() {
  constexpr size_t kBytes = 1 << 20;
  Finding finding;
  finding.subject = "registered buffers";
  finding.detail = "limit of locked memory " + memlock_limit();
  void* memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return finding;
  FixedTable table;
  BackendOptions options = small_backend(Kind::uring);
  options.fixed = &table;
  Refusal refusal;
  if (const auto backend = try_open_backend(options, refusal)) {
    Operation read;  // of a descriptor that does not exist: only the registration is of interest
    read.op = Op::read;
    read.buffer = memory;
    read.length = kBytes;
    read.fixed_buffer = static_cast<uint16_t>(table.add_buffer(memory, kBytes));
    (void)run_one(*backend, read);
    finding.error = -backend->fixed_error();
  }
  ::munmap(memory, kBytes);
  if (finding.error == 0) return finding;
  finding.usable = Usable::degraded;
  finding.cause = "1 MiB of buffers could not be registered: " + error_words(-finding.error);
  finding.remedy = finding.error == ENOMEM
                       ? "raise the limit of locked memory (ulimit -l, LimitMEMLOCK); until then "
                         "plain operations are used"
                       : "Linux 5.13 or newer registers them; until then plain operations are used";
  return finding;
}

}  // namespace

int64_t run_one(Backend& backend, Operation& operation) noexcept {
  switch (backend.submit(operation)) {
    case Submitted::completed:
      return operation.result;
    case Submitted::queued:
      break;
    default:
      return -ENOTSUP;
  }
  std::array<Operation*, 1> out{};
  for (;;) {
    const int reaped = backend.reap(out, {1, -1, true});
    if (reaped == 1) return operation.result;
    if (reaped < 0) return reaped;
  }
}

BackendOptions small_backend(Kind kind, UringMode mode) {
  BackendOptions options;
  options.kind = kind;
  options.mode = mode;
  options.entries = 4;
  options.threads = 1;
  return options;
}

std::string error_words(int64_t error) {
  const int number = static_cast<int>(-error);
  const char* name = ::strerrorname_np(number);
  return std::string(std::strerror(number)) + " (" + (name == nullptr ? "?" : name) + ")";
}

std::vector<Finding> probe(const std::string& path) {
  Findings findings;
  findings.push_back(probe_engine(small_backend(Kind::uring), "kernel " + kernel_release()));
  if (findings.back().usable == Usable::yes) {
    findings.push_back(probe_sqpoll());
    findings.push_back(probe_registered_buffers());
  }
  findings.push_back(probe_engine(small_backend(Kind::aio),
                                  "fs.aio-nr " + read_small_file("/proc/sys/fs/aio-nr") + " of " +
                                      read_small_file("/proc/sys/fs/aio-max-nr")));
  findings.push_back(probe_engine(small_backend(Kind::threads), {}));
  if (!path.empty()) probe_path(path, findings);
  return findings;
}

}  // namespace ioweave::engine

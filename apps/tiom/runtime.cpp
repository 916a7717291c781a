#include "runtime.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "ioweave/tasks.h"

namespace tiom {
namespace {

constexpr std::array kAllVariants{Variant::standalone, Variant::blocking, Variant::nonblocking};
constexpr std::array kNoBlocking{Variant::standalone, Variant::nonblocking};

}  // namespace

std::span<const Variant> variants_of(RuntimeKind kind) {
  const bool pauses = kind != RuntimeKind::openmp && kind != RuntimeKind::coroutine;
  return pauses ? std::span<const Variant>(kAllVariants) : std::span<const Variant>(kNoBlocking);
}

std::string missing_runtime(RuntimeKind kind) {
#ifndef TIOM_HAVE_OPENMP
  if (kind == RuntimeKind::openmp) {
    return "this ioweave-tiom was built without OpenMP; install a compiler with OpenMP 5 (g++ 12 "
           "has it) and configure again";
  }
#endif
#ifndef TIOM_HAVE_TBB
  if (kind == RuntimeKind::tbb) {
    return "this ioweave-tiom was built without oneTBB; install libtbb-dev 2021 or newer and "
           "configure again";
  }
#endif
  static_cast<void>(kind);  // all were built
  return {};
}

std::vector<Variant> chosen_variants(const Options& options) {
  const std::span<const Variant> known = variants_of(options.runtime);
  if (!options.variants) return {known.begin(), known.end()};
  for (const Variant variant : *options.variants) {
    if (std::ranges::find(known, variant) != known.end()) continue;
    throw UsageError("--variant " + std::string(variant_name(variant)) +
                     " is not possible with --runtime " +
                     std::string(runtime_name(options.runtime)) +
                     ", which cannot pause a task inside a call; use nonblocking, or --runtime tbb "
                     "or alpi");
  }
  return *options.variants;
}

std::unique_ptr<Runtime> make_runtime(const RuntimeSettings& settings) {
  if (const std::string missing = missing_runtime(settings.kind); !missing.empty()) {
    throw std::runtime_error(missing);
  }
  switch (settings.kind) {
#ifdef TIOM_HAVE_OPENMP
    case RuntimeKind::openmp:
      return make_openmp_runtime(settings);
#endif
#ifdef TIOM_HAVE_TBB
    case RuntimeKind::tbb:
      return make_tbb_runtime(settings);
#endif
    case RuntimeKind::alpi:
      return make_alpi_runtime(settings);
    case RuntimeKind::coroutine:
      return make_coroutine_runtime(settings);
    default:
      return make_threads_runtime(settings);
  }
}

iow_options service_options(unsigned most_in_flight) {
  iow_options options{};
  options.size = sizeof options;
  options.queue_depth = std::clamp(most_in_flight, 64u, 4096u);
  options.max_paused = std::clamp(most_in_flight, 1024u, 1000000u);
  return options;
}

Service::Service(iow_tasks tasks, unsigned most_in_flight, iow_task_reaper reaper) {
  iow_options options = service_options(most_in_flight);
  options.tasks = tasks;
  options.task_reaper = reaper;
  char* text = nullptr;
  const int result = iow_service_open(&service_, &options, &text);
  const std::string why = text != nullptr ? text : std::strerror(-result);
  std::free(text);
  if (result != 0) throw std::runtime_error("cannot open an Ioweave service: " + why);
}

ssize_t transfer_blocking(iow_service* service, const Transfer& transfer) {
  return transfer.write
             ? iow_pwrite(service, transfer.fd, transfer.buffer, transfer.bytes, transfer.offset)
             : iow_pread(service, transfer.fd, transfer.buffer, transfer.bytes, transfer.offset);
}

void transfer_bound(iow_service* service, const Transfer& transfer, ssize_t* result) {
  if (transfer.write) {
    iow_ta_pwrite(service, transfer.fd, transfer.buffer, transfer.bytes, transfer.offset, result);
  } else {
    iow_ta_pread(service, transfer.fd, transfer.buffer, transfer.bytes, transfer.offset, result);
  }
}

iow_request request_of(const Transfer& transfer) {
  iow_request request{};
  request.op = transfer.write ? IOW_OP_WRITE : IOW_OP_READ;
  request.fd = transfer.fd;
  request.buffer = transfer.buffer;
  request.bytes = transfer.bytes;
  request.offset = transfer.offset;
  return request;
}

}  // namespace tiom

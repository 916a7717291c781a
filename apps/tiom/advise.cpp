#include "advise.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "bench.hpp"
#include "device.hpp"
#include "report_json.hpp"
#include "sweep.hpp"

namespace tiom {
namespace {

constexpr double kWorthIt = 1.05;
constexpr double kProbeSeconds = 0.3;
constexpr double kUs = 1e6;  // in a second

std::string printed(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

/// The probes for one block size.
struct DeviceFigures {
  ProbeFigures alone;
  ProbeFigures workers;
  ProbeFigures deep;
};

DeviceFigures probe(const Options& options, const Bench& bench, uint64_t block, unsigned deepest) {
  const Service service(IOW_TASKS_NONE, deepest);
  const BlockOrder order(options.bytes / block, options.pattern == Pattern::random);
  const auto at = [&](unsigned depth) {
    bench.file().settle();
    return probe_device(service.get(),
                        {bench.file().fd(), options.write, block, depth, kProbeSeconds}, order);
  };
  return {at(1), at(bench.cores()), at(deepest)};
}

/// Transfers that the series can have in flight, as far as buffers of 256 MiB hold them.
unsigned deepest_queue(const Options& options, const Cell& cell, unsigned cores) {
  const uint64_t wanted = uint64_t{options.series} * io_width(cell.mode);
  const uint64_t room = std::max<uint64_t>((uint64_t{256} << 20) / cell.block_bytes, 1);
  return static_cast<unsigned>(
      std::max<uint64_t>({std::min({wanted, room, uint64_t{512}}), cores}));
}

AdviceInput input_of(const Options& options, const Bench& bench, const Cell& cell,
                     const DeviceFigures& device, double overhead_us) {
  AdviceInput input;
  input.cell = cell;
  input.series = options.series;
  input.cores = bench.cores();
  input.latency_alone_us = device.alone.latency_us;
  input.latency_workers_us = device.workers.latency_us;
  // Depth can hurt; nobody has to use all of it.
  input.mb_per_s_deep =
      std::max({device.alone.mb_per_s, device.workers.mb_per_s, device.deep.mb_per_s});
  input.overhead_us = overhead_us;
  return input;
}

Json to_json(const ProbeFigures& probe) {
  return {{"depth", probe.depth}, {"mb_per_s", probe.mb_per_s}, {"latency_us", probe.latency_us}};
}

Json to_json(const Advice& advice) {
  return {{"mode", mode_name(advice.input.cell.mode)},
          {"block_bytes", advice.input.cell.block_bytes},
          {"compute_ns", advice.input.cell.compute_ns},
          {"standalone_us_per_io", advice.standalone_us},
          {"standalone_limit", limit_name(advice.standalone_limit)},
          {"task_aware_us_per_io", advice.task_aware_us},
          {"task_aware_limit", limit_name(advice.task_aware_limit)},
          {"speed_up", advice.speed_up},
          {"waiting_us", advice.waiting_us},
          {"worth_it", advice.worth_it},
          {"reason", reason_of(advice)}};
}

/// What was measured and concluded, for both forms of output.
struct AdviceReport {
  Report head;
  double overhead_us = 0;
  std::vector<std::pair<uint64_t, DeviceFigures>> devices;
  std::vector<Advice> advices;
};

AdviceReport measure(const Options& options) {
  Bench bench(options);
  AdviceReport report{bench.report(), 0, {}, {}};
  {
    const Service service(IOW_TASKS_NONE, 64);
    report.overhead_us = probe_overhead_us(service.get());
  }
  std::map<std::pair<uint64_t, unsigned>, DeviceFigures> probed;
  for (const Cell& cell : options.cells()) {
    const unsigned deepest = deepest_queue(options, cell, bench.cores());
    const auto [place, is_new] = probed.try_emplace({cell.block_bytes, deepest});
    if (is_new) {
      place->second = probe(options, bench, cell.block_bytes, deepest);
      report.devices.emplace_back(cell.block_bytes, place->second);
    }
    report.advices.push_back(
        advise(input_of(options, bench, cell, place->second, report.overhead_us)));
  }
  return report;
}

std::string json_of(const AdviceReport& report) {
  Json json = {{"schema", "ioweave-tiom-advice/1"},
               {"date", report.head.machine.date},
               {"command", report.head.options.command},
               {"machine", machine_json(report.head.machine)},
               {"options", options_json(report.head.options)},
               {"workers", report.head.workers},
               {"cores", report.head.cores},
               {"calibration", to_json(report.head.calibration)},
               {"overhead_us", report.overhead_us},
               {"interface", interface_for(report.head.options.runtime)},
               {"device", Json::array()},
               {"advice", Json::array()}};
  for (const auto& [block, device] : report.devices) {
    json["device"].push_back(
        {{"block_bytes", block},
         {"probes", {to_json(device.alone), to_json(device.workers), to_json(device.deep)}}});
  }
  for (const Advice& advice : report.advices) json["advice"].push_back(to_json(advice));
  return json.dump(1) + "\n";
}

std::string device_lines(const AdviceReport& report) {
  std::string text;
  for (const auto& [block, device] : report.devices) {
    text += "  " + size_text(block) + ":";
    const char* separator = " ";
    for (const ProbeFigures& probe : {device.alone, device.workers, device.deep}) {
      text += separator + printed("%.4g", probe.mb_per_s) + " MB/s with " +
              std::to_string(probe.depth) + " in flight (" + printed("%.4g", probe.latency_us) +
              " us each)";
      separator = ", ";
    }
    text += "\n";
  }
  return text;
}

std::string advice_lines(const Advice& advice) {
  return cell_text(advice.input.cell) + ": " +
         (advice.worth_it ? "worth it, " + speed_up_text(advice.speed_up)
                          : "not worth it, " + speed_up_text(advice.speed_up)) +
         " (" + printed("%.4g", advice.standalone_us) + " us per I/O standalone, " +
         printed("%.4g", advice.task_aware_us) + " us task-aware, limited by the " +
         std::string(limit_name(advice.task_aware_limit)) + ")\n  " + reason_of(advice) + "\n";
}

std::string text_of(const AdviceReport& report) {
  const Options& options = report.head.options;
  std::string text = workload_text(options) + "\n";
  text += "The device, " + report.head.machine.file_system + " on " + report.head.machine.device +
          ", by block size:\n" + device_lines(report);
  text += "A task-aware transfer costs " + printed("%.3g", report.overhead_us) +
          " us of processor time. " + std::to_string(report.head.cores) + " cores compute.\n\n";
  bool any = false;
  for (const Advice& advice : report.advices) {
    text += advice_lines(advice);
    any |= advice.worth_it;
  }
  if (!options.direct) {
    text +=
        "\nWithout O_DIRECT the page cache answers what it holds: these figures are for this file "
        "as it is cached now. Where your data is usually in the cache, there is nothing to hide.\n";
  }
  if (any) text += "\n" + interface_for(options.runtime) + "\n";
  return text;
}

}  // namespace

double waiting_time_us(const AdviceInput& input, double compute_us) {
  return ioweave::model::waiting_s(input.latency_alone_us / kUs, input.latency_workers_us / kUs,
                                   compute_us / kUs) *
         kUs;
}

Advice advise(const AdviceInput& input) {
  const Mode mode = input.cell.mode;
  ioweave::model::TaskIo io;
  io.compute_s = static_cast<double>(input.cell.compute_ns) / 1e9;
  io.computes = computes_per_cycle(mode);
  io.ios = ios_per_cycle(mode);
  io.series = input.series;
  io.cores = input.cores;
  io.latency_alone_s = input.latency_alone_us / kUs;
  io.latency_workers_s = input.latency_workers_us / kUs;
  io.bytes = input.cell.block_bytes;
  io.bytes_per_second = input.mb_per_s_deep * 1e6;
  io.overhead_s = input.overhead_us / kUs;
  const ioweave::model::TaskTime standalone = ioweave::model::standalone(io);
  const ioweave::model::TaskTime task_aware = ioweave::model::task_aware(io);
  Advice advice;
  advice.input = input;
  advice.waiting_us = ioweave::model::waiting_s(io) * kUs;
  advice.standalone_us = standalone.seconds * kUs;
  advice.standalone_limit = standalone.limit;
  advice.task_aware_us = task_aware.seconds * kUs;
  advice.task_aware_limit = task_aware.limit;
  advice.speed_up = task_aware.seconds > 0 ? standalone.seconds / task_aware.seconds : 1;
  advice.worth_it = advice.speed_up >= kWorthIt;
  return advice;
}

std::string_view limit_name(Limit limit) {
  switch (limit) {
    case Limit::compute:
      return "computation";
    case Limit::device:
      return "device";
    case Limit::workers:
      return "workers";
    case Limit::series:
      return "series";
  }
  return "";
}

std::string reason_of(const Advice& advice) {
  const AdviceInput& input = advice.input;
  if (advice.worth_it) {
    const std::string hidden = "A worker that waits " + printed("%.4g", input.latency_workers_us) +
                               " us for each transfer could compute instead. ";
    switch (advice.task_aware_limit) {
      case Limit::device:
        return hidden + "With more in flight the device gets to its " +
               printed("%.4g", input.mb_per_s_deep) + " MB/s, and is then the limit.";
      case Limit::series:
        return hidden + "With more than " + std::to_string(input.series) +
               " series there would be more to gain.";
      default:
        return hidden + "The computation is then the limit.";
    }
  }
  switch (advice.standalone_limit) {
    case Limit::device:
      return "The device is saturated already: plain calls of all workers reach its " +
             printed("%.4g", input.mb_per_s_deep) + " MB/s.";
    case Limit::series:
      return "There are too few series (" + std::to_string(input.series) +
             ") for the cores: nothing else could run while one of them waits.";
    default:
      break;
  }
  if (advice.task_aware_limit == Limit::device) {
    return "The device is all but saturated by plain calls.";
  }
  if (advice.task_aware_limit == Limit::series) {
    return "There are hardly more series (" + std::to_string(input.series) +
           ") than cores: little else could run while one of them waits.";
  }
  return "Computation dominates: the " + printed("%.4g", advice.waiting_us) +
         " us of a transfer are small beside it, or no more than task-aware I/O costs itself.";
}

std::string interface_for(RuntimeKind kind) {
  switch (kind) {
    case RuntimeKind::openmp:
      return "With OpenMP: tasks with detach, ioweave/openmp.h, and iow_ta_pread() and its like "
             "inside. OpenMP cannot pause a task, so there is no blocking form.";
    case RuntimeKind::tbb:
      return "With oneTBB: open the service with iow_options.tasks = IOW_TASKS_TBB and call "
             "iow_pread() and its like in the tasks, which changes least; it needs no threads. "
             "ioweave/tbb.hpp has the non-blocking form.";
    case RuntimeKind::alpi:
      return "With ALPI: iow_ta_pread() and its like, which bind the transfer to the task. The "
             "blocking iow_pread() changes less, but each paused task keeps a thread.";
    case RuntimeKind::coroutine:
      return "With coroutines: co_await of async_read() and its like, ioweave/coroutine.hpp.";
    case RuntimeKind::threads:
      return "Without a task runtime: iow_submit() with a callback that queues what follows. A "
             "--runtime tells what to use there.";
  }
  return {};
}

std::string run_advise(const Options& options) {
  const AdviceReport report = measure(options);
  if (!options.json.empty()) write_text(options.json, json_of(report));
  return text_of(report);
}

}  // namespace tiom

// The simulator for Python: conversions only.

#include "simulator/simulation.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "module.hpp"
#include "policy.hpp"

namespace ioweave::python {
namespace {

using simulator::FlowCounts;
using simulator::kNoTask;
using simulator::Record;
using simulator::Task;
using simulator::TaskId;
using Core = simulator::Simulation;
using Progress = Core::Progress;

constexpr uint64_t kStepsBetweenSignals = 10'000;

simulator::Cluster checked(uint32_t nodes, uint32_t cores, double sample_period_s,
                           std::vector<uint32_t> cores_of) {
  nodes = cores_of.empty() ? nodes : static_cast<uint32_t>(cores_of.size());
  const bool some_without = std::find(cores_of.begin(), cores_of.end(), 0u) != cores_of.end();
  if (nodes == 0 || cores == 0 || some_without || !(sample_period_s > 0)) {
    throw nb::value_error("nodes, cores and sample_period_s must be above 0");
  }
  return {nodes, cores, sample_period_s, std::move(cores_of)};
}

/// One thread at a time, by the policy's guard: it asks the policy.
class Simulation {
 public:
  Simulation(Policy& policy, uint32_t nodes, uint32_t cores, double sample_period_s,
             std::vector<uint32_t> cores_of)
      : policy_(policy),
        simulation_(
            policy.core(),
            [&policy](const policy::Event& event, uint64_t now_ns,
                      std::vector<policy::Decision>& out) { policy.on(event, now_ns, out); },
            checked(nodes, cores, sample_period_s, std::move(cores_of))) {}

  void device_up(policy::DeviceId device, policy::NodeId node) {
    const Policy::Use use(policy_);
    std::string why;
    constexpr uint64_t kWhenever = std::numeric_limits<uint64_t>::max();
    if (!policy_.core().accepts(policy::DeviceUp{device, node}, kWhenever, why)) {
      throw nb::value_error(why.c_str());
    }
    if (node >= simulation_.nodes()) {
      throw nb::value_error(("node " + std::to_string(node) + ": the simulation has " +
                             std::to_string(simulation_.nodes()) + " nodes, from 0 on")
                                .c_str());
    }
    simulation_.device_up(device, node);
  }

  void set_curve(policy::DeviceId device, const std::vector<std::pair<double, double>>& points,
                 std::optional<double> at_s) {
    const Policy::Use use(policy_);
    policy_.check_device(device);
    if (at_s && !(*at_s >= simulation_.now_s() && *at_s <= simulator::kMostSeconds)) {
      throw nb::value_error("at_s has passed, or is above 1e9 s");
    }
    std::vector<model::Curve::Point> given;
    given.reserve(points.size());
    for (const auto& [streams, mb_per_s] : points) {
      given.push_back({streams, mb_per_s});
    }
    model::Curve curve;
    std::string why;
    if (!model::Curve::make(given, curve, why)) {
      throw nb::value_error(why.c_str());
    }
    if (at_s) {
      simulation_.set_curve_at(*at_s, device, std::move(curve));
    } else {
      simulation_.set_curve(device, std::move(curve));
    }
  }

  TaskId submit(Task task, const std::vector<TaskId>& after, std::optional<TaskId> beside) {
    const Policy::Use use(policy_);
    task.beside = beside.value_or(kNoTask);
    std::string why;
    const TaskId id = simulation_.submit(task, after, why);
    if (id == kNoTask) {
      throw nb::value_error(why.c_str());
    }
    return id;
  }

  const char* run(std::optional<TaskId> until, std::optional<uint64_t> steps) {
    for (;;) {
      switch (go_on(until, steps.value_or(kStepsBetweenSignals))) {
        case Progress::ended:
          return "ended";
        case Progress::watched:
          return "watched";
        case Progress::stuck:
          return "stuck";
        case Progress::going_on:
          break;
      }
      if (PyErr_CheckSignals() != 0) {
        throw nb::python_error();
      }
      if (steps) {
        return "going on";
      }
    }
  }

  void watch(TaskId id) {
    const Policy::Use use(policy_);
    if (known(id).state != Record::State::ended) {
      simulation_.watch(id);
    }
  }

  Record record(TaskId id) {
    const Policy::Use use(policy_);
    return known(id);
  }

  template <class Value, class... Arguments>
  Value ask(Value (Core::*question)(Arguments...) const, Arguments... arguments) {
    const Policy::Use use(policy_);
    return (simulation_.*question)(arguments...);
  }

 private:
  Progress go_on(std::optional<TaskId> until, uint64_t steps) {
    const Policy::Use use(policy_);
    if (until) {
      (void)known(*until);
    }
    return simulation_.go_on(steps, until.value_or(kNoTask));
  }

  [[nodiscard]] Record known(TaskId id) const {
    if (id >= simulation_.tasks()) {
      throw nb::index_error(("there is no task " + std::to_string(id)).c_str());
    }
    return simulation_.record(id);
  }

  Policy& policy_;
  Core simulation_;
};

const char* state_of(const Record& record) {
  switch (record.state) {
    case Record::State::running:
      return "running";
    case Record::State::ended:
      return "ended";
    case Record::State::waiting:
      break;
  }
  return "waiting";
}

}  // namespace

void bind_simulation(nb::module_& module) {
  nb::class_<Record>(module, "Record")
      .def_prop_ro("state", &state_of)
      .def_ro("node", &Record::node)
      .def_ro("ready_s", &Record::ready_s)
      .def_ro("start_s", &Record::start_s)
      .def_ro("end_s", &Record::end_s);

  nb::class_<FlowCounts>(module, "FlowCounts")
      .def_ro("waiting", &FlowCounts::waiting)
      .def_ro("running", &FlowCounts::running)
      .def_ro("ended", &FlowCounts::ended)
      .def_ro("bytes", &FlowCounts::bytes);

  nb::class_<Simulation>(module, "Simulation")
      .def(
          "__init__",
          [](Simulation* self, Policy& policy, uint32_t nodes, uint32_t cores,
             double sample_period_s, std::vector<uint32_t> cores_of) {
            const Policy::Use use(policy);  // which hears of the nodes
            new (self) Simulation(policy, nodes, cores, sample_period_s, std::move(cores_of));
          },
          nb::arg("policy"), nb::kw_only(), nb::arg("nodes") = 1, nb::arg("cores") = 1,
          nb::arg("sample_period_s") = 1.0, nb::arg("cores_of") = std::vector<uint32_t>(),
          nb::keep_alive<1, 2>())
      .def("device_up", &Simulation::device_up, nb::arg("device"), nb::arg("node"))
      .def("set_curve", &Simulation::set_curve, nb::arg("device"), nb::arg("points"), nb::kw_only(),
           nb::arg("at_s") = nb::none())
      .def(
          "compute",
          [](Simulation& self, double seconds, uint32_t cpus, const std::vector<TaskId>& after,
             std::optional<TaskId> beside) {
            Task task;
            task.seconds = seconds;
            task.cpus = cpus;
            return self.submit(task, after, beside);
          },
          nb::arg("seconds"), nb::kw_only(), nb::arg("cpus") = 1,
          nb::arg("after") = std::vector<TaskId>(), nb::arg("beside") = nb::none())
      .def(
          "io",
          [](Simulation& self, policy::FlowId flow, uint64_t bytes,
             const std::vector<TaskId>& after, std::optional<TaskId> beside) {
            Task task;
            task.kind = Task::Kind::io;
            task.flow = flow;
            task.bytes = bytes;
            return self.submit(task, after, beside);
          },
          nb::arg("flow"), nb::arg("bytes"), nb::kw_only(),
          nb::arg("after") = std::vector<TaskId>(), nb::arg("beside") = nb::none())
      .def(
          "blocking_io",
          [](Simulation& self, policy::DeviceId device, uint64_t bytes, double seconds,
             uint32_t cpus, const std::vector<TaskId>& after, std::optional<TaskId> beside) {
            Task task;
            task.kind = Task::Kind::blocking_io;
            task.device = device;
            task.bytes = bytes;
            task.seconds = seconds;
            task.cpus = cpus;
            return self.submit(task, after, beside);
          },
          nb::arg("device"), nb::arg("bytes"), nb::kw_only(), nb::arg("seconds") = 0.0,
          nb::arg("cpus") = 1, nb::arg("after") = std::vector<TaskId>(),
          nb::arg("beside") = nb::none())
      .def("run", &Simulation::run, nb::arg("until") = nb::none(), nb::kw_only(),
           nb::arg("steps") = nb::none())
      .def("watch", &Simulation::watch, nb::arg("task"))
      .def("record", &Simulation::record, nb::arg("task"))
      .def(
          "counts_of",
          [](Simulation& self, policy::FlowId flow) { return self.ask(&Core::counts_of, flow); },
          nb::arg("flow"))
      .def_prop_ro("now_s", [](Simulation& self) { return self.ask(&Core::now_s); })
      .def_prop_ro("free_cores", [](Simulation& self) { return self.ask(&Core::free_cores); })
      .def_prop_ro("unfinished", [](Simulation& self) { return self.ask(&Core::unfinished); })
      .def_prop_ro("tasks", [](Simulation& self) { return self.ask(&Core::tasks); });
}

}  // namespace ioweave::python

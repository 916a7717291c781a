// The policy core for Python: events in, decisions out. Conversions only, decided is in src/policy.
//
// Words (scope, class, constraint, ...) are read by the grammar of the event log: what it learns,
// the binding knows. Every event is checked by Policy::accepts(), because the policy itself takes a
// wrong one for an error of the program and aborts.

#include "policy.hpp"

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include <nanobind/operators.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "file.hpp"
#include "gil.hpp"
#include "module.hpp"
#include "policy/climb.hpp"
#include "policy/explanation.hpp"

namespace ioweave::python {
namespace {

using policy::Decision;
using policy::DeviceConfig;
using policy::DeviceId;
using policy::Event;
using policy::FlowConfig;
using policy::FlowId;
using policy::NodeId;
using policy::OperationId;
using policy::SetLimit;
using policy::Start;

[[noreturn]] void refuse(const std::string& why) {
  throw nb::value_error(why.c_str());
}

int64_t accepted(int64_t id, const std::string& why) {
  if (id < 0) {
    refuse(why);
  }
  return id;
}

/// `config` with the value of one key replaced by `word`, as the event log would read it. `config`
/// still has an empty name: `subject` is what an error calls it.
template <class Config>
Config with_word(const Config& config, const std::string& subject, const std::string& key,
                 const std::string& word) {
  std::string line;
  policy::append_line(line, config);
  const size_t value = line.find(" " + key + "=") + key.size() + 2;
  line.replace(value, line.find(' ', value) - value, word);
  policy::Record record;
  std::string why;
  if (!policy::parse_line(line, record, why)) {
    refuse(subject + ": " + why);
  }
  return std::get<Config>(record);
}

NodeId node_of(std::optional<NodeId> node) {
  if (node == policy::kAnyNode) {
    refuse("node " + std::to_string(*node) + " is beyond the last one; None stands for any node");
  }
  return node.value_or(policy::kAnyNode);
}

}  // namespace

Policy::Policy(nb::object log) : log_(std::move(log)) {
  if (!log_.is_none()) {
    recorder_.emplace(policy_, [this](std::string_view line) { tell(line); });
  }
}

int64_t Policy::add_device(const std::string& name, const std::string& scope,
                           double budget_mb_per_s, uint32_t max_in_flight,
                           const std::string& scheduling,
                           const std::array<uint32_t, policy::kClasses>& weights, bool everywhere,
                           uint32_t begins_at) {
  const std::string subject = "device '" + name + "'";
  DeviceConfig config = with_word(DeviceConfig{}, subject, "scope", scope);
  config = with_word(config, subject, "scheduling", scheduling);
  config.name = name;
  config.budget_mb_per_s = budget_mb_per_s;
  config.max_in_flight = max_in_flight;
  config.weights = weights;
  config.everywhere = everywhere;
  config.begins_at = begins_at;
  const Use use(*this);
  std::string why;
  return accepted(recorder_ ? recorder_->add_device(config, why) : policy_.add_device(config, why),
                  why);
}

int64_t Policy::add_flow(const std::string& name, DeviceId device, const std::string& priority,
                         const std::string& constraint, uint32_t max_in_flight,
                         const std::string& learned) {
  const std::string subject = "flow '" + name + "'";
  FlowConfig config = with_word(FlowConfig{}, subject, "class", priority);
  config = with_word(config, subject, "constraint", constraint);
  config.name = name;
  config.device = device;
  config.max_in_flight = max_in_flight;
  config.learned = learned;
  const Use use(*this);
  std::string why;
  return accepted(recorder_ ? recorder_->add_flow(config, why) : policy_.add_flow(config, why),
                  why);
}

nb::list Policy::hear(const Event& event, uint64_t now_ns) {
  const Use use(*this);
  decisions_.clear();
  std::string why;
  if (!policy_.accepts(event, now_ns, why)) {
    refuse(why);
  }
  on(event, now_ns, decisions_);
  nb::list list;
  for (const Decision& decision : decisions_) {
    std::visit([&list](const auto& of_kind) { list.append(nb::cast(of_kind)); }, decision);
  }
  return list;
}

void Policy::on(const Event& event, uint64_t now_ns, std::vector<Decision>& out) {
  if (recorder_) {
    recorder_->on(event, now_ns, out);
  } else {
    policy_.on(event, now_ns, out);
  }
}

void Policy::check(FlowId flow) const {
  if (flow >= policy_.flows()) {
    refuse("flow " + std::to_string(flow) + " does not exist");
  }
}

void Policy::check_device(DeviceId device) const {
  if (device >= policy_.devices()) {
    refuse("device " + std::to_string(device) + " does not exist");
  }
}

bool Policy::has(NodeId node, DeviceId device) {
  const Use use(*this);
  check_device(device);
  return policy_.has(node, device);
}

uint64_t Policy::nodes_with(DeviceId device) {
  const Use use(*this);
  check_device(device);
  return policy_.nodes_with(device);
}

std::pair<uint64_t, uint64_t> Policy::flow_counts(FlowId flow) {
  const Use use(*this);
  check(flow);
  const policy::Counts counts = policy_.flow_counts(flow);
  return {counts.waiting, counts.running};
}

std::pair<uint64_t, uint64_t> Policy::device_counts(DeviceId device) {
  const Use use(*this);
  check_device(device);
  const policy::Counts counts = policy_.device_counts(device);
  return {counts.waiting, counts.running};
}

uint64_t Policy::running_on(NodeId node) {
  const Use use(*this);
  if (!policy_.is_up(node)) {
    refuse("node " + std::to_string(node) + " is not up");
  }
  return policy_.running_on(node);
}

bool Policy::needs_samples(DeviceId device) {
  const Use use(*this);
  check_device(device);
  return policy_.needs_samples(device);
}

std::string Policy::explain(FlowId flow) {
  const Use use(*this);
  check(flow);
  return policy::to_json(policy_.explain(flow));
}

std::string Policy::learned(FlowId flow) {
  const Use use(*this);
  check(flow);
  return policy_.learned(flow);
}

Policy::Use::Use(Policy& policy) : in_use_(policy.in_use_) {
  // Acquire and release order what one thread did before what the next one does.
  if (in_use_.exchange(true, std::memory_order_acquire)) {
    throw std::runtime_error(
        "this Policy, or a Simulation of it, is being used by another thread, or by its own log "
        "function: hold a lock around every call, and do not call it from the log");
  }
}

/// An exception must not keep the caller from learning what was decided.
void Policy::tell(std::string_view line) {
  try {
    if (!log_.is_none()) {
      log_(nb::str(line.data(), line.size()));
    }
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("the log function of an ioweave Policy");
  } catch (abi::__forced_unwind&) {
    sleep_for_ever();
  }
}

namespace {

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) {
    Py_VISIT(nb::inst_ptr<Policy>(self)->log());
  }
  return 0;
}

int clear(PyObject* self) {
  if (nb::inst_ready(self)) {
    nb::inst_ptr<Policy>(self)->forget_log();
  }
  return 0;
}

PyType_Slot policy_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&clear)},
    {0, nullptr},
};

policy::Replayed replay(const std::filesystem::path& path) {
  policy::Replayed replayed;
  int error = 0;
  {
    const WithoutGil released;
    std::ifstream log(path);
    if (log) {
      replayed = policy::replay(log);
    }
    if (!log.is_open() || log.bad()) {  // a folder, say, opens and then is bad
      error = errno;
    }
  }
  if (error != 0) {
    raise_path_error(error, path.native());
  }
  return replayed;
}

void bind_decisions(nb::module_& module) {
  nb::class_<Start> start(module, "Start");
  start.def(
      "__init__",
      [](Start* self, OperationId operation, NodeId node) {
        new (self) Start{operation, node};
      },
      nb::arg("operation"), nb::arg("node"));
  start.def_ro("operation", &Start::operation)
      .def_ro("node", &Start::node)
      .def(nb::self == nb::self);
  start.def("__hash__",
            [](const Start& self) { return nb::hash(nb::make_tuple(self.operation, self.node)); });
  start.def("__repr__", [](const Start& self) {
    return "Start(operation=" + std::to_string(self.operation) +
           ", node=" + std::to_string(self.node) + ")";
  });
  start.attr("__match_args__") = nb::make_tuple("operation", "node");

  nb::class_<SetLimit> limit(module, "SetLimit");
  limit.def(
      "__init__",
      [](SetLimit* self, FlowId flow, uint32_t most) {
        new (self) SetLimit{flow, most};
      },
      nb::arg("flow"), nb::arg("limit"));
  limit.def_ro("flow", &SetLimit::flow).def_ro("limit", &SetLimit::limit).def(nb::self == nb::self);
  limit.def("__hash__",
            [](const SetLimit& self) { return nb::hash(nb::make_tuple(self.flow, self.limit)); });
  limit.def("__repr__", [](const SetLimit& self) {
    return "SetLimit(flow=" + std::to_string(self.flow) + ", limit=" + std::to_string(self.limit) +
           ")";
  });
  limit.attr("__match_args__") = nb::make_tuple("flow", "limit");
}

void bind_configuration(nb::class_<Policy>& type) {
  type.def(nb::init<nb::object>(), nb::arg("log") = nb::none());
  type.def("add_device", &Policy::add_device, nb::arg("name"), nb::kw_only(),
           nb::arg("scope") = "node", nb::arg("budget_mb_per_s") = 0.0,
           nb::arg("max_in_flight") = 0, nb::arg("scheduling") = "none",
           nb::arg("weights") = DeviceConfig{}.weights, nb::arg("everywhere") = true,
           nb::arg("begins_at") = 0);
  type.def("add_flow", &Policy::add_flow, nb::arg("name"), nb::arg("device"), nb::kw_only(),
           nb::arg("priority") = "foreground", nb::arg("constraint") = "none",
           nb::arg("max_in_flight") = 0, nb::arg("learned") = "");
  type.def("has", &Policy::has, nb::arg("node"), nb::arg("device"));
  type.def("nodes_with", &Policy::nodes_with, nb::arg("device"));
  type.def("explain", &Policy::explain, nb::arg("flow"));
  type.def("learned", &Policy::learned, nb::arg("flow"));
  type.def_prop_ro("devices", [](Policy& self) { return self.ask(&policy::Policy::devices); });
  type.def_prop_ro("flows", [](Policy& self) { return self.ask(&policy::Policy::flows); });
  type.def_prop_ro("waiting",
                   [](Policy& self) { return self.ask<uint64_t>(&policy::Policy::waiting); });
  type.def_prop_ro("running", [](Policy& self) { return self.ask(&policy::Policy::running); });
  type.def("flow_counts", &Policy::flow_counts, nb::arg("flow"));
  type.def("device_counts", &Policy::device_counts, nb::arg("device"));
  type.def("running_on", &Policy::running_on, nb::arg("node"));
  type.def("needs_samples", &Policy::needs_samples, nb::arg("device"));
}

void bind_events(nb::class_<Policy>& type) {
  type.def(
      "ready",
      [](Policy& self, OperationId operation, FlowId flow, std::optional<NodeId> node,
         uint64_t bytes, uint64_t now_ns) {
        return self.hear(policy::Ready{operation, flow, node_of(node), bytes}, now_ns);
      },
      nb::arg("operation"), nb::arg("flow"), nb::arg("node").none(), nb::arg("bytes"),
      nb::arg("now_ns"));
  type.def(
      "finished",
      [](Policy& self, OperationId operation, double seconds, uint64_t bytes, uint64_t now_ns) {
        return self.hear(policy::Finished{operation, seconds, bytes}, now_ns);
      },
      nb::arg("operation"), nb::arg("seconds"), nb::arg("bytes"), nb::arg("now_ns"));
  type.def(
      "failed",
      [](Policy& self, OperationId operation, uint64_t now_ns) {
        return self.hear(policy::Failed{operation}, now_ns);
      },
      nb::arg("operation"), nb::arg("now_ns"));
  type.def(
      "cancelled",
      [](Policy& self, OperationId operation, uint64_t now_ns) {
        return self.hear(policy::Cancelled{operation}, now_ns);
      },
      nb::arg("operation"), nb::arg("now_ns"));
  type.def(
      "sample",
      [](Policy& self, DeviceId device, NodeId node, double bytes_per_second, uint64_t now_ns,
         double seconds) {
        return self.hear(policy::Sample{device, node, bytes_per_second, seconds}, now_ns);
      },
      nb::arg("device"), nb::arg("node"), nb::arg("bytes_per_second"), nb::arg("now_ns"),
      nb::arg("seconds") = 1.0);
  type.def(
      "node_up",
      [](Policy& self, NodeId node, uint64_t now_ns) {
        return self.hear(policy::NodeUp{node}, now_ns);
      },
      nb::arg("node"), nb::arg("now_ns"));
  type.def(
      "node_down",
      [](Policy& self, NodeId node, uint64_t now_ns) {
        return self.hear(policy::NodeDown{node}, now_ns);
      },
      nb::arg("node"), nb::arg("now_ns"));
  type.def(
      "device_up",
      [](Policy& self, DeviceId device, NodeId node, uint64_t now_ns) {
        return self.hear(policy::DeviceUp{device, node}, now_ns);
      },
      nb::arg("device"), nb::arg("node"), nb::arg("now_ns"));
}

}  // namespace

void bind_policy(nb::module_& module) {
  bind_decisions(module);
  nb::class_<Policy> type(module, "Policy", nb::type_slots(policy_slots));
  bind_configuration(type);
  bind_events(type);

  nb::class_<policy::Replayed>(module, "Replayed")
      .def_ro("same", &policy::Replayed::same)
      .def_ro("line", &policy::Replayed::line)
      .def_ro("reason", &policy::Replayed::reason)
      .def_ro("events", &policy::Replayed::events)
      .def_ro("decisions", &policy::Replayed::decisions);
  module.def("replay", &replay, nb::arg("path"));
  module.def("sample_part", &policy::sample_part, nb::arg("samples"));
  module.def(
      "learned_from_curve",
      [](const std::vector<std::pair<double, double>>& curve) {
        return policy::Climber::learned_from(curve);
      },
      nb::arg("curve"));
}

}  // namespace ioweave::python

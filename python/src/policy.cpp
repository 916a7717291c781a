// The policy core for Python: events in, decisions out. Conversions only, decided is in src/policy.
//
// Words (scope, class, constraint, ...) are those of the event log. Every event is checked by
// Policy::accepts(), because the policy takes a wrong one for an error of the program and aborts.

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
#include "policy/constraint_text.hpp"
#include "policy/explanation.hpp"
#include "policy/words.hpp"

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

/// Reads a word of the configuration of `subject`, which an error names.
template <class Value>
void read_word(bool (*parse)(std::string_view, Value&, std::string&), const std::string& word,
               Value& value, const std::string& subject) {
  std::string why;
  if (!parse(word, value, why)) {
    refuse(subject + ": " + why);
  }
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
  DeviceConfig config;
  read_word(policy::parse_word, scope, config.scope, subject);
  read_word(policy::parse_word, scheduling, config.scheduling, subject);
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
  FlowConfig config;
  read_word(policy::parse_word, priority, config.priority, subject);
  read_word(policy::parse_constraint, constraint, config.constraint, subject);
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

void Policy::check_flow(FlowId flow) const {
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

std::pair<uint64_t, uint64_t> Policy::flow_counts(FlowId flow) {
  const Use use(*this);
  check_flow(flow);
  const policy::Counts counts = policy_.flow_counts(flow);
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
  check_flow(flow);
  return policy::to_json(policy_.explain(flow));
}

std::string Policy::learned(FlowId flow) {
  const Use use(*this);
  check_flow(flow);
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

/// A decision of two numbers, as a value of Python.
template <class Decided, class First, class Second>
void bind_decision(nb::module_& module, const char* name, const char* first_name,
                   First Decided::*first, const char* second_name, Second Decided::*second) {
  nb::class_<Decided> type(module, name);
  type.def(
      "__init__",
      [](Decided* self, First its_first, Second its_second) {
        new (self) Decided{its_first, its_second};
      },
      nb::arg(first_name), nb::arg(second_name));
  type.def_ro(first_name, first).def_ro(second_name, second).def(nb::self == nb::self);
  type.def("__hash__", [=](const Decided& self) {
    return nb::hash(nb::make_tuple(self.*first, self.*second));
  });
  type.def("__repr__", [=](const Decided& self) {
    return std::string(name) + "(" + first_name + "=" + std::to_string(self.*first) + ", " +
           second_name + "=" + std::to_string(self.*second) + ")";
  });
  type.attr("__match_args__") = nb::make_tuple(first_name, second_name);
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
  type.def("explain", &Policy::explain, nb::arg("flow"));
  type.def("learned", &Policy::learned, nb::arg("flow"));
  type.def_prop_ro("devices", [](Policy& self) { return self.ask(&policy::Policy::devices); });
  type.def_prop_ro("flows", [](Policy& self) { return self.ask(&policy::Policy::flows); });
  type.def_prop_ro("waiting",
                   [](Policy& self) { return self.ask<uint64_t>(&policy::Policy::waiting); });
  type.def_prop_ro("running", [](Policy& self) { return self.ask(&policy::Policy::running); });
  type.def("flow_counts", &Policy::flow_counts, nb::arg("flow"));
  type.def("running_on", &Policy::running_on, nb::arg("node"));
  type.def("needs_samples", &Policy::needs_samples, nb::arg("device"));
}

/// An event whose fields are the arguments.
template <class Told, class... Fields, class... Names>
void bind_event(nb::class_<Policy>& type, const char* what, Names... names) {
  type.def(
      what,
      [](Policy& self, Fields... fields, uint64_t now_ns) {
        return self.hear(Told{fields...}, now_ns);
      },
      nb::arg(names)..., nb::arg("now_ns"));
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
      "sample",
      [](Policy& self, DeviceId device, NodeId node, double bytes_per_second, uint64_t now_ns,
         double seconds) {
        return self.hear(policy::Sample{device, node, bytes_per_second, seconds}, now_ns);
      },
      nb::arg("device"), nb::arg("node"), nb::arg("bytes_per_second"), nb::arg("now_ns"),
      nb::arg("seconds") = 1.0);
  bind_event<policy::Finished, OperationId, double, uint64_t>(type, "finished", "operation",
                                                              "seconds", "bytes");
  bind_event<policy::Failed, OperationId>(type, "failed", "operation");
  bind_event<policy::Cancelled, OperationId>(type, "cancelled", "operation");
  bind_event<policy::NodeUp, NodeId>(type, "node_up", "node");
  bind_event<policy::NodeDown, NodeId>(type, "node_down", "node");
  bind_event<policy::DeviceUp, DeviceId, NodeId>(type, "device_up", "device", "node");
}

}  // namespace

void bind_policy(nb::module_& module) {
  bind_decision(module, "Start", "operation", &Start::operation, "node", &Start::node);
  bind_decision(module, "SetLimit", "flow", &SetLimit::flow, "limit", &SetLimit::limit);
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

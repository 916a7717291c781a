#include "module.hpp"

#include <nanobind/stl/string.h>

#include "base/machine.hpp"
#include "ioweave/ioweave.h"

NB_MODULE(_core, module) {
  // What lives as long as the interpreter does is no leak.
  nanobind::set_leak_warnings(false);
  module.def(
      "this_machine",
      [] {
        const ioweave::Machine machine = ioweave::this_machine();
        nanobind::dict facts;
        facts["host"] = machine.host;
        facts["kernel"] = machine.kernel;
        facts["architecture"] = machine.architecture;
        facts["processor"] = machine.processor;
        facts["cpus"] = machine.cpus;
        facts["cpus_allowed"] = machine.cpus_allowed;
        facts["memory_bytes"] = machine.memory_bytes;
        return facts;
      },
      "What a result means nothing without: host, kernel, architecture, processor, cpus, "
      "cpus_allowed, memory_bytes.");
  module.def("version", &iow_version_string, "The version of the library that runs.");
  ioweave::python::bind_config(module);
  ioweave::python::bind_device(module);
  ioweave::python::bind_policy(module);
  ioweave::python::bind_files(module);
  ioweave::python::bind_streams(module);
  ioweave::python::bind_spreads(module);
  ioweave::python::bind_read_streams(module);
  ioweave::python::bind_plans(module);
  ioweave::python::bind_gate(module);
  ioweave::python::bind_simulation(module);
  ioweave::python::bind_model(module);
}

#include "module.hpp"

#include "ioweave/ioweave.h"

NB_MODULE(_core, module) {
  // What lives as long as the interpreter does is no leak.
  nanobind::set_leak_warnings(false);
  module.def("version", &iow_version_string, "The version of the library that runs.");
  ioweave::python::bind_config(module);
  ioweave::python::bind_device(module);
  ioweave::python::bind_policy(module);
  ioweave::python::bind_files(module);
  ioweave::python::bind_gate(module);
  ioweave::python::bind_simulation(module);
  ioweave::python::bind_model(module);
}

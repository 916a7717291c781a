#include "module.hpp"

#include <string>

#include <nanobind/stl/string.h>

#include "base/shared_file_system.hpp"
#include "ioweave/ioweave.h"

NB_MODULE(_core, module) {
  // What lives as long as the interpreter does is no leak.
  nanobind::set_leak_warnings(false);
  module.def("version", &iow_version_string, "The version of the library that runs.");
  module.def(
      "is_shared_file_system",
      [](const std::string& type) { return ioweave::is_shared_file_system(type); },
      nanobind::arg("type"),
      "Whether several nodes use file systems of that type, as /proc/self/mountinfo has it, at "
      "once.");
  ioweave::python::bind_config(module);
  ioweave::python::bind_policy(module);
  ioweave::python::bind_files(module);
  ioweave::python::bind_simulation(module);
  ioweave::python::bind_model(module);
}

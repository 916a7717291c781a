// The overlap model for Python: conversions only, the formulas are in src/model.

#include <cstdint>
#include <string>

#include "model/overlap.hpp"
#include "module.hpp"

namespace ioweave::python {
namespace {

using model::Items;

void check_count(const char* what, uint32_t count) {
  if (count == 0) {
    throw nb::value_error((std::string(what) + " must be 1 or more").c_str());
  }
}

Items items_of(uint64_t count, double read_s, double compute_s, double write_s) {
  // Written so that NaN is refused, too.
  if (!(read_s >= 0 && compute_s >= 0 && write_s >= 0)) {
    throw nb::value_error("read_s, compute_s and write_s must not be negative");
  }
  return {count, read_s, compute_s, write_s};
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<Items> type(module, "Items");
  type.def(
      "__init__",
      [](Items* self, uint64_t count, double read_s, double compute_s, double write_s) {
        new (self) Items(items_of(count, read_s, compute_s, write_s));
      },
      nb::arg("count"), nb::kw_only(), nb::arg("read_s") = 0.0, nb::arg("compute_s") = 0.0,
      nb::arg("write_s") = 0.0);
  type.def_ro("count", &Items::count)
      .def_ro("read_s", &Items::read_s)
      .def_ro("compute_s", &Items::compute_s)
      .def_ro("write_s", &Items::write_s);
  type.def("synchronous_s", &model::synchronous_s)
      .def("prefetch_s", &model::prefetch_s)
      .def("hideable_read_s", &model::hideable_read_s)
      .def("one_device_bound_s", &model::one_device_bound_s)
      .def("separate_channels_s", &model::separate_channels_s);
  type.def(
      "write_behind_period_s",
      [](const Items& self, uint32_t buffers, uint32_t devices) {
        check_count("buffers", buffers);
        check_count("devices", devices);
        return model::write_behind_period_s(self, buffers, devices);
      },
      nb::arg("buffers"), nb::arg("devices") = 1);
  type.def(
      "write_behind_s",
      [](const Items& self, uint32_t buffers, uint32_t devices) {
        check_count("buffers", buffers);
        check_count("devices", devices);
        return model::write_behind_s(self, buffers, devices);
      },
      nb::arg("buffers"), nb::arg("devices") = 1);
  type.def(
      "processor_bound_s",
      [](const Items& self, double io_cpu_s, uint32_t cores) {
        check_count("cores", cores);
        return model::processor_bound_s(self, io_cpu_s, cores);
      },
      nb::arg("io_cpu_s"), nb::arg("cores"));
}

}  // namespace ioweave::python

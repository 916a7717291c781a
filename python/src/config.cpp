// [[device]] and [[node]] for Python: conversions only, src/config reads and checks.

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "base/nearest_name.hpp"
#include "config/description.hpp"
#include "config/layers.hpp"
#include "file.hpp"
#include "module.hpp"

namespace ioweave::python {
namespace {

using config::Fields;
using config::Value;

std::string text_of(nb::handle object) {
  const nb::bytes bytes = nb::steal<nb::bytes>(
      PyUnicode_AsEncodedString(object.ptr(), "utf-8", "surrogatepass"));  // refused by config
  if (!bytes.is_valid()) throw nb::python_error();
  return {bytes.c_str(), bytes.size()};
}

bool is_real(nb::handle object) {
  return nb::isinstance(object, nb::module_::import_("numbers").attr("Real"));
}

/// A number beyond the bounds of its type is infinite.
Value value_of(nb::handle object) {
  Value value;
  value.shown = text_of(nb::repr(object));
  if (PyUnicode_Check(object.ptr())) {
    value.is = text_of(object);
  } else if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) {
    auto& list = value.is.emplace<std::vector<Value>>();
    for (const nb::handle item : object) list.push_back(value_of(item));
  } else if (PyBool_Check(object.ptr())) {
    return value;
  } else if (const nb::object whole = nb::steal(PyNumber_Index(object.ptr())); whole.is_valid()) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
    if (overflow == 0) {
      value.is = int64_t{number};
    } else {
      value.is = overflow > 0 ? HUGE_VAL : -HUGE_VAL;
    }
  } else {
    PyErr_Clear();
    if (!is_real(object)) return value;
    const nb::object real = nb::steal(PyNumber_Float(object.ptr()));
    PyErr_Clear();
    value.is = real.is_valid() ? PyFloat_AsDouble(real.ptr()) : HUGE_VAL;
  }
  return value;
}

Fields fields_of(const nb::dict& settings) {
  Fields fields;
  for (const auto& [name, value] : settings) fields.emplace_back(text_of(name), value_of(value));
  return fields;
}

template <auto of>
void check(const nb::dict& settings) {
  std::string why;
  if (!of(fields_of(settings), why)) throw nb::value_error(why.c_str());
}

nb::dict settings_of(const config::Device& device) {
  nb::dict settings;
  settings["name"] = device.name;
  settings["path"] = device.path.empty() ? nb::none() : path_object(device.path);
  settings["bandwidth"] = device.mb_per_s;
  settings["scope"] = device.is_shared ? "shared" : "node";
  settings["max_in_flight"] = device.max_in_flight;
  settings["nodes"] = device.nodes;
  settings["curve"] = device.curve;
  return settings;
}

nb::dict settings_of(const config::Node& node) {
  nb::dict settings;
  settings["name"] = node.name;
  settings["count"] = node.count;
  settings["cores"] = node.cores;
  return settings;
}

template <typename What>
nb::list all_settings_of(const std::vector<What>& all) {
  nb::list list;
  for (const What& one : all) list.append(settings_of(one));
  return list;
}

std::vector<config::Layer> layers_of(const std::optional<std::filesystem::path>& file,
                                     const std::string& shown) {
  if (!file) {
    constexpr const char* kNoVariables[] = {nullptr};
    return config::all_layers({}, kNoVariables, config::config_places());
  }
  std::vector<config::Layer> layers;
  layers.push_back(config::file_layer(config::LayerKind::user, file->native(), shown, ""));
  if (layers[0].error != 0) raise_path_error(layers[0].error, file->native());
  return layers;
}

nb::tuple read_description(const std::optional<std::filesystem::path>& file,
                           const std::string& shown) {
  const std::vector<config::Layer> layers = layers_of(file, shown);
  for (const config::Layer& layer : layers) {
    if (!layer.malformed.empty()) throw nb::value_error(layer.malformed.c_str());
  }
  const config::Description found = config::describe(layers);
  if (!found.errors.empty()) throw nb::value_error(found.errors[0].c_str());
  return nb::make_tuple(all_settings_of(found.devices), all_settings_of(found.nodes),
                        found.warnings);
}

}  // namespace

void bind_config(nb::module_& module) {
  module.def("check_device", &check<&config::device_of>, nb::arg("settings"));
  module.def("check_node", &check<&config::node_of>, nb::arg("settings"));
  module.def("read_description", &read_description, nb::arg("file").none(), nb::arg("shown") = "");
  module.def(
      "is_one_of",
      [](const std::string& node, const std::vector<std::string>& globs) {
        return config::is_one_of(node, globs);
      },
      nb::arg("node"), nb::arg("globs"));
  module.def(
      "nearest_name",
      [](const std::string& name, const std::vector<std::string>& known) {
        const std::vector<std::string_view> views(known.begin(), known.end());
        return std::string(nearest_name(name, views));
      },
      nb::arg("name"), nb::arg("known"));
}

}  // namespace ioweave::python

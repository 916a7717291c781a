// Storage devices for Python: conversions only, src/device looks at them and keeps what was
// learned.

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "device/disk.hpp"
#include "device/learned.hpp"
#include "device/mounts.hpp"
#include "file.hpp"
#include "module.hpp"

namespace ioweave::python {
namespace {

using device::DiskCounter;
using Path = std::filesystem::path;

dev_t number_of(const Path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) raise_path_error(errno, path.native());
  return status.st_dev;
}

std::optional<DiskCounter> counter_of(dev_t number, const std::string& diskstats,
                                      const std::string& mountinfo) {
  const std::optional<dev_t> disk = device::disk_below(number, mountinfo.c_str());
  if (!disk) return std::nullopt;
  DiskCounter counter(*disk, diskstats);
  return counter.read() == -ENODEV ? std::nullopt : std::optional(std::move(counter));
}

bool turns(const Path& path, const std::string& mountinfo, const std::string& sys) {
  const std::optional<dev_t> disk = device::disk_below(number_of(path), mountinfo.c_str());
  return disk && device::is_rotational(*disk, sys);
}

nb::list all_mounts() {
  nb::list mounts;
  for (const device::Mount& mount : device::this_mounts()) {
    mounts.append(nb::make_tuple(mount.number, path_object(mount.path), mount.type,
                                 path_object(mount.source)));
  }
  return mounts;
}

nb::tuple mount_of(const Path& path, const std::string& mountinfo) {
  const std::vector<device::Mount> mounts = device::this_mounts(mountinfo.c_str());
  const device::Mount* const mount = device::mount_of(mounts, path.native());
  if (mount == nullptr) return nb::make_tuple("/", "", false);
  return nb::make_tuple(path_object(mount->path), mount->type,
                        device::is_shared_file_system(mount->type));
}

device::Learned read_learned(const Path& path) {
  device::Learned learned;
  std::string why;
  const int error = device::read_learned(path.native(), learned, why);
  if (error == -EBADMSG) throw nb::value_error(why.c_str());
  if (error != 0) raise_path_error(-error, path.native());
  return learned;
}

void write_learned(const Path& path, const device::Learned& learned) {
  const int error = device::write_learned(path.native(), learned);
  if (error != 0) raise_path_error(-error, path.native());
}

void bind_counters(nb::module_& module) {
  nb::class_<DiskCounter> counter(module, "DiskCounter");
  counter.def(
      "__init__",
      [](DiskCounter* self, unsigned major_number, unsigned minor_number,
         const std::string& diskstats) {
        new (self) DiskCounter(makedev(major_number, minor_number), diskstats);
      },
      nb::arg("major"), nb::arg("minor"), nb::arg("diskstats") = DiskCounter::kDiskstats);
  counter.def_static(
      "of_path",
      [](const Path& path) {
        return counter_of(number_of(path), DiskCounter::kDiskstats, device::kMountinfo);
      },
      nb::arg("path"));
  counter.def_static("of_device", &counter_of, nb::arg("number"),
                     nb::arg("diskstats") = DiskCounter::kDiskstats,
                     nb::arg("mountinfo") = device::kMountinfo);
  counter.def_prop_ro("identity", [](const DiskCounter& self) {
    return "disk " + std::to_string(major(self.disk())) + ":" + std::to_string(minor(self.disk()));
  });
  counter.def("read", [](const DiskCounter& self) {
    const int64_t bytes = self.read();
    if (bytes >= 0 || bytes == -ENODEV) return std::max<int64_t>(0, bytes);
    raise_path_error(static_cast<int>(-bytes), DiskCounter::kDiskstats);
  });
}

}  // namespace

void bind_device(nb::module_& module) {
  bind_counters(module);
  module.def("is_rotational", &turns, nb::arg("path"), nb::kw_only(),
             nb::arg("mountinfo") = device::kMountinfo, nb::arg("sys") = "/sys/dev/block");
  module.def("mounts", &all_mounts);
  module.def("mount_of", &mount_of, nb::arg("path"), nb::arg("mountinfo") = device::kMountinfo);
  module.def("read_learned", &read_learned, nb::arg("path"));
  module.def("write_learned", &write_learned, nb::arg("path"), nb::arg("learned"));
}

}  // namespace ioweave::python

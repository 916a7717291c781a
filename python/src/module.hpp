#pragma once

// ioweave._core: what each part of the compiled module adds to it.

#include <nanobind/nanobind.h>

namespace ioweave::python {

namespace nb = nanobind;

/// The policy core: Policy, its decisions, replay().
void bind_policy(nb::module_& module);
/// What ioweave.toml describes: devices and nodes.
void bind_config(nb::module_& module);
/// Disks, mounts, and the file of learned values.
void bind_device(nb::module_& module);
/// Clusters in virtual time: Simulation and its records. After bind_policy().
void bind_simulation(nb::module_& module);

/// The overlap model: Items.
void bind_model(nb::module_& module);
/// Services, open files, transfers.
void bind_files(nb::module_& module);
/// Write streams. After bind_files().
void bind_streams(nb::module_& module);
/// Spreads. After bind_streams().
void bind_spreads(nb::module_& module);
/// Read streams. After bind_files().
void bind_read_streams(nb::module_& module);
/// Plans. After bind_files().
void bind_plans(nb::module_& module);
/// Gate. After bind_policy() and bind_files().
void bind_gate(nb::module_& module);

}  // namespace ioweave::python

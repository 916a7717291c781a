#pragma once

// What policies learned about a flow on a device, kept for later runs in a JSON file:
//
//   {"kind": "ioweave-learned/1", "flows": [{"task": ..., "device": ..., "learned": ...}, ...]}
//
// The learned text is the policy's own (policy/learned_curve.hpp) and opaque here.

#include <map>
#include <string>
#include <utility>

namespace ioweave::device {

/// By task type, or the name of a flow, and device.
using Learned = std::map<std::pair<std::string, std::string>, std::string>;

/// Adds the values of the file, which need not exist yet. Returns 0; -errno, also if its folder
/// does not exist; or -EBADMSG with the reason in `why` if the file is not one of learned values.
[[nodiscard]] int read_learned(const std::string& path, Learned& learned, std::string& why);

/// Replaces the file as a whole, so that a reader finds the old values or the new ones. Returns 0
/// or -errno.
[[nodiscard]] int write_learned(const std::string& path, const Learned& learned);

}  // namespace ioweave::device

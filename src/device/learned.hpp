#pragma once

// What policies learned about a flow on a device, kept for the runs that follow: a file of JSON,
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

/// Adds what the file holds, which may not exist yet. 0; -errno, where its folder does not exist,
/// too; or -EBADMSG with, in `why`, why it is no such file.
[[nodiscard]] int read_learned(const std::string& path, Learned& learned, std::string& why);

/// Replaces the file as a whole, so that a reader finds the old values or the new ones. 0 or
/// -errno.
[[nodiscard]] int write_learned(const std::string& path, const Learned& learned);

}  // namespace ioweave::device

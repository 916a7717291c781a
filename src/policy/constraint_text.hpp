#pragma once

#include <string>
#include <string_view>

#include "policy/policy.hpp"

namespace ioweave::policy {

/// Constraints as text, in event logs and wherever people write them: none, fixed:20.5, auto:225
/// (I/O executors of a node), auto:2,256,2 (min, max in MB/s, delta), climb.
void append_constraint(std::string& out, const Constraint& constraint);

/// False, and in `why` what was expected, if `text` is none. Only the form is checked; bounds are
/// checked where the flow is added to its device.
[[nodiscard]] bool parse_constraint(std::string_view text, Constraint& constraint,
                                    std::string& why);

/// The words for people, of every interface: "none", MB/s as a number ("20"), "climb", "auto" and
/// "auto(min,max,delta)". `executors`: of "auto", which needs at least one. As parse_constraint().
[[nodiscard]] bool parse_constraint_words(std::string_view words, uint32_t executors,
                                          Constraint& constraint, std::string& why);

}  // namespace ioweave::policy

#pragma once

#include <string>
#include <string_view>

#include "policy/policy.hpp"

namespace ioweave::policy {

/// Settings with a few values, as the event log and every interface write them.
[[nodiscard]] std::string_view word_of(Scope scope);
[[nodiscard]] std::string_view word_of(Scheduling scheduling);
[[nodiscard]] std::string_view word_of(Class priority);

/// False, and in `why` the words that were expected, if `word` is none of them.
[[nodiscard]] bool parse_word(std::string_view word, Scope& scope, std::string& why);
[[nodiscard]] bool parse_word(std::string_view word, Scheduling& scheduling, std::string& why);
[[nodiscard]] bool parse_word(std::string_view word, Class& priority, std::string& why);

}  // namespace ioweave::policy

#pragma once

#include <string>
#include <string_view>

#include <sched.h>

namespace ioweave {

/// A set of processors, by the kernel's numbers; at most CPU_SETSIZE of them.
class Processors {
 public:
  /// None.
  Processors() noexcept { CPU_ZERO(&set_); }
  /// Those that the calling thread may use: its affinity, which a cpuset cgroup bounds.
  [[nodiscard]] static Processors allowed() noexcept;
  /// Reads a list as the kernel writes it: "0,2-5". False with a sentence in `why`.
  [[nodiscard]] static bool parse(std::string_view list, Processors& processors, std::string& why);

  [[nodiscard]] bool empty() const noexcept { return CPU_COUNT(&set_) == 0; }
  [[nodiscard]] bool has(unsigned processor) const noexcept {
    return processor < CPU_SETSIZE && CPU_ISSET(processor, &set_);
  }
  /// As parse() reads it.
  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] const cpu_set_t& raw() const noexcept { return set_; }

 private:
  cpu_set_t set_{};
};

}  // namespace ioweave

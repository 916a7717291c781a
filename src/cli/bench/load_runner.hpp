#pragma once

#include <memory>
#include <string>

#include "cli/bench/bench_file.hpp"
#include "device/profile.hpp"

namespace ioweave::cli {

/// Makes the transfers of a load. One thread.
class LoadRunner {
 public:
  LoadRunner() = default;
  virtual ~LoadRunner() = default;
  LoadRunner(const LoadRunner&) = delete;
  LoadRunner& operator=(const LoadRunner&) = delete;

  /// What makes them: "fio-3.33", "ioweave 0.1.0".
  [[nodiscard]] virtual std::string name() const = 0;

  /// Makes transfers of a file that has settled, for at most `seconds`, and at most once through
  /// the file. Those under way at that moment are waited for. On failure returns false and sets
  /// `why`.
  [[nodiscard]] virtual bool run(const BenchFile& file, const device::Load& load, double seconds,
                                 device::LoadSample& sample, std::string& why) = 0;
};

/// Our own engine (src/engine/), and plain system calls for psync.
[[nodiscard]] std::unique_ptr<LoadRunner> make_own_runner();

/// The program fio(1). Returns null where it cannot be started, with the reason in `why`.
[[nodiscard]] std::unique_ptr<LoadRunner> make_fio_runner(std::string& why);

}  // namespace ioweave::cli

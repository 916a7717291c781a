#pragma once

// A folder behind an emulated slow device (bench/slowfs), for tests of the command.

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <sys/stat.h>

#include "calls/preload/run.hpp"

namespace ioweave::cli::test {

/// Unmounted in the end.
class SlowDevice {
 public:
  /// `slowfs`: the program.
  explicit SlowDevice(std::string slowfs) : slowfs_(std::move(slowfs)) {
    mkdir((directory_ / "source").c_str(), 0700);
    mkdir(mount_point().c_str(), 0700);
  }
  ~SlowDevice() {
    while (mounted_ && is_unmounted()) {
      // Once more where a test that failed has mounted it twice.
    }
  }
  SlowDevice(const SlowDevice&) = delete;
  SlowDevice& operator=(const SlowDevice&) = delete;

  /// `more`: options of slowfs.
  [[nodiscard]] bool mount(unsigned mb_per_s = 400, unsigned latency_us = 200,
                           const std::string& more = "") {
    const std::string rate = std::to_string(mb_per_s);
    const std::string command = slowfs_ + " --read-mb-s " + rate + " --write-mb-s " + rate +
                                " --latency-us " + std::to_string(latency_us) + " " + more + " " +
                                (directory_ / "source") + " " + mount_point();
    mounted_ = std::system(command.c_str()) == 0;
    return mounted_;
  }
  [[nodiscard]] std::string file(uint64_t bytes, const std::string& name = "data.bin") const {
    testing::write_pattern(directory_ / ("source/" + name), bytes);
    return mount_point() + "/" + name;
  }
  /// A file of zeros that takes no room.
  [[nodiscard]] std::string sparse_file(uint64_t bytes, const std::string& name) const {
    const std::string path = directory_ / ("source/" + name);
    std::ofstream(path).close();
    std::filesystem::resize_file(path, bytes);
    return mount_point() + "/" + name;
  }
  [[nodiscard]] std::string mount_point() const { return directory_ / "slow"; }

 private:
  [[nodiscard]] bool is_unmounted() const {
    return std::system((slowfs_ + " --unmount " + mount_point() + " 2>&1").c_str()) == 0;
  }

  std::string slowfs_;
  testing::TemporaryDirectory directory_{true};
  bool mounted_ = false;
};

}  // namespace ioweave::cli::test

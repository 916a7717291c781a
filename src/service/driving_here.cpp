#include "service/driving_here.hpp"

#include <utility>

namespace ioweave::service {
namespace {

thread_local constinit bool drives_here = false;

}  // namespace

DrivingHere::DrivingHere() noexcept : before_(std::exchange(drives_here, true)) {}
DrivingHere::~DrivingHere() {
  drives_here = before_;
}
bool DrivingHere::any() noexcept {
  return drives_here;
}

}  // namespace ioweave::service

#pragma once

// How long a program takes whose items are unequal: the steps of a run that was observed, woven in
// another way. Pure, all times in seconds.
//
// It is a discrete simulation of one thread and its devices, item by item. For equal items it
// gives the times of overlap.hpp: tests/model/replay_test.cpp compares the two.

#include <cstdint>
#include <span>

namespace ioweave::model {

/// A step of a thread: it reads, computes and writes. Nothing is negative.
struct Step {
  double read_s = 0;      ///< of the device
  double read_bytes = 0;  ///< the room that it takes ahead of the thread
  double compute_s = 0;
  double write_s = 0;        ///< until the device has it; 0: nothing is written
  bool opens_input = false;  ///< it is not known before the thread comes there: the read of it and
                             ///< of later steps begins then
};

/// How the I/O of the steps is woven through their computation.
struct Weaving {
  /// Reads are made ahead of the thread, of at most so many bytes behind the step whose bytes it
  /// took last. 0: the thread reads by itself.
  double ahead_bytes = 0;
  /// `ahead_bytes` doubles up to this where the thread waits for what was asked for; 0: it stays.
  double most_ahead_bytes = 0;
  /// How long it takes until room that the thread made is used: who reads ahead looks now and then.
  double ahead_delay_s = 0;
  /// A step that writes fills one of so many buffers while the others are written. 1: the thread
  /// writes by itself.
  uint32_t buffers = 1;
  uint32_t write_devices = 1;  ///< written to in turn; they take one write at a time each
  bool one_device = false;     ///< reads and writes share the one device
};

/// Returns when the last step has ended and its result is written. Devices serve in order of
/// arrival; a read ahead arrives when the one before it has ended and there is room for it.
[[nodiscard]] double replay_s(std::span<const Step> steps, const Weaving& weaving);

}  // namespace ioweave::model

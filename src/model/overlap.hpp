#pragma once

// How long a program takes that treats equal items one after another: it reads each, computes on
// it, writes the result. One function for each way to weave these; pure, all times in seconds.
//
// R, C and W are the times of one item, n is their number. Each formula says whether it is exact or
// a bound, for times that do not vary; tests/model/overlap_test.cpp compares it with a simulation.
// Devices serve one transfer at a time, and only the I/O named in the formula is asynchronous.
//
// PPIS: "Pre-execution Data Prefetching with Inter-thread I/O Scheduling", section 3.3.
// Cube: "On the Impact of Asynchronous I/O on the Cube re-mapper at HPC Scale", "Modelling the
// solution's gain".

#include <cstdint>

namespace ioweave::model {

/// Times are not negative.
struct Items {
  uint64_t count = 0;    ///< n
  double read_s = 0;     ///< R
  double compute_s = 0;  ///< C
  double write_s = 0;    ///< W, until the device has it
};

/// Nothing overlaps: n (R + C + W). Exact; Cube, without R.
[[nodiscard]] double synchronous_s(const Items& items);

/// The next item is read during the computation, and writes are synchronous:
/// R + C + W + (n-1) (max(R, C) + W). Exact. As R = C and W = 0 the speed-up is 2n/(n+1), whose
/// limit of 2 is that of PPIS, equation 9.
[[nodiscard]] double prefetch_s(const Items& items);

/// The same where reads do not meet the writes, which are on another device:
/// R + C + W + (n-1) max(R, C + W). Exact.
[[nodiscard]] double prefetch_apart_s(const Items& items);

/// The part of the read time that computation can cover: all but the first item's, (n-1) R. That
/// is 1 - 1/n of it. `prefetch_s` saves all of this where C >= R.
[[nodiscard]] double hideable_read_s(const Items& items);

/// The period p of write-behind, max(F, W/N, (F + W)/d): how far apart items end in the long run
/// with d buffers and N devices. F = R + C is what the thread does itself; reads do not meet the
/// writes. The greatest term is what limits the program: the thread, the devices, the buffers.
/// `buffers` and `devices` are 1 or more; one buffer is filled while the others are written.
[[nodiscard]] double write_behind_period_s(const Items& items, uint32_t buffers,
                                           uint32_t devices = 1);

/// Results are written in turn to N devices while the thread fills the next of d buffers:
/// F + W + (n-1-r) p + r F, with r = (n-1) mod (d > N ? N : d). Exact for all d and N. From d = N+1
/// on, more buffers change nothing; d = 1 is synchronous.
///
/// F + W + (n-1) p is the formula of Cube, without R and for unlimited buffers. It is exact for
/// N = 1, else an upper bound: r (p - F) too long, at most W.
[[nodiscard]] double write_behind_s(const Items& items, uint32_t buffers, uint32_t devices = 1);

/// Prefetching and write-behind on one device, two buffers or more for each: at most
/// R + C + W + (n-1) max(C, R + W), where the device serves one read at a time and the writes in
/// order of arrival. At most C too long; exact where C >= R + W. It does not hold where reads, or
/// writes, always go first: the thread may then wait for the other kind.
[[nodiscard]] double one_device_bound_s(const Items& items);

/// Prefetching and write-behind, each on a channel of its own, two buffers or more for each:
/// R + C + W + (n-1) max(R, C, W). Exact. As R = C = W the speed-up is 3n/(n+2), whose limit is 3.
[[nodiscard]] double separate_channels_s(const Items& items);

/// No way to weave makes processor time of I/O disappear where the cores are full: at least
/// n (C + `io_cpu_s`) / cores, with the processor time that the I/O of one item takes. `cores` is 1
/// or more.
[[nodiscard]] double processor_bound_s(const Items& items, double io_cpu_s, uint32_t cores);

}  // namespace ioweave::model

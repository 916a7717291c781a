// Arithmetic on what was measured: statistics, bounds, speed-ups, advice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise.hpp"
#include "cell.hpp"
#include "compute.hpp"
#include "progress.hpp"

namespace tiom {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;

RunFigures run_of(double seconds, uint64_t bytes, uint64_t computes = 0) {
  RunFigures run;
  run.seconds = seconds;
  run.bytes = bytes;
  run.computes = computes;
  return run;
}

TEST(TiomStatistics, InterpolateBetweenNeighbours) {
  const Quartiles odd = quartiles({5, 1, 3, 2, 4});
  EXPECT_DOUBLE_EQ(odd.first, 2);
  EXPECT_DOUBLE_EQ(odd.median, 3);
  EXPECT_DOUBLE_EQ(odd.third, 4);
  const Quartiles even = quartiles({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(even.first, 1.75);
  EXPECT_DOUBLE_EQ(even.median, 2.5);
  EXPECT_DOUBLE_EQ(even.third, 3.25);
  EXPECT_DOUBLE_EQ(median({7}), 7);
}

TEST(TiomBound, IsTheLongerOfComputationAndDevice) {
  // 1000 units of 1 ms on 4 cores, and 100 MB at 200 MB/s.
  const Bound bound = bound_of(run_of(1, 100'000'000, 1000), 1'000'000, 4, 200);
  EXPECT_DOUBLE_EQ(bound.compute_s, 0.25);
  EXPECT_DOUBLE_EQ(bound.device_s, 0.5);
  EXPECT_DOUBLE_EQ(bound.seconds(), 0.5);
  EXPECT_TRUE(bound.by_device());
  EXPECT_DOUBLE_EQ(bound_of(run_of(1, 100'000'000, 4000), 1'000'000, 4, 200).seconds(), 1);
}

CellResult cell_of(std::vector<RunFigures> standalone, std::vector<RunFigures> blocking) {
  CellResult cell;
  cell.cell = {Mode::mix, 4096, 0};
  cell.probed_mb_per_s = 100;
  cell.variants = {{Variant::standalone, std::move(standalone)},
                   {Variant::blocking, std::move(blocking)}};
  return cell;
}

TEST(TiomBound, TakesTheBestBandwidthThatWasSeen) {
  const CellResult slower = cell_of({run_of(1, 50'000'000)}, {run_of(1, 80'000'000)});
  EXPECT_DOUBLE_EQ(bound_bandwidth(slower), 100);
  const CellResult faster = cell_of({run_of(1, 50'000'000)}, {run_of(1, 160'000'000)});
  EXPECT_DOUBLE_EQ(bound_bandwidth(faster), 160);
  // No run is beyond its bound.
  EXPECT_DOUBLE_EQ(summary_of(faster, faster.variants[1], 2).near_bound, 1);
  EXPECT_DOUBLE_EQ(summary_of(faster, faster.variants[0], 2).near_bound, 50.0 / 160);
}

TEST(TiomSpeedUp, IsThatOfPairs) {
  // The second pair ran while the device was slow; each pair doubles all the same.
  const CellResult cell = cell_of({run_of(1, 100), run_of(4, 100), run_of(1, 100)},
                                  {run_of(0.5, 100), run_of(2, 100), run_of(0.5, 100)});
  EXPECT_THAT(paired_speed_ups(cell, Variant::blocking),
              ElementsAre(DoubleEq(2), DoubleEq(2), DoubleEq(2)));
  EXPECT_TRUE(paired_speed_ups(cell, Variant::nonblocking).empty());
}

TEST(TiomSpeedUp, RatesALimitedRunByItsRate) {
  RunFigures limited = run_of(2, 50);  // half the bytes in twice the time
  limited.limited = true;
  const CellResult cell = cell_of({limited}, {run_of(1, 100)});
  EXPECT_THAT(paired_speed_ups(cell, Variant::blocking), ElementsAre(DoubleEq(4)));
  EXPECT_TRUE(summary_of(cell, cell.variants[0], 2).limited);
  EXPECT_FALSE(summary_of(cell, cell.variants[1], 2).limited);
}

TEST(TiomSpeedUp, IsWrittenAsPercentage) {
  EXPECT_EQ(speed_up_text(1.25), "+25 %");
  EXPECT_EQ(speed_up_text(0.8), "-20 %");
  EXPECT_EQ(speed_up_text(1), "0 %");
  EXPECT_EQ(speed_up_text(0.9996), "0 %");
  EXPECT_EQ(speed_up_text(25), "x25");
}

TEST(TiomProgress, CorrectsItsEstimateByWhatItSaw) {
  Progress progress(2, 100);
  EXPECT_DOUBLE_EQ(progress.seconds_left(), 100);
  progress.start_cell({}, 50, 2);
  progress.ran(run_of(50, 1));  // took twice the 25 expected
  EXPECT_DOUBLE_EQ(progress.seconds_left(), 150);
  EXPECT_EQ(waiting_text(40), "40s");
  EXPECT_EQ(waiting_text(200), "3m20s");
  EXPECT_EQ(waiting_text(18'600), "5h10m");
}

TEST(TiomCalibration, CountsTurnsInProportion) {
  Calibration calibration;
  calibration.turns_per_ms = 1000;
  EXPECT_EQ(calibration.turns(2'500'000), 2500u);
  EXPECT_EQ(calibration.turns(0), 0u);
}

TEST(TiomCalibration, LeavesOutWhatAnotherProgramTook) {
  // Pieces of 100 turns; one of them was off its core for a while.
  const Calibration measured = calibration_of(2, 100, {1000, 900, 1100, 50'000, 1000});
  EXPECT_EQ(measured.threads, 2u);
  EXPECT_DOUBLE_EQ(measured.turns_per_ms, 1e5);
  EXPECT_DOUBLE_EQ(measured.spread, 0.1) << "between the quartiles, as a part of the median";
}

TEST(TiomCalibration, MeasuresThisMachine) {
  const Calibration measured = calibrate(2, 0.06);
  EXPECT_EQ(measured.threads, 2u);
  // A turn is a multiplication and an addition that wait for each other: cycles, not microseconds,
  // on whatever core and beside whatever else.
  EXPECT_GT(measured.turns_per_ms, 1e3);
  EXPECT_LT(measured.turns_per_ms, 1e7);
  EXPECT_GE(measured.spread, 0);
  // A unit of 1 ms, checked: no processor gets five times as fast meanwhile.
  EXPECT_GT(measured.checked_ms, 0.2);
}

AdviceInput input_of(Mode mode, uint64_t block, double compute_us) {
  AdviceInput input;
  input.cell = {mode, block, static_cast<uint64_t>(compute_us * 1e3)};
  input.series = 128;
  input.cores = 4;
  input.latency_alone_us = 100;
  input.latency_workers_us = 200;
  input.mb_per_s_deep = 1000;
  input.overhead_us = 5;
  return input;
}

TEST(TiomAdvice, SaysYesWhereWaitingCanBeHidden) {
  const Advice advice = advise(input_of(Mode::mix, 65536, 300));
  EXPECT_TRUE(advice.worth_it);
  EXPECT_EQ(advice.task_aware_limit, Limit::compute);
  EXPECT_DOUBLE_EQ(advice.task_aware_us, (300 + 5) / 4.0);
  EXPECT_GT(advice.waiting_us, 100);
  EXPECT_LT(advice.waiting_us, 200);
  EXPECT_DOUBLE_EQ(advice.standalone_us, (300 + advice.waiting_us) / 4);
}

TEST(TiomAdvice, SaysNoWhereComputationDominates) {
  const Advice advice = advise(input_of(Mode::mix, 4096, 100'000));
  EXPECT_FALSE(advice.worth_it);
  EXPECT_THAT(reason_of(advice), HasSubstr("Computation dominates"));
}

TEST(TiomAdvice, SaysNoWhereTheDeviceIsSaturated) {
  AdviceInput input = input_of(Mode::mix, 1 << 20, 10);
  input.mb_per_s_deep = 1000;  // 1049 us for each block, against (10 + 200) / 4
  const Advice advice = advise(input);
  EXPECT_FALSE(advice.worth_it);
  EXPECT_EQ(advice.standalone_limit, Limit::device);
  EXPECT_DOUBLE_EQ(advice.speed_up, 1);
  EXPECT_THAT(reason_of(advice), HasSubstr("saturated already"));
}

TEST(TiomAdvice, SaysNoWhereThereIsNothingElseToRun) {
  AdviceInput input = input_of(Mode::mix, 4096, 300);
  input.series = 1;
  const Advice advice = advise(input);
  EXPECT_FALSE(advice.worth_it);
  EXPECT_THAT(reason_of(advice), HasSubstr("series (1)"));
}

TEST(TiomAdvice, CountsTheComputationOfEachMode) {
  // fjio has a quarter of a unit for each I/O, fjc four.
  EXPECT_DOUBLE_EQ(advise(input_of(Mode::fjio, 4096, 400)).task_aware_us, (100 + 5) / 4.0);
  EXPECT_DOUBLE_EQ(advise(input_of(Mode::fjc, 4096, 400)).task_aware_us, (1600 + 5) / 4.0);
}

TEST(TiomAdvice, WaitsAsLongAsTheOthersAreInCallsToo) {
  EXPECT_NEAR(waiting_time_us(input_of(Mode::mix, 4096, 0), 0), 200, 1e-6);
  EXPECT_NEAR(waiting_time_us(input_of(Mode::mix, 4096, 0), 1e9), 100, 1e-3);
}

TEST(TiomAdvice, NamesTheInterfaceOfEachRuntime) {
  EXPECT_THAT(interface_for(RuntimeKind::openmp), HasSubstr("ioweave/openmp.h"));
  EXPECT_THAT(interface_for(RuntimeKind::tbb), HasSubstr("IOW_TASKS_TBB"));
  EXPECT_THAT(interface_for(RuntimeKind::alpi), HasSubstr("iow_ta_pread"));
  EXPECT_THAT(interface_for(RuntimeKind::coroutine), HasSubstr("co_await"));
  EXPECT_THAT(interface_for(RuntimeKind::threads), HasSubstr("iow_submit"));
}

}  // namespace
}  // namespace tiom

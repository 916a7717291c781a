#include "series.hpp"

#include <algorithm>
#include <array>

namespace tiom {
namespace {

// Section 5.1 of the TASIO paper; its fork-join modes are four wide.
constexpr std::array<Stage, 1> kMix{{{true, true, 1}}};
constexpr std::array<Stage, 2> kOneToOne{{{true, false, 1}, {false, true, 1}}};
constexpr std::array<Stage, 2> kForkJoinIo{{{true, false, 1}, {false, true, 4}}};
constexpr std::array<Stage, 2> kForkJoinCompute{{{true, false, 4}, {false, true, 1}}};

unsigned sum_of_widths(Mode mode, bool Stage::*kind) {
  unsigned sum = 0;
  for (const Stage& stage : stages_of(mode)) sum += stage.*kind ? stage.width : 0;
  return sum;
}

}  // namespace

std::string_view mode_name(Mode mode) {
  constexpr std::array<std::string_view, 4> kNames{"mix", "1to1", "fjio", "fjc"};
  return kNames[static_cast<size_t>(mode)];
}

std::span<const Stage> stages_of(Mode mode) {
  switch (mode) {
    case Mode::mix:
      return kMix;
    case Mode::one_to_one:
      return kOneToOne;
    case Mode::fjio:
      return kForkJoinIo;
    case Mode::fjc:
      return kForkJoinCompute;
  }
  return {};
}

unsigned ios_per_cycle(Mode mode) {
  return sum_of_widths(mode, &Stage::io);
}

unsigned computes_per_cycle(Mode mode) {
  return sum_of_widths(mode, &Stage::compute);
}

unsigned io_width(Mode mode) {
  unsigned widest = 0;
  for (const Stage& stage : stages_of(mode)) {
    if (stage.io) widest = std::max(widest, stage.width);
  }
  return widest;
}

unsigned stage_width(Mode mode) {
  return std::ranges::max_element(stages_of(mode), {}, &Stage::width)->width;
}

}  // namespace tiom

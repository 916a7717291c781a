#include "stats/mpiio_report.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "config/names.hpp"

namespace ioweave::stats {
namespace {

using Json = nlohmann::json;

/// Of reasons, which are few: another program writes them.
constexpr size_t kMostReasons = 32;

uint64_t number_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

double ratio_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::max(found->get<double>(), 0.0) : 0;
}

std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

/// Takes a value into a range whose ends are 0 while there is none.
template <class Number>
void widen(Number value, Number& least, Number& most) {
  if (value <= 0) return;
  least = least > 0 ? std::min(least, value) : value;
  most = std::max(most, value);
}

void add_reasons(const Json& line, MpiioReport& mpiio) {
  const auto left_alone = line.find("left_alone");
  if (left_alone != line.end() && left_alone->is_object()) {
    for (const auto& [reason, count] : left_alone->items()) {
      if (!count.is_number_unsigned() || count.get<uint64_t>() == 0) continue;
      if (mpiio.left_alone.size() < kMostReasons) mpiio.left_alone[reason] += count.get<uint64_t>();
    }
  }
  std::string why = text_in(line, "why");
  const bool is_known = std::ranges::find(mpiio.why, why) != mpiio.why.end();
  if (!why.empty() && !is_known && mpiio.why.size() < kMostReasons) {
    mpiio.why.push_back(std::move(why));
  }
}

void add_rank(const Json& line, MpiioReport& mpiio) {
  ++mpiio.ranks;
  mpiio.settled_ranks += number_in(line, "is_settled") != 0 ? 1 : 0;
  const size_t schedule = config::index_of(config::kScheduleNames, text_in(line, "schedule"));
  if (schedule < mpiio.schedules.size()) ++mpiio.schedules[schedule];
  widen(number_in(line, "depth"), mpiio.least_depth, mpiio.most_depth);
  widen(ratio_in(line, "gain_of_two"), mpiio.least_gain_of_two, mpiio.most_gain_of_two);
  for (const MpiioCount& count : kMpiioCounts) mpiio.*count.value += number_in(line, count.name);
  add_reasons(line, mpiio);
}

}  // namespace

void add_mpiio_lines(std::string_view lines, RunReport& report) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const Json line = Json::parse(lines.substr(0, end), nullptr, /*allow_exceptions=*/false);
    if (line.is_object() && line.contains("rank")) add_rank(line, report.mpiio);
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  if (report.mpiio.ahead_bytes == 0) return;
  if (report.engine.empty()) report.engine = "page-cache prefetch";
  // Nobody compares the ranks' paces with and without reads ahead.
  if (report.totals.prefetch_operations == 0) report.totals.hidden_is_known = false;
}

}  // namespace ioweave::stats

#include "device/curve.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

namespace ioweave::device {
namespace {

constexpr double kAsGoodAsTheBest = 0.97;  // the policy `climb` goes up for 3 % and more
constexpr size_t kLeastSamplesOfADrift = 6;
constexpr size_t kLeastEntriesOfAChange = 8;

/// The non-decreasing values next to the given ones: neighbours in the wrong order become their
/// mean, until there are none.
std::vector<double> ascending(std::span<const double> values) {
  struct Pool {
    double sum;
    size_t count;
    [[nodiscard]] double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Pool> pools;
  for (const double value : values) {
    pools.push_back({value, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() >= pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  std::vector<double> fitted;
  for (const Pool& pool : pools) fitted.insert(fitted.end(), pool.count, pool.mean());
  return fitted;
}

std::vector<double> descending(std::span<const double> values) {
  std::vector<double> mirrored(values.rbegin(), values.rend());
  mirrored = ascending(mirrored);
  return {mirrored.rbegin(), mirrored.rend()};
}

double squared_distance(std::span<const double> left, std::span<const double> right) {
  double sum = 0;
  for (size_t i = 0; i < left.size(); ++i) sum += (left[i] - right[i]) * (left[i] - right[i]);
  return sum;
}

std::map<unsigned, std::vector<double>> rates_by_streams(std::span<const Sample> samples) {
  std::map<unsigned, std::vector<double>> rates;
  for (const Sample& sample : samples) rates[sample.streams].push_back(sample.mb_per_s());
  return rates;
}

/// Bytes until a moment, as if each entry's had flowed evenly since the one before.
double moved_by(std::span<const Durable> log, double at_s) {
  double bytes = 0;
  double from_s = 0;
  for (const Durable& entry : log) {
    const double span_s = entry.at_s - from_s;
    const double part = span_s > 0 ? std::clamp((at_s - from_s) / span_s, 0.0, 1.0) : 1;
    bytes += part * static_cast<double>(entry.bytes);
    from_s = entry.at_s;
    if (part < 1) break;
  }
  return bytes;
}

bool take_number(std::string_view& text, unsigned most, unsigned& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 1 || number > most) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<Sample> take_samples(
    const SamplePlan& plan, std::mt19937_64& random,
    const std::function<bool(unsigned streams, Sample& sample)>& take) {
  std::vector<Sample> samples;
  std::vector<unsigned> order = plan.streams;
  for (unsigned repetition = 0; repetition < plan.repetitions; ++repetition) {
    std::ranges::shuffle(order, random);
    for (const unsigned streams : order) {
      Sample sample;
      if (!take(streams, sample)) return samples;
      sample.streams = streams;
      sample.repetition = repetition;
      samples.push_back(sample);
    }
  }
  return samples;
}

std::vector<double> fitted_to_one_peak(std::span<const double> values) {
  std::vector<double> best;
  double least = std::numeric_limits<double>::infinity();
  for (size_t rising = 1; rising <= values.size(); ++rising) {
    // The peak is the last of those that rise or the first of those that fall: what is best for
    // either part by itself has one peak as a whole.
    std::vector<double> fitted = ascending(values.first(rising));
    const std::vector<double> falling = descending(values.subspan(rising));
    fitted.insert(fitted.end(), falling.begin(), falling.end());
    const double distance = squared_distance(fitted, values);
    if (distance < least) {
      least = distance;
      best = std::move(fitted);
    }
  }
  return best;
}

DeviceCurve curve_of(std::span<const Sample> samples) {
  DeviceCurve curve;
  std::vector<double> medians;
  for (const auto& [streams, rates] : rates_by_streams(samples)) {
    const auto [lowest, highest] = std::ranges::minmax(rates);
    medians.push_back(median_of(rates));
    curve.points.push_back({streams, lowest, medians.back(), highest, 0});
  }
  const std::vector<double> fitted = fitted_to_one_peak(medians);
  for (size_t i = 0; i < fitted.size(); ++i) curve.points[i].fitted = fitted[i];
  curve.peak_mb_per_s = std::ranges::max(fitted);
  curve.best_streams = std::ranges::find_if(curve.points, [&](const CurvePoint& point) {
                         return point.fitted >= kAsGoodAsTheBest * curve.peak_mb_per_s;
                       })->streams;
  return curve;
}

double drift_of(std::span<const Sample> samples) {
  std::map<unsigned, double> medians;
  bool repeated = false;
  for (const auto& [streams, rates] : rates_by_streams(samples)) {
    medians[streams] = median_of(rates);
    repeated = repeated || rates.size() > 1;
  }
  if (samples.size() < kLeastSamplesOfADrift || !repeated) return 1;
  std::vector<Sample> in_time(samples.begin(), samples.end());
  std::ranges::sort(in_time, {}, &Sample::start_s);
  std::vector<double> rated;
  rated.reserve(in_time.size());
  for (const Sample& sample : in_time) rated.push_back(sample.mb_per_s() / medians[sample.streams]);
  const auto third = static_cast<std::ptrdiff_t>(rated.size() / 3);
  return median_of({rated.end() - third, rated.end()}) /
         median_of({rated.begin(), rated.begin() + third});
}

double change_of(std::span<const Durable> log) {
  if (log.size() < kLeastEntriesOfAChange) return 1;
  const double end_s = log.back().at_s;
  const double first = moved_by(log, end_s / 4);
  const double last = moved_by(log, end_s) - moved_by(log, end_s * 3 / 4);
  return first > 0 ? last / first : 1;
}

std::vector<unsigned> doubling_to(unsigned most) {
  std::vector<unsigned> streams;
  for (unsigned number = 1; number < most; number *= 2) streams.push_back(number);
  streams.push_back(most);
  return streams;
}

std::vector<unsigned> parse_streams(std::string_view text, unsigned most, std::string& why) {
  const std::string whole(text);
  std::vector<unsigned> streams;
  for (bool more = true; more;) {
    unsigned first = 0;
    bool good = take_number(text, most, first);
    unsigned last = first;
    if (good && text.starts_with('-')) {
      text.remove_prefix(1);
      good = take_number(text, most, last) && first <= last;
    }
    if (!good || (!text.empty() && !text.starts_with(','))) {
      why = "streams '" + whole + "' are no list of whole numbers from 1 to " +
            std::to_string(most) + " such as 1,2,4,8 or 1-16";
      return {};
    }
    for (unsigned number = first; number <= last; ++number) streams.push_back(number);
    more = !text.empty();
    if (more) text.remove_prefix(1);
  }
  std::ranges::sort(streams);
  streams.erase(std::ranges::unique(streams).begin(), streams.end());
  return streams;
}

}  // namespace ioweave::device

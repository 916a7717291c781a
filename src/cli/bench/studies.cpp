#include "cli/bench/studies.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <set>
#include <span>

#include "base/nearest_name.hpp"
#include "cli/format.hpp"

namespace ioweave::cli {
namespace {

using device::IoWay;
using device::Load;

constexpr uint64_t kSmallBlock = 4096;      ///< of the study of depths, beside the usual block
constexpr uint64_t kLargeBlock = 1u << 20;  ///< the same
constexpr uint64_t kLeastBlock = 512;
constexpr uint64_t kMostBlock = uint64_t{1} << 30;
constexpr uint64_t kMostMemory = uint64_t{1} << 30;  ///< of the transfers under way
constexpr uint64_t kLeastFile = 1u << 20;
constexpr uint64_t kMostFile = uint64_t{1} << 40;
constexpr unsigned kMostDepth = 4096;
constexpr uint64_t kStep = 4;  ///< "4k-64m" is 4k, 16k, 64k, ...

constexpr std::array<std::string_view, 4> kStudies{"share", "block", "pattern", "depth"};
constexpr std::array<std::string_view, 2> kCaches{"buffered", "direct"};
constexpr std::array<std::string_view, 2> kPatterns{"sequential", "random"};

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (;;) {
    const size_t comma = text.find(',');
    words.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return words;
    text.remove_prefix(comma + 1);
  }
}

// ---- The words of the command line --------------------------------------------------------------

/// Takes names of a list into their places in `known`, each once. Returns the mistake.
template <typename Value>
std::string take_names(const std::string& text, std::string_view what,
                       std::span<const std::string_view> known, std::vector<Value>& values) {
  values.clear();
  for (size_t i = 0; text.empty() && i < known.size(); ++i) values.push_back(Value(i));
  for (const std::string_view word : words_of(text)) {
    if (text.empty()) break;
    const auto found = std::ranges::find(known, word);
    if (found == known.end()) {
      std::string mistake = "there is no " + std::string(what) + " '" + std::string(word) + "'";
      const std::string_view nearest = nearest_name(word, known);
      if (!nearest.empty()) return mistake + "; did you mean '" + std::string(nearest) + "'?";
      mistake += "; known are";
      for (const std::string_view name : known) {
        mistake += (name == known.front() ? " " : ", ") + std::string(name);
      }
      return mistake;
    }
    const auto value = Value(found - known.begin());
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
  }
  return {};
}

std::optional<uint64_t> parse_count(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

using Parse = std::function<std::optional<uint64_t>(std::string_view)>;

/// Appends the numbers of "A" or "A-B"; false where it is neither, or not within the bounds.
bool add_range(std::string_view word, const Parse& parse, uint64_t least, uint64_t most,
               std::vector<uint64_t>& numbers) {
  const size_t dash = word.find('-');
  const auto first = parse(word.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse(word.substr(dash + 1));
  if (!first || !last || *first < least || *last > most || *first > *last) return false;
  for (uint64_t number = *first; number < *last; number *= kStep) {
    numbers.push_back(number);
    if (number == 0) break;
  }
  numbers.push_back(*last);
  return true;
}

/// The numbers of a list, ascending; none where one is wrong.
std::vector<uint64_t> parse_list(std::string_view text, const Parse& parse, uint64_t least,
                                 uint64_t most) {
  std::vector<uint64_t> numbers;
  for (const std::string_view word : words_of(text)) {
    if (!add_range(word, parse, least, most, numbers)) return {};
  }
  std::ranges::sort(numbers);
  numbers.erase(std::ranges::unique(numbers).begin(), numbers.end());
  return numbers;
}

std::string take_blocks(const BenchWords& words, BenchOptions& options) {
  const auto parse = [](std::string_view text) { return config::parse_size(text); };
  options.blocks =
      parse_list(words.blocks.empty() ? "4k-64m" : words.blocks, parse, kLeastBlock, kMostBlock);
  const bool whole =
      std::ranges::all_of(options.blocks, [](uint64_t bytes) { return bytes % kLeastBlock == 0; });
  if (options.blocks.empty() || !whole) {
    return "blocks '" + words.blocks +
           "' must be a list of multiples of 512 up to 1g, such as 4k,1m or 4k-64m (times four)";
  }
  const auto block = words.block.empty() ? options.block_bytes : config::parse_size(words.block);
  if (!block || *block < kLeastBlock || *block > kMostBlock || *block % kLeastBlock != 0) {
    return "block '" + words.block + "' must be a multiple of 512 up to 1g, such as 256k";
  }
  options.block_bytes = *block;
  return {};
}

std::string take_numbers(const BenchWords& words, BenchOptions& options) {
  const std::vector<uint64_t> shares = parse_list(
      words.read_percents.empty() ? "0,25,50,75,100" : words.read_percents, parse_count, 0, 100);
  if (shares.empty()) {
    return "read shares '" + words.read_percents +
           "' must be a list of per cent from 0 to 100, such as 0,50,100";
  }
  options.read_percents.assign(shares.begin(), shares.end());
  const std::vector<uint64_t> depths =
      parse_list(words.depths.empty() ? "1-64" : words.depths, parse_count, 1, kMostDepth);
  if (depths.empty()) {
    return "depths '" + words.depths +
           "' must be a list of numbers from 1 to 4096, such as 1,8 or 1-64 (times four)";
  }
  options.depths.assign(depths.begin(), depths.end());
  const auto size = words.size.empty() ? options.file_bytes : config::parse_size(words.size);
  if (!size || *size < kLeastFile || *size > kMostFile || *size % kSmallBlock != 0) {
    return "size '" + words.size + "' must be a multiple of 4k from 1m to 1t, such as 1g";
  }
  options.file_bytes = *size;
  return {};
}

// ---- The loads ----------------------------------------------------------------------------------

class LoadList {
 public:
  LoadList(const BenchOptions& options, uint64_t file_bytes, bool read_only)
      : options_(options), file_bytes_(file_bytes), read_only_(read_only) {}

  /// Adds a load by every way, as far as it can be.
  void add(bool random, unsigned read_percent, uint64_t block_bytes, unsigned depth) {
    for (const bool direct : options_.direct) {
      for (const IoWay way : options_.ways) {
        const Load load{way, direct, random, read_percent, block_bytes, depth};
        if (can_be(load) && std::ranges::find(loads, load) == loads.end()) loads.push_back(load);
      }
    }
  }

  std::vector<Load> loads;

 private:
  [[nodiscard]] bool can_be(const Load& load) const {
    if (load.way == IoWay::psync && load.depth > 1) return false;
    if (load.way == IoWay::iopoll && !load.direct) return false;
    if (load.block_bytes > file_bytes_) return false;
    if (load.block_bytes * load.depth > kMostMemory) return false;
    return !read_only_ || load.read_percent == 100;
  }

  const BenchOptions& options_;
  const uint64_t file_bytes_;
  const bool read_only_;
};

void add_study(Study study, const BenchOptions& options, LoadList& list) {
  switch (study) {
    case Study::share:
      for (const unsigned share : options.read_percents) {
        list.add(false, share, options.block_bytes, 1);
      }
      return;
    case Study::block:
      for (const uint64_t block : options.blocks) {
        for (const unsigned share : {0u, 100u}) list.add(false, share, block, 1);
      }
      return;
    case Study::pattern:
      for (const bool random : options.random) {
        for (const unsigned share : {0u, 50u, 100u}) {
          list.add(random, share, options.block_bytes, 1);
        }
      }
      return;
    case Study::depth:
      for (const uint64_t block : {kSmallBlock, options.block_bytes, kLargeBlock}) {
        for (const unsigned depth : options.depths) {
          for (const unsigned share : {0u, 100u}) list.add(true, share, block, depth);
        }
      }
      return;
  }
}

void add_all(const BenchOptions& options, LoadList& list) {
  for (const bool random : options.random) {
    for (const unsigned share : options.read_percents) {
      for (const uint64_t block : options.blocks) {
        for (const unsigned depth : options.depths) list.add(random, share, block, depth);
      }
    }
  }
}

// ---- Views --------------------------------------------------------------------------------------

std::string direction_text(unsigned read_percent) {
  if (read_percent == 0) return "writes";
  if (read_percent == 100) return "reads";
  return "transfers, " + std::to_string(read_percent) + " % of them reads,";
}

std::string cache_text(bool direct) {
  return direct ? "O_DIRECT" : "through the page cache";
}

std::string depth_text(unsigned depth) {
  return depth == 1 ? "one at a time" : std::to_string(depth) + " at a time";
}

class ViewList {
 public:
  explicit ViewList(const device::Profile& profile) : profile_(profile) {}

  /// Keeps the rows that some way has; adds the view where they are two and more.
  void add(View view) {
    View kept = view;
    kept.names.clear();
    kept.rows.clear();
    for (size_t i = 0; i < view.rows.size(); ++i) {
      if (!has(view.rows[i])) continue;
      kept.names.push_back(view.names[i]);
      kept.rows.push_back(view.rows[i]);
    }
    if (kept.rows.size() >= 2) views.push_back(std::move(kept));
  }

  std::vector<View> views;

 private:
  [[nodiscard]] bool has(Load load) const {
    return std::ranges::any_of(device::kIoWays, [&](IoWay way) {
      load.way = way;
      return device::result_of(profile_, load) != nullptr;
    });
  }

  const device::Profile& profile_;
};

/// The values of one member of the loads, ascending.
template <typename Member>
std::vector<Member> values_of(const device::Profile& profile, Member Load::*member) {
  std::vector<Member> values;
  values.reserve(profile.results.size());
  for (const device::LoadResult& result : profile.results) values.push_back(result.load.*member);
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
  return values;
}

void add_share_views(const device::Profile& profile, bool direct, ViewList& list) {
  for (const bool reads : {false, true}) {
    View view;
    view.study = Study::share;
    view.direct = direct;
    view.axis = "reads";
    view.title = (reads ? "MB/s read" : "MB/s written") +
                 (" by sequential transfers of " + block_text(profile.block_bytes)) + ", " +
                 cache_text(direct) + ", one at a time";
    view.value = reads ? &device::LoadResult::read_mb_per_s : &device::LoadResult::write_mb_per_s;
    for (const unsigned share : values_of(profile, &Load::read_percent)) {
      if (share == (reads ? 0 : 100)) continue;
      view.names.push_back(std::to_string(share) + " %");
      view.rows.push_back({IoWay::psync, direct, false, share, profile.block_bytes, 1});
    }
    list.add(view);
  }
}

void add_block_views(const device::Profile& profile, bool direct, ViewList& list) {
  for (const unsigned share : {0u, 100u}) {
    View view;
    view.study = Study::block;
    view.direct = direct;
    view.axis = "block";
    view.title = "MB/s of sequential " + direction_text(share) + ", " + cache_text(direct) +
                 ", one at a time";
    for (const uint64_t block : values_of(profile, &Load::block_bytes)) {
      view.names.push_back(block_text(block));
      view.rows.push_back({IoWay::psync, direct, false, share, block, 1});
    }
    list.add(view);
  }
}

void add_pattern_view(const device::Profile& profile, bool direct, ViewList& list) {
  View view;
  view.study = Study::pattern;
  view.direct = direct;
  view.axis = "pattern";
  view.title = "MB/s of transfers of " + block_text(profile.block_bytes) + ", " +
               cache_text(direct) + ", one at a time";
  for (const unsigned share : {0u, 50u, 100u}) {
    for (const bool random : {false, true}) {
      const std::string what = share == 0 ? "writes" : share == 100 ? "reads" : "half reads";
      view.names.push_back((random ? "random " : "sequential ") + what);
      view.rows.push_back({IoWay::psync, direct, random, share, profile.block_bytes, 1});
    }
  }
  const auto has = [&](bool random) {
    return std::ranges::any_of(profile.results, [&](const device::LoadResult& result) {
      const Load& load = result.load;
      return load.random == random && load.direct == direct && load.depth == 1 &&
             load.block_bytes == profile.block_bytes;
    });
  };
  if (has(false) && has(true)) list.add(view);
}

void add_depth_views(const device::Profile& profile, bool direct, ViewList& list) {
  for (const uint64_t block : std::set{kSmallBlock, profile.block_bytes, kLargeBlock}) {
    for (const unsigned share : {100u, 0u}) {
      View view;
      view.study = Study::depth;
      view.direct = direct;
      view.axis = "depth";
      view.title = "MB/s of random " + direction_text(share) + " of " + block_text(block) + ", " +
                   cache_text(direct);
      for (const unsigned depth : values_of(profile, &Load::depth)) {
        view.names.push_back(std::to_string(depth));
        view.rows.push_back({IoWay::psync, direct, true, share, block, depth});
      }
      list.add(view);
    }
  }
}

}  // namespace

std::string take_studies(const BenchWords& words, BenchOptions& options) {
  std::string mistake = take_names(words.studies, "study", kStudies, options.studies);
  std::array<std::string_view, device::kIoWays.size()> ways;
  std::ranges::transform(device::kIoWays, ways.begin(), device::way_name);
  if (mistake.empty()) mistake = take_names(words.ways, "way", ways, options.ways);
  if (mistake.empty()) mistake = take_names(words.cache, "cache", kCaches, options.direct);
  if (mistake.empty()) mistake = take_names(words.patterns, "pattern", kPatterns, options.random);
  if (mistake.empty()) mistake = take_blocks(words, options);
  if (mistake.empty()) mistake = take_numbers(words, options);
  if (mistake.empty() && options.all && !words.studies.empty()) {
    mistake = "--all measures every combination; leave out --study";
  }
  return mistake;
}

std::vector<Load> planned_loads(const BenchOptions& options, uint64_t file_bytes, bool read_only) {
  LoadList list(options, file_bytes, read_only);
  if (options.all) {
    add_all(options, list);
  } else {
    for (const Study study : options.studies) add_study(study, options, list);
  }
  return list.loads;
}

std::vector<View> views_of(const device::Profile& profile) {
  ViewList list(profile);
  for (const bool direct : {true, false}) {
    add_share_views(profile, direct, list);
    add_block_views(profile, direct, list);
    add_pattern_view(profile, direct, list);
    add_depth_views(profile, direct, list);
  }
  return list.views;
}

std::string load_text(const Load& load) {
  return std::string(load.random ? "random " : "sequential ") + direction_text(load.read_percent) +
         " of " + block_text(load.block_bytes) + ", " + cache_text(load.direct) + ", " +
         depth_text(load.depth);
}

std::string block_text(uint64_t bytes) {
  if (bytes >= 1u << 20 && bytes % (1u << 20) == 0) return std::to_string(bytes >> 20) + " MiB";
  if (bytes % 1024 == 0) return std::to_string(bytes >> 10) + " KiB";
  return std::to_string(bytes) + " B";
}

std::string_view study_name(Study study) noexcept {
  return kStudies[static_cast<size_t>(study)];
}

}  // namespace ioweave::cli

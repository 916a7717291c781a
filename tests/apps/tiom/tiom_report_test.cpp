// What a report looks like, and what a state file accepts, from figures that are made up.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "picture.hpp"
#include "report.hpp"
#include "resume.hpp"
#include "support/temp_dir.hpp"

namespace tiom {
namespace {

using testing::HasSubstr;
using testing::Not;

RunFigures run_of(double seconds, bool limited = false) {
  RunFigures run;
  run.seconds = seconds;
  run.bytes = 100'000'000;
  run.tasks = 1000;
  run.computes = 1000;
  run.limited = limited;
  return run;
}

CellResult result_of(const Cell& cell) {
  CellResult result;
  result.cell = cell;
  result.probed_mb_per_s = 400;
  result.variants = {{Variant::standalone, {run_of(1), run_of(1.25)}},
                     {Variant::nonblocking, {run_of(0.5), run_of(0.5, true)}}};
  return result;
}

Options options_of() {
  return parse_options(
      {"-m", "mix,fjio", "-b", "4k,64k", "-c", "0.1ms,1ms", "--variant", "nonblocking"});
}

/// A report of a sweep; the last cell is missing, as in one that is under way.
Report report_of() {
  Report report;
  report.options = options_of();
  report.options.command.emplace_back("--html=<a & \"b\">");
  report.machine.processor = "A processor";
  report.machine.date = "2026-01-31T12:00:00Z";
  report.runtime = "threads";
  report.workers = 2;
  report.cores = 2;
  report.variants = {Variant::standalone, Variant::nonblocking};
  for (const Cell& cell : report.options.cells()) report.cells.push_back(result_of(cell));
  report.cells.pop_back();
  return report;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TiomTable, HasARowForEachCell) {
  const std::string table = table_text(report_of());
  EXPECT_THAT(table, HasSubstr("non-blocking"));
  EXPECT_THAT(table, HasSubstr("+125 %*"));  // the median of +100 % and +150 %
  EXPECT_THAT(table, HasSubstr("time limit"));
  EXPECT_EQ(std::ranges::count(table, '\n'), 3 + 7 + 1);
}

TEST(TiomReport, HasARoomForRunsThatCameToNoIo) {
  Report report = report_of();
  for (RunFigures& run : report.cells[0].variants[0].runs) run.bytes = 0;
  for (VariantResult& variant : report.cells[1].variants) {
    for (RunFigures& run : variant.runs) run.bytes = 0;
  }
  EXPECT_TRUE(paired_speed_ups(report.cells[0], Variant::nonblocking).empty());
  EXPECT_EQ(std::ranges::count(table_text(report), '\n'), 3 + 7 + 1);
  EXPECT_THAT(html_text(report), HasSubstr("no I/O before the time limit"));
  const nlohmann::json json = nlohmann::json::parse(json_text(report));
  EXPECT_FALSE(json["cells"][0]["variants"][1].contains("speed_up"));
}

TEST(TiomTable, SaysThatTheMachineWasBusy) {
  Report report = report_of();
  report.machine.cores = 4;
  report.machine.load = 0.5;
  EXPECT_THAT(table_text(report), Not(HasSubstr("busy")));
  report.machine.load = 3;
  EXPECT_THAT(table_text(report), HasSubstr("load 3.0 on 4 cores"));
  EXPECT_THAT(html_text(report), HasSubstr("load 3.0 on 4 cores"));
}

TEST(TiomJson, HasTheShapeOfItsSchema) {
  const nlohmann::json json = nlohmann::json::parse(json_text(report_of()));
  EXPECT_EQ(json["schema"], "ioweave-tiom/1");
  for (const char* key : {"date", "version", "command", "machine", "options", "runtime", "engine",
                          "tasks", "workers", "cores", "calibration"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  ASSERT_EQ(json["cells"].size(), 7u);
  const nlohmann::json& cell = json["cells"][0];
  EXPECT_EQ(cell["mode"], "mix");
  EXPECT_EQ(cell["block_bytes"], 4096);
  EXPECT_EQ(cell["compute_ns"], 100'000);
  EXPECT_EQ(cell["device_mb_per_s"], 400);
  EXPECT_EQ(cell["bound_mb_per_s"], 400);
  const nlohmann::json& standalone = cell["variants"][0];
  EXPECT_EQ(standalone["variant"], "standalone");
  EXPECT_EQ(standalone["runs"].size(), 2u);
  EXPECT_EQ(standalone["runs"][0]["mb_per_s"], 100);
  EXPECT_EQ(standalone["bound_by"], "device");
  EXPECT_FALSE(standalone.contains("speed_up"));
  const nlohmann::json& other = cell["variants"][1];
  EXPECT_EQ(other["speed_up"]["pairs"], nlohmann::json({2.0, 2.5}));
  EXPECT_EQ(other["speed_up"]["median"], 2.25);
  EXPECT_EQ(other["runs"][1]["limited"], true);
}

/// Checks that every tag is closed in order; returns how many there were. "" in `error` if so.
size_t count_tags(const std::string& text, std::string& error) {
  std::vector<std::string> open;
  size_t count = 0;
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const size_t end = text.find('>', at);
    if (end == std::string::npos) {
      error = "a tag without an end";
      return count;
    }
    const std::string tag = text.substr(at + 1, end - at - 1);
    ++count;
    if (tag.starts_with("!DOCTYPE") || tag.ends_with("/")) continue;
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != tag.substr(1)) {
        error = "unexpected </" + tag.substr(1) + ">";
        return count;
      }
      open.pop_back();
    } else {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  if (!open.empty()) error = "<" + open.back() + "> is not closed";
  return count;
}

TEST(TiomHtml, IsOnePageThatNeedsNothingElse) {
  const std::string page = html_text(report_of());
  for (const char* link : {"http", "src=", "href", "url(", "@import", "<script", "<link"}) {
    EXPECT_THAT(page, Not(HasSubstr(link)));
  }
}

TEST(TiomHtml, IsWellFormed) {
  std::string error;
  EXPECT_GT(count_tags(html_text(report_of()), error), 100u);
  EXPECT_EQ(error, "");
}

TEST(TiomHtml, ShowsEachCellWithItsFigures) {
  const std::string page = html_text(report_of());
  EXPECT_THAT(page, HasSubstr("A processor"));
  EXPECT_THAT(page, HasSubstr("--html=&lt;a &amp; &quot;b&quot;&gt;"));
  EXPECT_THAT(page, HasSubstr("speed-up +125 %"));
  EXPECT_THAT(page, HasSubstr("<title>not run</title>"));
  size_t maps = 0;
  for (size_t at = 0; (at = page.find("<svg", at)) != std::string::npos; ++at) ++maps;
  EXPECT_EQ(maps, 2u);
}

TEST(TiomColors, AreWhiteAtNoDifference) {
  EXPECT_EQ(speed_up_color(1), (Color{255, 255, 255}));
  const Color gain = speed_up_color(2);
  EXPECT_GT(gain.green, gain.red);
  EXPECT_EQ(speed_up_color(20), gain);
  const Color loss = speed_up_color(0.5);
  EXPECT_GT(loss.red, loss.green);
  EXPECT_EQ(speed_up_color(0), loss);
  EXPECT_EQ(rate_color(0), (Color{255, 255, 255}));
  EXPECT_EQ(ink_on({255, 255, 255}), ink_on({230, 240, 230}));
  EXPECT_NE(ink_on({255, 255, 255}), ink_on(gain));
}

TEST(TiomPicture, KeepsEverythingInside) {
  const Picture picture = whole_picture(report_of());
  ASSERT_FALSE(picture.boxes.empty());
  for (const Picture::Box& box : picture.boxes) {
    EXPECT_GE(box.x, 0);
    EXPECT_GE(box.y, 0);
    EXPECT_LE(box.x + box.width, picture.width);
    EXPECT_LE(box.y + box.height, picture.height);
  }
  for (const Picture::Text& text : picture.texts) {
    EXPECT_GT(text.y, 0);
    EXPECT_LE(text.y, picture.height);
  }
}

TEST(TiomPng, IsAPicture) {
  if (!missing_png().empty()) GTEST_SKIP() << missing_png();
  const ioweave::test::TempDir dir;
  write_png(report_of(), dir.file("map.png"));
  EXPECT_THAT(content_of(dir.file("map.png")), testing::StartsWith("\x89PNG"));
  EXPECT_THROW(write_png(report_of(), dir.file("no/map.png")), std::runtime_error);
}

TEST(TiomResume, RemembersFinishedCells) {
  const ioweave::test::TempDir dir;
  const Options options = options_of();
  const std::vector<Cell> cells = options.cells();
  {
    StateFile state(dir.file("state"), identity_of(options));
    EXPECT_EQ(state.find(cells[0]), nullptr);
    Calibration calibration;
    calibration.turns_per_ms = 1234.5;
    state.set_calibration(calibration);
    state.add(result_of(cells[0]));
    state.add(result_of(cells[3]));
  }
  const StateFile state(dir.file("state"), identity_of(options));
  ASSERT_TRUE(state.calibration());
  EXPECT_EQ(state.calibration()->turns_per_ms, 1234.5);
  const CellResult* const found = state.find(cells[3]);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->variants[1].runs[1].seconds, 0.5);
  EXPECT_TRUE(found->variants[1].runs[1].limited);
  EXPECT_NE(state.find(cells[0]), nullptr);
  EXPECT_EQ(state.find(cells[1]), nullptr);
}

std::string error_of_state(const std::string& path, const Options& options) {
  try {
    const StateFile state(path, identity_of(options));
  } catch (const std::exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(TiomResume, RefusesOtherOptionsByName) {
  const ioweave::test::TempDir dir;
  const std::string path = dir.file("state");
  StateFile(path, identity_of(options_of())).add(result_of(options_of().cells()[0]));
  Options options = options_of();
  options.series = 7;
  EXPECT_THAT(error_of_state(path, options), HasSubstr("--series was '128' and is '7'"));
  options = options_of();
  options.write = true;
  EXPECT_THAT(error_of_state(path, options), HasSubstr("--op was 'read'"));
  options = options_of();
  options.blocks.push_back(1 << 20);
  EXPECT_THAT(error_of_state(path, options), HasSubstr("--block was '4k,64k'"));
  options = options_of();
  options.runtime = RuntimeKind::coroutine;
  EXPECT_THAT(error_of_state(path, options), HasSubstr("--runtime"));
  options = options_of();
  options.html = "another.html";  // where the results go is no matter
  EXPECT_NO_THROW(StateFile(path, identity_of(options)));
}

TEST(TiomResume, RefusesAFileThatIsSomethingElse) {
  const ioweave::test::TempDir dir;
  for (const char* text : {"", "hello", "{}", "{\"schema\": \"other/1\"}", "[1, 2]"}) {
    std::ofstream(dir.file("state")) << text;
    EXPECT_THAT(error_of_state(dir.file("state"), options_of()), HasSubstr("no state file"));
    EXPECT_EQ(content_of(dir.file("state")), text);
  }
  EXPECT_THAT(error_of_state(dir.path(), options_of()), HasSubstr("--resume"));
}

}  // namespace
}  // namespace tiom

// Every runtime that was built runs every mode in every variant it has, for real but briefly.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench.hpp"
#include "run.hpp"
#include "runtime.hpp"
#include "support/temp_dir.hpp"
#include "target_file.hpp"

/// What libgomp keeps for its teams and fontconfig for its fonts, nobody can free.
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions();  // NOLINT
extern "C" const char* __lsan_default_suppressions() {                                // NOLINT
  return "leak:libgomp\nleak:libfontconfig\n";
}

namespace tiom {

// So that a test's name says what it is of.
static void PrintTo(Mode mode, std::ostream* out) {
  *out << mode_name(mode);
}
static void PrintTo(RuntimeKind kind, std::ostream* out) {
  *out << runtime_name(kind);
}

namespace {

using testing::HasSubstr;

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kBlocks = 64;
constexpr unsigned kSeries = 16;
constexpr uint64_t kNoLimit = 3600'000'000'000;

/// What preloading does for the program.
void load_alpi() {
  ASSERT_NE(dlopen(IOWEAVE_ALPI_TEST, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE), nullptr);
}

std::unique_ptr<Runtime> runtime_of(RuntimeKind kind, unsigned workers = 2) {
  RuntimeSettings settings;
  settings.kind = kind;
  settings.workers = workers;
  settings.most_in_flight = kSeries * 4;
  if (kind == RuntimeKind::alpi) {
    setenv("ALPI_TEST_CPUS", std::to_string(workers).c_str(), 1);
    load_alpi();
  }
  return make_runtime(settings);
}

/// A file of kBlocks blocks, each full of its number; with O_DIRECT where the file system has it.
class NumberedFile {
 public:
  NumberedFile() {
    fd_ = open(dir_.file("data").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (uint64_t i = 0; i < kBlocks; ++i) {
      const std::vector<char> block(kBlock, static_cast<char>(i + 1));
      if (pwrite(fd_, block.data(), kBlock, static_cast<off_t>(i * kBlock)) != kBlock) {
        throw std::runtime_error("cannot fill the file");
      }
    }
    fsync(fd_);
    // Refused on tmpfs of older kernels; the tasks are the same then, the I/O is quicker.
    static_cast<void>(fcntl(fd_, F_SETFL, O_DIRECT));
  }
  ~NumberedFile() { close(fd_); }
  NumberedFile(const NumberedFile&) = delete;
  NumberedFile& operator=(const NumberedFile&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::string content() const {
    std::ifstream file(dir_.file("data"), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  ioweave::test::TempDir dir_;
  int fd_ = -1;
};

/// One run's surroundings, with so many cycles.
struct Scene {
  Scene(Mode mode, uint64_t cycles, bool write, uint64_t time_limit_ns = kNoLimit)
      : order(kBlocks, true),
        buffers(uint64_t{kSeries} * io_width(mode), kBlock),
        workload{{mode, kBlock, 10'000},
                 {mode, kSeries, cycles},
                 100,
                 file.fd(),
                 write,
                 time_limit_ns,
                 &order,
                 &buffers} {}
  NumberedFile file;
  BlockOrder order;
  Buffers buffers;
  Workload workload;
};

/// The next one starts it again, with as many processors as are wanted then.
void stop_alpi() {
  void* const library = dlopen(IOWEAVE_ALPI_TEST, RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  reinterpret_cast<void (*)()>(dlsym(library, "alpi_test_stop"))();
}

class TiomRuntime : public testing::TestWithParam<std::tuple<RuntimeKind, Mode>> {
 protected:
  void SetUp() override {
    const std::string missing = missing_runtime(kind());
    if (!missing.empty()) GTEST_SKIP() << missing;
    runtime_ = runtime_of(kind());
  }
  void TearDown() override {
    runtime_.reset();
    if (kind() == RuntimeKind::alpi) stop_alpi();
  }
  [[nodiscard]] static RuntimeKind kind() { return std::get<0>(GetParam()); }
  [[nodiscard]] static Mode mode() { return std::get<1>(GetParam()); }

  std::unique_ptr<Runtime> runtime_;
};

TEST_P(TiomRuntime, MovesAllBytesInAllVariants) {
  Scene scene(mode(), kBlocks / ios_per_cycle(mode()), false);
  for (const Variant variant : variants_of(kind())) {
    SCOPED_TRACE(variant_name(variant));
    tiom::Run run(scene.workload);
    runtime_->execute(variant, run);
    const RunFigures figures = run.figures();
    uint64_t width = 0;
    for (const Stage& stage : stages_of(mode())) width += stage.width;
    EXPECT_EQ(figures.bytes, kBlocks * kBlock);
    EXPECT_EQ(figures.tasks, scene.workload.shape.cycles * width);
    EXPECT_EQ(figures.computes, scene.workload.shape.cycles * computes_per_cycle(mode()));
    EXPECT_FALSE(figures.limited);
    EXPECT_GT(figures.seconds, 0);
  }
}

TEST_P(TiomRuntime, ReadsTheBlocksOfItsTasks) {
  // One cycle for each series: each buffer is used once, and keeps what was read.
  Scene scene(mode(), kSeries, false);
  for (const Variant variant : variants_of(kind())) {
    SCOPED_TRACE(variant_name(variant));
    std::memset(scene.buffers.at(0), 0, kSeries * io_width(mode()) * kBlock);
    tiom::Run run(scene.workload);
    runtime_->execute(variant, run);
    EXPECT_EQ(run.figures().bytes, kSeries * ios_per_cycle(mode()) * kBlock);
    std::multiset<std::byte> wanted;
    std::multiset<std::byte> first;
    std::multiset<std::byte> last;
    for (uint64_t io = 0; io < kSeries * ios_per_cycle(mode()); ++io) {
      wanted.insert(static_cast<std::byte>(scene.order.block(io) + 1));
      first.insert(scene.buffers.at(io)[0]);
      last.insert(scene.buffers.at(io)[kBlock - 1]);
    }
    EXPECT_EQ(first, wanted);
    EXPECT_EQ(last, wanted);
  }
}

TEST_P(TiomRuntime, WritesEveryBlock) {
  Scene scene(mode(), kBlocks / ios_per_cycle(mode()), true);
  for (const Variant variant : variants_of(kind())) {
    SCOPED_TRACE(variant_name(variant));
    // Each variant writes something of its own.
    const char mark = static_cast<char>('A' + static_cast<int>(variant));
    std::memset(scene.buffers.at(0), mark, kSeries * io_width(mode()) * kBlock);
    tiom::Run run(scene.workload);
    runtime_->execute(variant, run);
    EXPECT_EQ(run.figures().bytes, kBlocks * kBlock);
    EXPECT_TRUE(scene.file.content() == std::string(kBlocks * kBlock, mark));
  }
}

TEST_P(TiomRuntime, StopsAtTheTimeLimitAndSaysSo) {
  // Over long before its end.
  Scene scene(mode(), 1'000'000'000, false, 20'000'000);
  for (const Variant variant : variants_of(kind())) {
    SCOPED_TRACE(variant_name(variant));
    tiom::Run run(scene.workload);
    runtime_->execute(variant, run);
    const RunFigures figures = run.figures();
    EXPECT_TRUE(figures.limited);
    EXPECT_EQ(figures.bytes % kBlock, 0u);
  }
}

TEST_P(TiomRuntime, SaysThatATransferFailed) {
  Scene scene(mode(), 1'000'000, false);
  const ioweave::test::TempDir dir;
  const int empty = open(dir.file("empty").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  for (const int fd : {-1, empty}) {
    scene.workload.fd = fd;
    for (const Variant variant : variants_of(kind())) {
      SCOPED_TRACE(variant_name(variant));
      tiom::Run run(scene.workload);
      runtime_->execute(variant, run);
      try {
        static_cast<void>(run.figures());
        ADD_FAILURE() << "no error";
      } catch (const std::runtime_error& error) {
        EXPECT_THAT(error.what(), HasSubstr(std::strerror(fd < 0 ? EBADF : EIO)));
      }
    }
  }
  close(empty);
}

TEST_P(TiomRuntime, RunsNothingWhereThereIsNothingToRun) {
  // Fewer cycles than series: some have none.
  Scene scene(mode(), 3, false);
  for (const Variant variant : variants_of(kind())) {
    tiom::Run run(scene.workload);
    runtime_->execute(variant, run);
    EXPECT_EQ(run.figures().bytes, 3 * ios_per_cycle(mode()) * kBlock);
  }
}

TEST_P(TiomRuntime, WorksWithOneWorker) {
  TearDown();
  runtime_ = runtime_of(kind(), 1);
  EXPECT_EQ(runtime_->workers(), 1u);
  Scene scene(mode(), kBlocks / ios_per_cycle(mode()), false);
  for (const Variant variant : variants_of(kind())) {
    SCOPED_TRACE(variant_name(variant));
    tiom::Run run(scene.workload);
    runtime_->execute(variant, run);
    EXPECT_EQ(run.figures().bytes, kBlocks * kBlock);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TiomRuntime,
    testing::Combine(testing::Values(RuntimeKind::threads, RuntimeKind::openmp, RuntimeKind::tbb,
                                     RuntimeKind::alpi, RuntimeKind::coroutine),
                     testing::Values(Mode::mix, Mode::one_to_one, Mode::fjio, Mode::fjc)),
    [](const auto& one) {
      return std::string(runtime_name(std::get<0>(one.param))) + "_" +
             std::string(mode_name(std::get<1>(one.param)));
    });

TEST(TiomAlpi, RefusesAnotherNumberOfWorkersThanTheRuntimeHas) {
  setenv("ALPI_TEST_CPUS", "2", 1);
  load_alpi();
  RuntimeSettings settings;
  settings.kind = RuntimeKind::alpi;
  settings.workers = 3;
  settings.workers_given = true;
  EXPECT_THROW(static_cast<void>(make_runtime(settings)), UsageError);
  stop_alpi();
}

Options small_options(const std::string& file) {
  Options options = parse_options({"-b", "4k,16k", "-c", "0.01ms", "-s", "8", "--bytes", "256k",
                                   "-r", "2", "--time-limit", "60s", "-t", "2"});
  options.file = file;
  return options;
}

/// Direct where that is possible here.
Options small_options_here(const ioweave::test::TempDir& dir) {
  Options options = small_options(dir.file("data"));
  try {
    const TargetFile probe({dir.file("probe"), 1 << 20, false, true, false});
  } catch (const std::runtime_error&) {
    options.direct = false;
  }
  return options;
}

TEST(TiomBench, PairsTheVariantsInTurn) {
  const ioweave::test::TempDir dir;
  const Options options = small_options_here(dir);
  Bench bench(options);
  size_t runs = 0;
  const CellResult cell = bench.measure(options.cells()[0], [&](const RunFigures&) { ++runs; });
  ASSERT_EQ(cell.variants.size(), 3u);
  EXPECT_EQ(runs, 6u);
  for (const VariantResult& variant : cell.variants) {
    ASSERT_EQ(variant.runs.size(), 2u);
    EXPECT_EQ(variant.runs[0].bytes, 256u << 10);
  }
  EXPECT_GT(cell.probed_mb_per_s, 0);
  // The bound holds against every run by its construction.
  EXPECT_LE(summary_of(cell, cell.variants[0], bench.cores()).bound.device_s,
            cell.variants[0].runs[0].seconds + cell.variants[0].runs[1].seconds);
  const Report report = bench.report();
  EXPECT_EQ(report.workers, 2u);
  EXPECT_FALSE(report.engine.empty());
  EXPECT_FALSE(report.machine.file_system.empty());
}

TEST(TiomBench, ReversesTheOrderOfTheVariantsFromRoundToRound) {
  EXPECT_THAT(order_of_round(3, 0), testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(order_of_round(3, 1), testing::ElementsAre(2, 1, 0));
  EXPECT_THAT(order_of_round(3, 2), testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(order_of_round(1, 1), testing::ElementsAre(0));
}

TEST(TiomBench, KeepsRunsByVariantWhateverTheirOrder) {
  const ioweave::test::TempDir dir;
  const Options options = small_options_here(dir);
  Bench bench(options);
  std::vector<double> seconds;  // of each run, as they came: the mark by which it is found again
  const CellResult cell = bench.measure(
      options.cells()[0], [&](const RunFigures& run) { seconds.push_back(run.seconds); });
  ASSERT_EQ(cell.variants.size(), 3u);
  std::vector<double> as_run;
  for (const size_t place : {0u, 1u, 2u}) as_run.push_back(cell.variants[place].runs.at(0).seconds);
  for (const size_t place : {2u, 1u, 0u}) as_run.push_back(cell.variants[place].runs.at(1).seconds);
  EXPECT_EQ(as_run, seconds);
}

TEST(TiomBench, RefusesMoreBuffersThanMemory) {
  const ioweave::test::TempDir dir;
  Options options = small_options(dir.file("data"));
  options.blocks = {uint64_t{1} << 30};
  options.bytes = uint64_t{1} << 30;
  options.series = 65536;
  try {
    const Bench bench(options);
    ADD_FAILURE() << "made";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("lower --series or --block"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

class TiomTarget : public testing::Test {
 protected:
  [[nodiscard]] TargetSettings settings(bool write) const {
    TargetSettings settings;
    settings.path = path_;
    settings.bytes = 64 << 10;
    settings.write = write;
    settings.direct = false;
    return settings;
  }
  void make_file(const std::string& content) const { std::ofstream(path_) << content; }
  [[nodiscard]] std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] static std::string error_of(const TargetSettings& settings) {
    try {
      const TargetFile file(settings);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    ADD_FAILURE() << "accepted";
    return "";
  }

  ioweave::test::TempDir dir_;
  const std::string path_ = dir_.file("target");
};

TEST_F(TiomTarget, IsMadeFullAndLeavesNothingBehind) {
  {
    const TargetFile file(settings(true));
    EXPECT_GE(lseek(file.fd(), 0, SEEK_END), 64 << 10);
    char byte = 0;
    EXPECT_EQ(pread(file.fd(), &byte, 1, (64 << 10) - 1), 1);
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(TiomTarget, KeepsAFileWithDataFromBeingWritten) {
  make_file("precious");
  EXPECT_THAT(error_of(settings(true)), HasSubstr("--overwrite"));
  EXPECT_EQ(content(), "precious");
}

TEST_F(TiomTarget, WritesToAFileWithDataWhenAllowed) {
  make_file("not so precious");
  TargetSettings allowed = settings(true);
  allowed.overwrite = true;
  { const TargetFile file(allowed); }
  EXPECT_GE(content().size(), size_t{64} << 10);
}

TEST_F(TiomTarget, ReadsAFileThatIsThereAndKeepsIt) {
  const std::string data(100'000, 'x');
  make_file(data);
  {
    const TargetFile file(settings(false));
    file.check_block(4096);
  }
  EXPECT_TRUE(content() == data);
}

TEST_F(TiomTarget, RefusesToReadAFileThatIsTooShort) {
  make_file("short");
  EXPECT_THAT(error_of(settings(false)), HasSubstr("5 bytes"));
  EXPECT_THAT(error_of(settings(false)), HasSubstr("lower --bytes"));
  EXPECT_EQ(content(), "short");
}

TEST_F(TiomTarget, LeavesAnEmptyFileEmpty) {
  for (const bool write : {false, true}) {
    make_file("");
    {
      const TargetFile file(settings(write));
      EXPECT_GE(lseek(file.fd(), 0, SEEK_END), 64 << 10);
    }
    EXPECT_TRUE(std::filesystem::exists(path_));
    EXPECT_EQ(content(), "");
  }
}

TEST_F(TiomTarget, RefusesWhatIsNoFile) {
  TargetSettings folder = settings(false);
  folder.path = dir_.path();
  EXPECT_THAT(error_of(folder), HasSubstr("neither a regular file"));
  TargetSettings lost = settings(false);
  lost.path = dir_.file("no/such/file");
  EXPECT_THAT(error_of(lost), HasSubstr("--file"));
}

}  // namespace
}  // namespace tiom

// hill: the Hill encryption of the PPIS paper, as a program that reads, computes and writes.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cipher.hpp"
#include "file_cipher.hpp"
#include "key.hpp"
#include "options.hpp"

namespace {

constexpr int kUsageExit = 2;

/// The key of the first round, and keys made from it or from the seed for the others.
std::vector<hill::Matrix> round_keys(const hill::Options& options) {
  std::vector<hill::Matrix> keys;
  for (unsigned round = 0; round < options.rounds; ++round) {
    if (!options.key_file) {
      keys.push_back(hill::key_from_seed(options.key_size, options.seed + round));
    } else if (round == 0) {
      keys.push_back(hill::key_from_file(*options.key_file));
    } else {
      keys.push_back(keys.back() * keys.front());
    }
  }
  return keys;
}

/// The file for the statistics: opened first, so that a mistake in its name costs no computation.
class StatsFile {
 public:
  explicit StatsFile(const std::string& path)
      : path_(path), file_(std::fopen(path.c_str(), "w"), std::fclose) {
    if (!file_) fail();
  }

  void write(const hill::Options& options, size_t key_size, const hill::Stats& stats) {
    const bool decrypting = options.direction == hill::Cipher::Direction::kDecrypt;
    const std::string instructions(hill::Multiplier::available().front());
    std::fprintf(file_.get(),
                 "{\"mode\": \"%s\", \"key_size\": %zu, \"rounds\": %u, "
                 "\"instructions\": \"%s\",\n"
                 " \"chunk_bytes\": %zu, \"chunks\": %llu, \"bytes\": %llu,\n"
                 " \"read_s\": %.9f, \"compute_s\": %.9f, \"write_s\": %.9f, "
                 "\"fsync_s\": %.9f, \"total_s\": %.9f}\n",
                 decrypting ? "decrypt" : "encrypt", key_size, options.rounds, instructions.c_str(),
                 options.chunk_bytes, static_cast<unsigned long long>(stats.chunks),
                 static_cast<unsigned long long>(stats.bytes), stats.read_s, stats.compute_s,
                 stats.write_s, stats.fsync_s, stats.total_s);
    if (std::fflush(file_.get()) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw std::runtime_error("cannot write the statistics to '" + path_ +
                             "': " + std::strerror(errno));
  }

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

void run(const hill::Options& options) {
  const std::vector<hill::Matrix> keys = round_keys(options);
  hill::Cipher cipher(keys, options.direction);
  std::optional<StatsFile> stats_file;
  if (options.stats_json) stats_file.emplace(*options.stats_json);
  const hill::Stats stats = hill::encipher_file(cipher, {.input = options.input,
                                                         .output = options.output,
                                                         .chunk_bytes = options.chunk_bytes,
                                                         .fsync = options.fsync,
                                                         .verbose = options.verbose});
  if (stats_file) stats_file->write(options, keys.front().size(), stats);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const hill::Options options = hill::parse_options(argc, argv);
    if (options.help) {
      std::fputs(hill::help_text().c_str(), stdout);
    } else {
      run(options);
    }
    return EXIT_SUCCESS;
  } catch (const hill::UsageError& error) {
    if (*error.what()) std::fprintf(stderr, "hill: %s\n", error.what());
    std::fputs("Try 'hill --help' for options and examples.\n", stderr);
    return kUsageExit;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hill: %s\n", error.what());
    return EXIT_FAILURE;
  }
}

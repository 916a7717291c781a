#include "plan.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "alpi_library.hpp"
#include "progress.hpp"
#include "resume.hpp"
#include "runtime.hpp"

namespace tiom {
namespace {

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

/// ALPI is in no build: it is found when this is asked, or missing.
std::string alpi_text(const std::string& named, std::string& missing) {
  try {
    const AlpiPlace place = locate_alpi(named);
    if (place.in_process) return "; in this process already: " + place.file;
    return "; found by " + place.source + ": " + place.file;
  } catch (const std::runtime_error& error) {
    missing = error.what();
    return "";
  }
}

std::string runtime_line(RuntimeKind kind, const Options& options) {
  std::string text = "  " + padded(std::string(runtime_name(kind)), 11);
  std::string missing = missing_runtime(kind);
  const std::string place =
      kind == RuntimeKind::alpi ? alpi_text(options.alpi_library, missing) : "";
  if (!missing.empty()) return text + missing;
  const char* separator = "";
  for (const Variant variant : variants_of(kind)) {
    text += separator + std::string(variant_name(variant));
    separator = ", ";
  }
  return text + place;
}

}  // namespace

std::string plan_text(const Options& options) {
  std::string text = "Runtimes:\n";
  for (const RuntimeKind kind : {RuntimeKind::threads, RuntimeKind::openmp, RuntimeKind::tbb,
                                 RuntimeKind::alpi, RuntimeKind::coroutine}) {
    text += runtime_line(kind, options) + "\n";
  }
  std::optional<StateFile> state;
  if (!options.resume.empty()) state.emplace(options.resume, identity_of(options));
  const size_t runs = chosen_variants(options).size() * options.repetitions;
  std::string lines;
  size_t left = 0;
  for (const Cell& cell : options.cells()) {
    const bool finished = state && state->find(cell) != nullptr;
    left += finished ? 0 : 1;
    lines += "  " + cell_text(cell) + (finished ? "  (finished)" : "") + "\n";
  }
  const double most_s =
      static_cast<double>(left * runs) * static_cast<double>(options.time_limit_ns) / 1e9;
  text += "Cells (mode, block, compute): " + std::to_string(left) + " to run, " +
          std::to_string(runs) + " runs each, about " + waiting_text(most_s) + " at most:\n";
  return text + lines;
}

}  // namespace tiom

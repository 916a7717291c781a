#pragma once

// What `ioweave report RUN --why FILE` prints.

#include <cstdint>
#include <string>

#include "stats/run_report.hpp"

namespace ioweave::cli {

/// "reads of up to 4.0 MiB"
[[nodiscard]] std::string calls_of_kind(choice::Operation operation, uint32_t size_class);

/// Says what was gained by buffers in large pages, by kinds of transfers; or that nothing was.
[[nodiscard]] std::string large_pages_text(const stats::LargePagesReport& report);

/// Returns the file of the run that is meant: by its path, or by the end of one if no other has it.
/// Null with a sentence in `why` that names what there is instead.
[[nodiscard]] const stats::FileReport* find_file(const stats::RunReport& report,
                                                 const std::string& name, std::string& why);

/// Says what was done about a file's reads and writes, which way its calls went, and why.
[[nodiscard]] std::string why_text(const stats::RunReport& report, const stats::FileReport& file);

}  // namespace ioweave::cli

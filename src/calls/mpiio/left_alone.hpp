#pragma once

// Why the library leaves something to MPI alone, as its report counts it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ioweave::calls {

enum class LeftAlone : uint8_t {
  write_only,       ///< a file
  sequential,       ///< a file: MPI_MODE_SEQUENTIAL
  not_regular,      ///< a file
  in_memory,        ///< a file
  other_machines,   ///< a file that ranks of other machines may write
  not_opened,       ///< a file that could not be opened once more
  many_files,       ///< a pattern, while too many other files are read ahead
  view,             ///< a view that nothing is foretold of
  pieces,           ///< a read of a pattern that lies in too many pieces of the file
  shared_position,  ///< a read
  write,            ///< one that cannot be made behind the program, where that is wanted
  count,
};
inline constexpr std::array<std::string_view, static_cast<size_t>(LeftAlone::count)>
    kLeftAloneNames{"write_only",     "sequential",      "not_regular", "in_memory",
                    "other_machines", "not_opened",      "many_files",  "view",
                    "pieces",         "shared_position", "write"};

}  // namespace ioweave::calls

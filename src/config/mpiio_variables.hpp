#pragma once

// The settings of libioweave_mpiio_*.so, which it reads from the environment of its program, and
// what it and the command know of MPIs and tell each other.

#include <array>
#include <cstdint>
#include <string_view>

namespace ioweave::config {

inline constexpr const char* kMpiioScheduleVariable = "IOWEAVE_MPIIO_SCHEDULE";
inline constexpr const char* kMpiioBudgetVariable = "IOWEAVE_MPIIO_BUDGET";
inline constexpr const char* kMpiioDepthVariable = "IOWEAVE_MPIIO_DEPTH";
/// Foretells reads although the last ones were quick: they come from the page cache, as a rule.
inline constexpr const char* kMpiioEagerVariable = "IOWEAVE_MPIIO_EAGER";
/// Memory for writes that MPI_File_write_at() returns from before they are made.
inline constexpr const char* kMpiioWriteBehindVariable = "IOWEAVE_MPIIO_WRITE_BEHIND";
inline constexpr const char* kMpiioReportVariable = "IOWEAVE_MPIIO_REPORT";
inline constexpr std::array<std::string_view, 6> kMpiioVariables{
    kMpiioScheduleVariable, kMpiioBudgetVariable,      kMpiioDepthVariable,
    kMpiioEagerVariable,    kMpiioWriteBehindVariable, kMpiioReportVariable};

/// In the order of iow_plan_schedule.
inline constexpr std::array<std::string_view, 5> kScheduleNames{"auto", "normal", "pp", "ppis",
                                                                "weighted"};

/// In the run's directory (run_config.hpp): gets an MpiioFile for each file that a process opens by
/// MPI-IO. The library alone reads ahead of it, or nobody.
inline constexpr const char* kMpiioFilesName = "mpiio-files";
struct MpiioFile {
  uint64_t device = 0;  ///< st_dev
  uint64_t inode = 0;
};
/// Likewise: gets the line of each rank, as the file of kMpiioReportVariable does.
inline constexpr const char* kMpiioReportName = "mpiio-report";

inline constexpr const char* kOpenMpiLibrary = "libmpi.so.40";
inline constexpr const char* kMpichLibrary = "libmpich.so.12";

/// What a launcher tells the ranks that it starts: how many there are, and how many of them on this
/// machine.
struct RankVariables {
  const char* all;
  const char* local;
};
inline constexpr RankVariables kOpenMpiRanks{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"};
inline constexpr RankVariables kMpichRanks{"PMI_SIZE", "MPI_LOCALNRANKS"};

}  // namespace ioweave::config

#pragma once

// MPI for the life of an object, and its errors as exceptions.

#include <stdexcept>
#include <string>

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace apps {

/// Throws std::runtime_error with MPI's own words.
inline void check_mpi(int error, const std::string& what) {
  if (error == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(error, text, &length);
  throw std::runtime_error(what + ": " + std::string(text, static_cast<size_t>(length)));
}

class MpiSession {
 public:
  MpiSession(int& argc, char**& argv) {
    check_mpi(MPI_Init(&argc, &argv), "MPI_Init");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  ~MpiSession() { MPI_Finalize(); }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int ranks() const noexcept { return ranks_; }

 private:
  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace apps

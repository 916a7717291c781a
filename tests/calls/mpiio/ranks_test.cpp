#include "calls/mpiio/ranks.hpp"

#include <cstdlib>

#include <gtest/gtest.h>

namespace {

using ioweave::calls::are_ranks_on_one_machine;
using ioweave::config::kMpichRanks;
using ioweave::config::kOpenMpiRanks;

class Ranks : public testing::Test {
 protected:
  Ranks() { unset(); }
  ~Ranks() override { unset(); }
  static void unset() {
    for (const char* const name :
         {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"}) {
      ::unsetenv(name);
    }
  }
};

TEST_F(Ranks, AreOnOneMachineIfAllAreLocal) {
  ::setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  EXPECT_EQ(are_ranks_on_one_machine(kOpenMpiRanks, 4), std::nullopt) << "how many are local?";
  ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 1);
  EXPECT_EQ(are_ranks_on_one_machine(kOpenMpiRanks, 4), true);
  ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
  EXPECT_EQ(are_ranks_on_one_machine(kOpenMpiRanks, 4), false);
}

TEST_F(Ranks, OfMpichAreToldByHydra) {
  ::setenv("PMI_SIZE", "16", 1);
  ::setenv("MPI_LOCALNRANKS", "8", 1);
  EXPECT_EQ(are_ranks_on_one_machine(kMpichRanks, 16), false);
  ::setenv("MPI_LOCALNRANKS", "16", 1);
  EXPECT_EQ(are_ranks_on_one_machine(kMpichRanks, 16), true);
}

/// A job that was started by a rank of another one has that one's variables, too.
TEST_F(Ranks, OfAnotherJobTellNothing) {
  ::setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1", 1);
  EXPECT_EQ(are_ranks_on_one_machine(kOpenMpiRanks, 2), std::nullopt);
  EXPECT_EQ(are_ranks_on_one_machine(kMpichRanks, 2), std::nullopt);
}

}  // namespace

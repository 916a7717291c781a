#include "calls/mpiio/ranks.hpp"

#include <cstdlib>

#include <gtest/gtest.h>

namespace {

using ioweave::calls::are_ranks_on_one_machine;

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
  EXPECT_EQ(are_ranks_on_one_machine(), std::nullopt) << "it is not known how many are local";
  ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 1);
  EXPECT_EQ(are_ranks_on_one_machine(), true);
  ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
  EXPECT_EQ(are_ranks_on_one_machine(), false);
}

TEST_F(Ranks, OfMpichAreToldByHydra) {
  ::setenv("PMI_SIZE", "16", 1);
  ::setenv("MPI_LOCALNRANKS", "8", 1);
  EXPECT_EQ(are_ranks_on_one_machine(), false);
  ::setenv("MPI_LOCALNRANKS", "16", 1);
  EXPECT_EQ(are_ranks_on_one_machine(), true);
}

TEST_F(Ranks, NobodyTellsOfAProgramThatWasStartedAlone) {
  EXPECT_EQ(are_ranks_on_one_machine(), std::nullopt);
}

}  // namespace

#include "cli/mpi_program.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "support/temp_dir.hpp"

namespace {

using ioweave::cli::find_mpi;
using ioweave::cli::Mpi;
using ioweave::cli::Program;

Program program_at(const std::string& path) {
  Program program;
  program.path = path;
  return program;
}

TEST(MpiProgram, LaunchersAreKnownByTheirNamesBehindLinks) {
  const ioweave::test::TempDir dir;
  std::filesystem::copy_file("/bin/true", dir.file("orterun"));
  std::filesystem::copy_file("/bin/true", dir.file("mpiexec.hydra"));
  std::filesystem::create_symlink("orterun", dir.file("mpirun"));
  EXPECT_EQ(find_mpi(program_at(dir.file("mpirun")), {}), Mpi::openmpi);
  EXPECT_EQ(find_mpi(program_at(dir.file("mpiexec.hydra")), {}), Mpi::mpich);
}

TEST(MpiProgram, OthersHaveNone) {
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  ::unsetenv("MPI_LOCALNRANKS");
  EXPECT_EQ(find_mpi(program_at("/bin/true"), {}), Mpi::none);
  EXPECT_EQ(find_mpi(program_at("/there/is/no/such/file"), {}), Mpi::none);
}

TEST(MpiProgram, WhatALauncherStartedIsOfItsMpi) {
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_EQ(find_mpi(program_at("/bin/true"), {}), Mpi::openmpi);
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
}

}  // namespace

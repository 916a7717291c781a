// A Fortran program (fortran_program.F90) by each of Fortran's interfaces to MPI, without the
// library and with it, by two ranks: what its calls return and read must be the same, and the
// library must have seen its reads.

#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "calls/mpiio/mpi_runs.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::test {
namespace {

/// What the ranks' logs say of a run.
std::string run_fortran(const std::string& program, const std::string& part,
                        const std::string& words) {
  const TempDir dir;
  const ShellResult ended =
      run_in_shell(mpirun(2, choose_part(part), words) + program + " " + dir.path());
  EXPECT_EQ(ended.exit_code, 0) << ended.text;
  return content(dir.file("log.0")) + "rank 1\n" + content(dir.file("log.1"));
}

class MpiioFortran : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(MpiioFortran, ReadsTheSame) {
  const auto [interface, part] = GetParam();
  const std::string program = std::string(IOWEAVE_MPI_FORTRAN) + interface;
  const TempDir dir;
  const std::string report = dir.file("report");
  const std::string plain = run_fortran(program, part, "");
  EXPECT_EQ(plain, run_fortran(program, part, with_library("auto", report)));
  EXPECT_NE(plain.find("close"), std::string::npos) << plain;
  // 65 + 17 at first, 16 + 16 + 8 + 16 by the view, in each of two ranks.
  const std::string lines = content(report);
  EXPECT_EQ(reported(lines, "reads"), 2u * 138) << lines;
  EXPECT_GT(reported(lines, "hit_reads"), 0u) << lines;
}

std::string name_of(const testing::TestParamInfo<MpiioFortran::ParamType>& param) {
  const auto [interface, part] = param.param;
  return std::string(interface) + (*part != '\0' ? std::string("_") + part : "");
}

INSTANTIATE_TEST_SUITE_P(All, MpiioFortran,
                         testing::Combine(testing::Values("mpif", "mpi", "mpi_f08"),
                                          testing::ValuesIn(mpiio_parts())),
                         name_of);

}  // namespace
}  // namespace ioweave::test

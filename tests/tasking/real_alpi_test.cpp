// Finding a real ALPI runtime.
#include "support/real_alpi.hpp"

#include <filesystem>
#include <fstream>
#include <optional>

#include <gtest/gtest.h>

#include "support/temp_dir.hpp"

namespace ioweave::test {
namespace {

/// The variable's value, which comes back.
class Prefix : public ::testing::Test {
 protected:
  static constexpr const char* kName = "IOWEAVE_TEST_NOSV_PREFIX";

  Prefix() {
    if (const char* const value = std::getenv(kName)) before_ = value;
  }
  ~Prefix() override { before_ ? ::setenv(kName, before_->c_str(), 1) : ::unsetenv(kName); }
  void set(const std::string& value) { ASSERT_EQ(::setenv(kName, value.c_str(), 1), 0); }

  TempDir folder_;
  std::optional<std::string> before_;
};

TEST_F(Prefix, OfARealAlpiIsLookedUnder) {
  std::filesystem::create_directory(folder_.file("lib64"));
  const std::string library = folder_.file("lib64/libnosv.so");
  std::ofstream(library) << "not loaded here";
  set(folder_.path());
  EXPECT_EQ(find_real_alpi().path, library);
  EXPECT_EQ(find_real_alpi().reason, "");
}

TEST_F(Prefix, ThatHoldsNoRuntimeIsNamed) {
  set(folder_.path());
  EXPECT_EQ(find_real_alpi().path, "");
  EXPECT_EQ(find_real_alpi().reason,
            "IOWEAVE_TEST_NOSV_PREFIX is " + folder_.path() +
                ", but neither its lib/ nor its lib64/ holds libnosv.so; set it to where the "
                "runtime was installed.");
}

}  // namespace
}  // namespace ioweave::test

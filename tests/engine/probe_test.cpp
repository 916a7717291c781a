#include "engine/probe.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "backend_fixture.hpp"
#include "engine/system_facts.hpp"
#include "support/child.hpp"

namespace ioweave::engine {
namespace {

/// The finding whose subject begins with `subject`, or null.
const Finding* find(const std::vector<Finding>& findings, const std::string& subject) {
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.subject.rfind(subject, 0) == 0;
  });
  return found == findings.end() ? nullptr : &*found;
}

bool explains(const Finding& finding) {
  return !finding.cause.empty() && !finding.remedy.empty();
}

TEST(Probe, WhateverIsNotUsableHasCauseAndRemedy) {
  const test::TempDir directory;
  const std::vector<Finding> findings = probe(directory.path());
  EXPECT_GE(findings.size(), 5u);
  for (const Finding& finding : findings) {
    EXPECT_FALSE(finding.subject.empty());
    EXPECT_EQ(explains(finding), finding.usable != Usable::yes) << finding.subject;
  }
}

TEST(Probe, ThreadsAreAlwaysUsable) {
  const std::vector<Finding> findings = probe("");
  const Finding* threads = find(findings, "threads");
  ASSERT_NE(threads, nullptr);
  EXPECT_EQ(threads->usable, Usable::yes);
}

TEST(Probe, ADirectoryIsReadByAFileThatIsGoneAfterwards) {
  const test::TempDir directory;
  const std::vector<Finding> findings = probe(directory.path());
  const Finding* read = find(findings, "threads read on " + directory.path());
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->usable, Usable::yes) << read->cause;
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(Probe, AnExistingFileIsOnlyRead) {
  const test::TempDir directory;
  const std::string path = directory.file("data");
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0400));
  ASSERT_EQ(::write(file.get(), "abc", 3), 3);
  const std::vector<Finding> findings = probe(path);
  const Finding* read = find(findings, "threads read");
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->detail, "read 3 bytes");
  EXPECT_EQ(std::filesystem::file_size(path), 3u);
}

TEST(Probe, AnEmptyFileIsNoError) {
  const test::TempDir directory;
  const std::string path = directory.file("empty");
  { const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)); }
  const std::vector<Finding> findings = probe(path);
  const Finding* read = find(findings, "threads read");
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->usable, Usable::yes);
}

TEST(Probe, AMissingPathIsAFinding) {
  const std::vector<Finding> findings = probe("/no/such/place");
  const Finding* path = find(findings, "/no/such/place");
  ASSERT_NE(path, nullptr);
  EXPECT_EQ(path->usable, Usable::no);
  EXPECT_EQ(path->error, ENOENT);
  EXPECT_TRUE(explains(*path));
}

TEST(Probe, APathThatMayNotBeReadIsAFinding) {
  const test::TempDir directory;
  const std::string path = directory.file("secret");
  { const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0000)); }
  ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
  const int status = test::run_in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) return 77;
    const std::vector<Finding> findings = probe(path);
    const Finding* found = find(findings, path);
    return found != nullptr && found->error == EACCES && explains(*found) ? 0 : 1;
  });
  if (status == 77) GTEST_SKIP() << "cannot become another user";
  EXPECT_EQ(status, 0);
}

/// Probes `directory`, which only its owner may write to, as somebody else.
int probe_as_another(const test::TempDir& directory,
                     const std::function<int(const std::vector<Finding>&)>& check) {
  const mode_t mode = ::geteuid() == 0 ? 0755 : 0555;
  if (::chmod(directory.path().c_str(), mode) != 0) return 76;
  return test::run_in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) return 77;
    return check(probe(directory.path()));
  });
}

TEST(Probe, AFolderThatIsReadOnlyIsProbedByAFileInIt) {
  const test::TempDir directory;
  const std::string path = directory.file("data");
  {
    const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    ASSERT_EQ(::write(file.get(), "abc", 3), 3);
  }
  ASSERT_EQ(::mkdir(directory.file("a").c_str(), 0755), 0);
  { const Descriptor empty(::open(directory.file("b").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0)); }
  const int status = probe_as_another(directory, [&](const std::vector<Finding>& findings) {
    const Finding* place = find(findings, directory.path());
    const Finding* read = find(findings, "threads read on " + directory.path());
    if (place == nullptr || place->usable != Usable::yes) return 1;
    if (place->detail.find("'data' was read") == std::string::npos) return 2;
    return read != nullptr && read->detail == "read 3 bytes" ? 0 : 3;
  });
  if (status == 77) GTEST_SKIP() << "cannot become another user";
  EXPECT_EQ(status, 0);
}

TEST(Probe, AFolderThatIsReadOnlyAndEmptyIsDegraded) {
  const test::TempDir directory;
  const int status = probe_as_another(directory, [&](const std::vector<Finding>& findings) {
    const Finding* place = find(findings, directory.path());
    if (place == nullptr || place->usable != Usable::degraded) return 1;
    if (place->cause.find("could not create a probe file here") == std::string::npos) return 2;
    return place->remedy.find("name an existing file") != std::string::npos ? 0 : 3;
  });
  if (status == 77) GTEST_SKIP() << "cannot become another user";
  EXPECT_EQ(status, 0);
}

TEST(Probe, NothingIsReadInProc) {
  const std::vector<Finding> findings = probe("/proc");
  const Finding* place = find(findings, "/proc");
  ASSERT_NE(place, nullptr);
  EXPECT_EQ(place->usable, Usable::degraded);
  EXPECT_NE(place->cause.find("could not create a probe file here"), std::string::npos);
}

TEST(Probe, AFolderThatMayNotBeEnteredIsUnusable) {
  const test::TempDir directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 0000), 0);
  const int status = test::run_in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) return 77;
    const std::vector<Finding> findings = probe(directory.path());
    const Finding* place = find(findings, directory.path());
    return place != nullptr && place->usable == Usable::no && place->error == EACCES ? 0 : 1;
  });
  if (status == 77) GTEST_SKIP() << "cannot become another user";
  EXPECT_EQ(status, 0);
}

TEST(Probe, APipeIsNotStorage) {
  const test::TempDir directory;
  const std::string path = directory.file("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const std::vector<Finding> findings = probe(path);
  const Finding* found = find(findings, path);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->usable, Usable::no);
}

TEST(Probe, PrefetchIsPointlessInMemory) {
  if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "no tmpfs here";
  const std::vector<Finding> findings = probe("/dev/shm");
  const Finding* prefetch = find(findings, "page-cache prefetch");
  ASSERT_NE(prefetch, nullptr);
  EXPECT_EQ(prefetch->usable, Usable::degraded);
}

TEST(Probe, IopollNeedsAPolledQueue) {
  const test::TempDir directory;
  const std::vector<Finding> findings = probe(directory.path());
  const Finding* iopoll = find(findings, "io_uring+iopoll");
  if (iopoll == nullptr) GTEST_SKIP() << "no O_DIRECT here";
  if (iopoll->usable == Usable::yes) GTEST_SKIP() << "this device is polled";
  EXPECT_EQ(iopoll->error, EOPNOTSUPP);
  EXPECT_TRUE(explains(*iopoll));
}

TEST(Probe, LittleLockedMemoryDegradesRegisteredBuffers) {
  const int status = test::run_in_child([] {
    if (!test::limit_locked_memory(128 << 10)) return 77;
    const std::vector<Finding> findings = probe("");
    const Finding* buffers = find(findings, "registered buffers");
    if (buffers == nullptr) return 77;
    if (buffers->usable != Usable::degraded || buffers->error != ENOMEM) return 1;
    return buffers->remedy.find("ulimit -l") != std::string::npos ? 0 : 2;
  });
  if (status == 77) GTEST_SKIP() << "no io_uring, or locked memory cannot be limited here";
  EXPECT_EQ(status, 0);
}

TEST(DirectAlignment, IsTrueToARealRead) {
  const test::TempDir directory;
  const std::string path = directory.file("data");
  const Block block(4 * kBlock, 'd');
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(file.get(), block.data(), block.size()), static_cast<ssize_t>(block.size()));
  ASSERT_EQ(::fsync(file.get()), 0);
  const DirectAlignment alignment = direct_alignment(file.get());
  const Descriptor direct(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  EXPECT_EQ(alignment.supported, direct.get() >= 0);
  if (!alignment.supported) GTEST_SKIP() << "no O_DIRECT here";
  EXPECT_EQ(::pread(direct.get(), block.data() + alignment.memory_bytes, alignment.offset_bytes,
                    static_cast<off_t>(alignment.offset_bytes)),
            static_cast<ssize_t>(alignment.offset_bytes));
}

TEST(DirectAlignment, OfAClosedDescriptorIsUnsupported) {
  EXPECT_FALSE(direct_alignment(-1).supported);
}

TEST(BestBackend, KeepsWhatWorks) {
  BackendOptions wanted;
  wanted.kind = Kind::threads;
  wanted.entries = 7;
  std::string why;
  const BackendOptions best = best_backend(wanted, why);
  EXPECT_EQ(best.kind, Kind::threads);
  EXPECT_EQ(best.entries, 7u);
  EXPECT_EQ(why, "");
}

TEST(BestBackend, NeedsSpareCoresForSqpoll) {
  BackendOptions wanted;
  wanted.mode = UringMode::sqpoll;
  std::string why;
  const BackendOptions best = best_backend(wanted, why);
  if (online_cores() > 2) GTEST_SKIP() << "there are cores to spare here";
  EXPECT_EQ(best.mode, UringMode::plain);
  EXPECT_NE(why.find("cores"), std::string::npos);
}

}  // namespace
}  // namespace ioweave::engine

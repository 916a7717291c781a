// Against real processes: children of the test that do one thing after the other on request.

#include "stream/watch/proc_files.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stepping_child.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::stream {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;

constexpr uint64_t kMiB = 1u << 20;

class ProcFiles : public ::testing::Test {
 protected:
  ProcFiles() {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(ftruncate(fd, 4 * kMiB), 0);
    close(fd);
  }
  [[nodiscard]] Child::Step opens(int flags) const {
    return [this, flags] { return open(path.c_str(), flags | O_CLOEXEC); };
  }
  /// The file as the process has it open, if at all.
  [[nodiscard]] std::vector<OpenFile> found(pid_t process, uint64_t least_bytes = kMiB) const {
    struct stat status {};
    EXPECT_EQ(stat(path.c_str(), &status), 0);
    std::vector<OpenFile> files = open_files_of(process, least_bytes).files;
    std::erase_if(files, [&](const OpenFile& file) { return file.id != FileId::of(status); });
    return files;
  }

  /// The file as the process has it mapped.
  [[nodiscard]] std::vector<Mapping> mapped_by(pid_t process, uint64_t least_bytes = kMiB) const {
    std::vector<Mapping> mappings = mappings_of(process, least_bytes).files;
    std::erase_if(mappings, [&](const Mapping& mapping) { return mapping.path != path; });
    return mappings;
  }

  test::TempDir directory;
  const std::string path = directory.file("data");
};

// ---- What a process has open --------------------------------------------------------------------

TEST_F(ProcFiles, AFileIsFoundFromOpenToClose) {
  int fd = -1;
  Child child(
      {[&] { return fd = open(path.c_str(), O_RDONLY | O_CLOEXEC); }, [&] { return close(fd); }});
  EXPECT_THAT(found(child.pid()), IsEmpty());
  const auto opened = static_cast<int>(child.go());
  const std::vector<OpenFile> files = found(child.pid());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].fd, opened);
  EXPECT_EQ(files[0].bytes, 4 * kMiB);
  EXPECT_EQ(path_of(child.pid(), opened), path);
  EXPECT_EQ(child.go(), 0);
  EXPECT_THAT(found(child.pid()), IsEmpty());
  EXPECT_EQ(path_of(child.pid(), opened), "");
}

TEST_F(ProcFiles, RingsAndContextsOfAsynchronousIoAreKnown) {
  constexpr unsigned kEntries = 1;
  io_uring_params parameters{};
  aio_context_t context = 0;
  Child child({[&] { return syscall(SYS_io_uring_setup, kEntries, &parameters); },
               [&] { return syscall(SYS_io_setup, kEntries, &context); }});
  EXPECT_FALSE(open_files_of(child.pid(), kMiB).has_io_uring);
  EXPECT_FALSE(mappings_of(child.pid(), kMiB).has_aio);
  const bool has_io_uring = child.go() >= 0;
  EXPECT_EQ(open_files_of(child.pid(), kMiB).has_io_uring, has_io_uring);
  const bool has_aio = child.go() == 0;
  EXPECT_EQ(mappings_of(child.pid(), kMiB).has_aio, has_aio);
}

TEST_F(ProcFiles, SmallFilesAreNotFound) {
  Child child({opens(O_RDONLY)});
  child.go();
  EXPECT_EQ(found(child.pid(), 4 * kMiB).size(), 1u);
  EXPECT_THAT(found(child.pid(), 4 * kMiB + 1), IsEmpty());
}

TEST_F(ProcFiles, AnOpenFileTellsWhetherItIsReadOrWritten) {
  for (const auto& [mode, is_read, is_written] :
       {std::tuple(O_RDONLY, true, false), {O_WRONLY, false, true}, {O_RDWR, true, true}}) {
    Child child({opens(mode)});
    child.go();
    const std::vector<OpenFile> files = found(child.pid());
    ASSERT_EQ(files.size(), 1u);
    EXPECT_EQ(files[0].is_read, is_read);
    EXPECT_EQ(files[0].is_written, is_written);
  }
}

TEST_F(ProcFiles, WritesThatWaitForTheDeviceAreKnown) {
  for (const auto& [mode, is_deferred] : {std::pair(O_WRONLY, true),
                                          {O_RDWR, true},
                                          {O_RDONLY, false},
                                          {O_WRONLY | O_SYNC, false},
                                          {O_WRONLY | O_DSYNC, false},
                                          {O_RDWR | O_DIRECT, false}}) {
    Child child({opens(mode)});
    const auto fd = static_cast<int>(child.go());
    const std::optional<Position> position = ProcFile::of_position(child.pid(), fd).position();
    ASSERT_TRUE(position);
    EXPECT_EQ(position->deferred_write, is_deferred) << mode;
  }
}

TEST_F(ProcFiles, TheSizeOfAnOpenFileIsKnown) {
  Child child({opens(O_RDWR), [] { return 0; }});
  child.go();
  OpenFile file = found(child.pid()).at(0);
  EXPECT_EQ(bytes_of(child.pid(), file).value().bytes, 4 * kMiB);
  EXPECT_TRUE(bytes_of(child.pid(), file)->has_name);
  EXPECT_EQ(truncate(path.c_str(), 5), 0);
  EXPECT_EQ(bytes_of(child.pid(), file).value().bytes, 5u);
  EXPECT_EQ(unlink(path.c_str()), 0);
  EXPECT_FALSE(bytes_of(child.pid(), file).value().has_name);
  EXPECT_EQ(file_system_of(child.pid(), file.fd).has_value(), true);
  ++file.id.inode;
  EXPECT_FALSE(bytes_of(child.pid(), file));
}

TEST_F(ProcFiles, AProcessThatHasEndedHasNone) {
  Child child({opens(O_RDONLY)});
  const auto fd = static_cast<int>(child.go());
  const ProcFile position = ProcFile::of_position(child.pid(), fd);
  const ProcFile totals = ProcFile::of_totals(child.pid());
  const OpenFile file = found(child.pid()).at(0);
  ASSERT_TRUE(position.position());
  child.end();
  EXPECT_FALSE(position.position());
  EXPECT_FALSE(totals.totals());
  EXPECT_THAT(open_files_of(child.pid(), 0).files, IsEmpty());
  EXPECT_LT(open_again(child.pid(), file), 0);
}

TEST_F(ProcFiles, WhoHearsOfOpensIsKnown) {
  Child child({[] { return inotify_init1(IN_CLOEXEC); }});
  EXPECT_FALSE(open_files_of(child.pid(), kMiB).hears_of_opens);
  ASSERT_GE(child.go(), 0);
  EXPECT_TRUE(open_files_of(child.pid(), kMiB).hears_of_opens);
}

TEST_F(ProcFiles, ByFanotifyToo) {
  Child child({[] { return fanotify_init(FAN_CLOEXEC | FAN_CLASS_NOTIF, O_RDONLY); }});
  if (child.go() < 0) GTEST_SKIP() << "no fanotify for this user";
  EXPECT_TRUE(open_files_of(child.pid(), kMiB).hears_of_opens);
}

// ---- Positions ----------------------------------------------------------------------------------

TEST_F(ProcFiles, ThePositionFollowsTheReader) {
  int fd = -1;
  char buffer[1000];
  Child child({[&] { return fd = open(path.c_str(), O_RDONLY | O_CLOEXEC); },
               [&] { return read(fd, buffer, sizeof buffer); },
               [&] { return pread(fd, buffer, sizeof buffer, 5); },
               [&] { return lseek(fd, int64_t{1} << 40, SEEK_SET); }, [&] { return close(fd); }});
  const auto opened = static_cast<int>(child.go());
  const ProcFile file = ProcFile::of_position(child.pid(), opened);
  const auto offset = [&] { return file.position().value().offset; };
  EXPECT_EQ(offset(), 0u);
  EXPECT_TRUE(file.position()->buffered_read);
  EXPECT_FALSE(file.position()->leased);
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(file.position()->inode, found.st_ino);
  child.go();
  EXPECT_EQ(offset(), 1000u);
  child.go();
  EXPECT_EQ(offset(), 1000u) << "a read at an offset moves nothing";
  child.go();
  EXPECT_EQ(offset(), uint64_t{1} << 40);
  child.go();
  EXPECT_FALSE(file.position());
}

TEST_F(ProcFiles, TotalsCountReadsOfAnyKind) {
  int fd = -1;
  std::vector<char> buffer(3000);
  Child child({[&] { return fd = open(path.c_str(), O_RDONLY | O_CLOEXEC); },
               [&] { return read(fd, buffer.data(), 1000) + pread(fd, buffer.data(), 3000, 0); }});
  child.go();
  const ProcFile file = ProcFile::of_totals(child.pid());
  const std::optional<IoTotals> before = file.totals();
  ASSERT_TRUE(before);
  ASSERT_EQ(child.go(), 4000);
  const std::optional<IoTotals> after = file.totals();
  ASSERT_TRUE(after);
  EXPECT_GE(after->read_bytes - before->read_bytes, 4000u);  // and the orders by pipe
  EXPECT_LE(after->read_bytes - before->read_bytes, 4010u);
  EXPECT_GE(after->read_calls - before->read_calls, 2u);
}

TEST_F(ProcFiles, WhoHasRunIsKnown) {
  Child child({[] { return 0; },
               [] {
                 std::thread([] { pause(); }).detach();
                 return 0;
               }});
  const ProcFile file = ProcFile::of_runs(child.pid());
  std::string before = file.runs();
  if (before.empty()) GTEST_SKIP() << "this kernel has no /proc/PID/schedstat";
  // Until it waits for its first order.
  for (std::string last; std::exchange(last, before) != before; before = file.runs()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(file.runs(), before);
  child.go();
  EXPECT_NE(file.runs(), before);
  EXPECT_TRUE(has_one_thread(child.pid()));
  child.go();
  EXPECT_FALSE(has_one_thread(child.pid()));
  child.end();
  EXPECT_FALSE(has_one_thread(child.pid()));
  EXPECT_EQ(file.runs(), "");
}

TEST_F(ProcFiles, WhatIsNotReadThroughThePageCacheIsKnown) {
  Child child({opens(O_WRONLY), opens(O_RDWR), opens(O_PATH), opens(O_RDONLY | O_DIRECT)});
  const auto is_buffered = [&] {
    const auto fd = static_cast<int>(child.go());
    if (fd < 0) return false;  // no O_DIRECT here
    const std::optional<Position> position = ProcFile::of_position(child.pid(), fd).position();
    return position.has_value() && position->buffered_read;
  };
  EXPECT_FALSE(is_buffered()) << "write-only";
  EXPECT_TRUE(is_buffered()) << "read and write";
  EXPECT_FALSE(is_buffered()) << "O_PATH";
  EXPECT_FALSE(is_buffered()) << "O_DIRECT";
}

TEST_F(ProcFiles, ALeaseIsSeenAndLooksDoNotBreakIt) {
  int fd = -1;
  Child child({[&] { return fd = open(path.c_str(), O_RDWR | O_CLOEXEC); },
               [&] { return fcntl(fd, F_SETLEASE, F_WRLCK); },
               [&] { return fcntl(fd, F_GETLEASE); },
               [&] { return fcntl(fd, F_SETLEASE, F_UNLCK); }});
  const auto opened = static_cast<int>(child.go());
  const ProcFile file = ProcFile::of_position(child.pid(), opened);
  EXPECT_FALSE(file.position().value().leased);
  if (child.go() != 0) GTEST_SKIP() << "no leases on this file system";
  EXPECT_TRUE(file.position().value().leased);
  EXPECT_EQ(found(child.pid()).size(), 1u);
  EXPECT_EQ(child.go(), F_WRLCK);
  child.go();
  EXPECT_FALSE(file.position().value().leased);
}

TEST_F(ProcFiles, AMovedProcFileIsTheSame) {
  Child child({opens(O_RDONLY)});
  const auto fd = static_cast<int>(child.go());
  ProcFile first = ProcFile::of_position(child.pid(), fd);
  ProcFile second(std::move(first));
  EXPECT_TRUE(second.position());
  ProcFile third;
  EXPECT_FALSE(third.position());
  third = std::move(second);
  EXPECT_TRUE(third.position());
}

// ---- A descriptor of our own --------------------------------------------------------------------

TEST_F(ProcFiles, OpenedAgainItIsAnOpenFileOfItsOwn) {
  Child child({opens(O_RDWR)});
  child.go();
  const OpenFile file = found(child.pid()).at(0);
  const int fd = open_again(child.pid(), file);
  if (fd == -ESTALE) GTEST_SKIP() << "the test's folder is in memory";
  ASSERT_GE(fd, 0);
  EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(lseek(fd, 77, SEEK_SET), 77);
  EXPECT_EQ(ProcFile::of_position(child.pid(), file.fd).position().value().offset, 0u);
  close(fd);
}

TEST_F(ProcFiles, ARemovedFileCanBeOpenedAgain) {
  Child child({opens(O_RDONLY)});
  child.go();
  const OpenFile file = found(child.pid()).at(0);
  ASSERT_EQ(unlink(path.c_str()), 0);
  const int fd = open_again(child.pid(), file);
  if (fd == -ESTALE) GTEST_SKIP() << "the test's folder is in memory";
  EXPECT_GE(fd, 0);
  close(fd);
}

TEST_F(ProcFiles, AnotherFileUnderTheSameNumberIsNotOpened) {
  int fd = -1;
  int ends[2];
  ASSERT_EQ(mkfifo(directory.file("fifo").c_str(), 0600), 0);
  Child child({[&] { return fd = open(path.c_str(), O_RDONLY | O_CLOEXEC); },
               [&] {
                 close(fd);
                 return open(directory.file("fifo").c_str(), O_RDWR | O_CLOEXEC);
               },
               [&] { return pipe2(ends, O_CLOEXEC) == 0 ? dup2(ends[1], fd) : -1; }});
  child.go();
  const OpenFile file = found(child.pid()).at(0);
  ASSERT_EQ(child.go(), file.fd);
  EXPECT_LT(open_again(child.pid(), file), 0);
  ASSERT_EQ(child.go(), file.fd);
  EXPECT_LT(open_again(child.pid(), file), 0);
}

TEST_F(ProcFiles, AFileInMemoryIsNotOpenedAgain) {
  const int memory = memfd_create("data", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(memory, 4 * kMiB), 0);
  struct stat status {};
  ASSERT_EQ(fstat(memory, &status), 0);
  const OpenFile file{memory, status.st_dev, status.st_ino, 4 * kMiB};
  EXPECT_EQ(open_again(getpid(), file), -ESTALE);
  close(memory);
}

// ---- What a process has mapped ------------------------------------------------------------------

TEST_F(ProcFiles, AMappingIsFoundAsLongAsItStands) {
  void* mapped = nullptr;
  Child child({[&] {
                 const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
                 mapped = mmap(nullptr, 2 * kMiB, PROT_READ, MAP_SHARED, fd, kMiB);
                 close(fd);
                 return static_cast<int64_t>(reinterpret_cast<uintptr_t>(mapped));
               },
               [&] { return munmap(mapped, 2 * kMiB); }});
  EXPECT_THAT(mapped_by(child.pid()), IsEmpty());
  const auto address = static_cast<uint64_t>(child.go());
  const std::vector<Mapping> mappings = mapped_by(child.pid());
  ASSERT_EQ(mappings.size(), 1u);
  EXPECT_EQ(mappings[0].address, address);
  EXPECT_EQ(mappings[0].bytes, 2 * kMiB);
  EXPECT_EQ(mappings[0].file_offset, kMiB);
  EXPECT_EQ(mappings[0].file_bytes, 4 * kMiB);
  EXPECT_EQ(mappings[0].path, path);
  EXPECT_THAT(mapped_by(child.pid(), 2 * kMiB + 1), IsEmpty());
  EXPECT_EQ(child.go(), 0);
  EXPECT_THAT(mapped_by(child.pid()), IsEmpty());
}

TEST_F(ProcFiles, WhatIsMappedToBeExecutedOrBehindTheEndOfItsFileIsNotFound) {
  const auto maps = [this](int protection, off_t offset) {
    return [this, protection, offset] {
      const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
      return mmap(nullptr, kMiB, protection, MAP_PRIVATE, fd, offset) == MAP_FAILED ? -1 : 0;
    };
  };
  Child child({maps(PROT_NONE, 0), maps(PROT_READ, 4 * kMiB), maps(PROT_READ, 3 * kMiB),
               maps(PROT_READ | PROT_EXEC, 0)});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(child.go(), 0);
    EXPECT_THAT(mapped_by(child.pid()), IsEmpty()) << i;
  }
  EXPECT_EQ(child.go(), 0);
  EXPECT_EQ(mapped_by(child.pid()).size(), 1u);
  EXPECT_EQ(child.go(), 0);
  EXPECT_THAT(mapped_by(child.pid()), IsEmpty()) << "a library";
}

TEST_F(ProcFiles, ARemovedOrReplacedFileIsNotTakenForWhatIsMapped) {
  Child child({[&] {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    return mmap(nullptr, 4 * kMiB, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0;
  }});
  ASSERT_EQ(child.go(), 0);
  const std::vector<Mapping> before = mapped_by(child.pid());
  ASSERT_EQ(before.size(), 1u);
  const int ours = open_again(child.pid(), before[0]);
  EXPECT_GE(ours, 0);
  close(ours);
  ASSERT_EQ(unlink(path.c_str()), 0);
  EXPECT_THAT(mapped_by(child.pid()), IsEmpty());
  EXPECT_EQ(open_again(child.pid(), before[0]), -ENOENT);
  const int other = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(ftruncate(other, 4 * kMiB), 0);
  close(other);
  EXPECT_EQ(open_again(child.pid(), before[0]), -ESTALE);
}

TEST_F(ProcFiles, TouchedPagesAreCountedUpToTheFirstHole) {
  constexpr uint64_t kMost = 4 * kMiB;
  const char* mapped = nullptr;
  const auto touches = [&](uint64_t from, uint64_t until) {
    return [&, from, until] {
      for (uint64_t at = from; at < until; at += 4096) {
        static_cast<void>(static_cast<const volatile char*>(mapped)[at]);
      }
      return 0;
    };
  };
  Child child({[&] {
                 const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
                 mapped =
                     static_cast<const char*>(mmap(nullptr, kMost, PROT_READ, MAP_SHARED, fd, 0));
                 close(fd);
                 madvise(const_cast<char*>(mapped), kMost, MADV_NOHUGEPAGE);
                 return static_cast<int64_t>(reinterpret_cast<uintptr_t>(mapped));
               },
               touches(0, kMiB), touches(3 * kMiB, 4 * kMiB), touches(kMiB, 3 * kMiB),
               [&] {
                 void* const memory =
                     mmap(const_cast<char*>(mapped), kMost, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0);
                 return memory == mapped ? 0 : -1;
               }});
  const auto address = static_cast<uint64_t>(child.go());
  const ProcFile pages = ProcFile::of_pages(child.pid());
  const auto around = [](uint64_t bytes) {  // a fault brings in its surroundings
    return ::testing::AllOf(::testing::Ge(bytes), ::testing::Le(bytes + (64 << 10)));
  };
  EXPECT_EQ(pages.touched_bytes(address, kMost), 0u);
  child.go();
  EXPECT_THAT(pages.touched_bytes(address, kMost), ::testing::Optional(around(kMiB)));
  EXPECT_EQ(pages.touched_bytes(address, kMiB / 2), kMiB / 2);
  child.go();
  EXPECT_THAT(pages.touched_bytes(address, kMost), ::testing::Optional(around(kMiB)));
  child.go();
  EXPECT_EQ(pages.touched_bytes(address, kMost), kMost);
  EXPECT_EQ(child.go(), 0);
  EXPECT_EQ(pages.touched_bytes(address, kMost), 0u);
  child.end();
  EXPECT_EQ(pages.touched_bytes(address, kMost), std::nullopt);
}

// ---- Families -----------------------------------------------------------------------------------

// ---- Whether a process waits

/// A parent of vfork(2) sleeps as one does that waits for a page.
int64_t wait_unwakeably() {
  const pid_t child = vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork)
  if (child == 0) {
    pause();
    _exit(0);
  }
  return 0;
}

bool comes_to_wait(pid_t process) {
  for (int i = 0; i < 500; ++i) {
    if (waits_for_storage(process)) return true;
    usleep(1000);
  }
  return false;
}

void end_of_family(pid_t process) {
  for (const pid_t one : family_of(process)) kill(one, SIGKILL);
  waitpid(process, nullptr, 0);
}

TEST_F(ProcFiles, AProcessThatSleepsOrComputesDoesNotWait) {
  const pid_t sleeper = fork();
  if (sleeper == 0) {
    pause();
    _exit(0);
  }
  usleep(20'000);
  EXPECT_FALSE(waits_for_storage(sleeper));
  EXPECT_FALSE(waits_for_storage(getpid()));
  end_of_family(sleeper);
  EXPECT_FALSE(waits_for_storage(sleeper)) << "it is gone";
}

TEST_F(ProcFiles, AnyThreadMayBeTheOneThatWaits) {
  for (const bool in_another_thread : {false, true}) {
    const pid_t reader = fork();
    if (reader == 0) {
      if (in_another_thread) {
        std::thread(wait_unwakeably).join();
      } else {
        wait_unwakeably();
      }
      _exit(0);
    }
    EXPECT_TRUE(comes_to_wait(reader)) << in_another_thread;
    end_of_family(reader);
  }
}

// ---- Whether a device has something to do

TEST_F(ProcFiles, RequestsOfADeviceAreCounted) {
  struct stat status {};
  ASSERT_EQ(stat(".", &status), 0);
  const ProcFile load = ProcFile::of_requests(status.st_dev);
  if (!load.requests()) GTEST_SKIP() << "no block device below the working directory";
  EXPECT_LT(*load.requests(), 1'000'000u);
  EXPECT_EQ(ProcFile::of_requests(0).requests(), std::nullopt) << "a file system without a device";
}

// ---- Whether a process has a processor

TEST_F(ProcFiles, AProcessRunsOrSleeps) {
  EXPECT_TRUE(is_running(getpid()));
  const pid_t sleeper = fork();
  if (sleeper == 0) {
    while (true) pause();
  }
  while (is_running(sleeper)) std::this_thread::yield();  // until it sleeps
  ::kill(sleeper, SIGKILL);
  ASSERT_EQ(::waitpid(sleeper, nullptr, 0), sleeper);
  EXPECT_FALSE(is_running(sleeper));  // it is gone
}

// ---- Families

TEST_F(ProcFiles, AFamilyIsAProcessAndThoseItStarted) {
  std::vector<pid_t> started;
  const auto sleeper = [] {
    const pid_t child = fork();
    if (child == 0) {
      pause();
      _exit(0);
    }
    return child;
  };
  // A child, and a grandchild that a child of it has started.
  Child root({[&] { return int64_t{sleeper()}; },
              [&] {
                int answer[2];
                if (pipe2(answer, O_CLOEXEC) != 0) return int64_t{-1};
                const pid_t middle = fork();
                if (middle == 0) {
                  const pid_t grandchild = sleeper();
                  (void)!write(answer[1], &grandchild, sizeof grandchild);
                  pause();
                  _exit(0);
                }
                pid_t grandchild = -1;
                (void)!read(answer[0], &grandchild, sizeof grandchild);
                return (int64_t{middle} << 32) + grandchild;
              }});
  EXPECT_THAT(family_of(root.pid()), ElementsAre(root.pid()));
  const auto first = static_cast<pid_t>(root.go());
  const int64_t both = root.go();
  const auto middle = static_cast<pid_t>(both >> 32);
  const auto grandchild = static_cast<pid_t>(both & 0xffffffff);
  const std::vector<pid_t> all = family_of(root.pid());
  // A process of the test is nobody's child here.
  EXPECT_THAT(all, Not(Contains(getpid())));
  EXPECT_THAT(all, UnorderedElementsAreArray({root.pid(), first, middle, grandchild}));
  EXPECT_THAT(family_of(middle), ElementsAre(middle, grandchild));
  for (const pid_t process : {first, middle, grandchild}) kill(process, SIGKILL);
}

TEST_F(ProcFiles, ChildrenOfAnyThreadBelongToTheFamily) {
  // The list of children of a process is kept per thread: the child of a thread is found as well.
  Child root({[] {
    static pid_t child;
    pthread_t thread;
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          child = fork();
          if (child == 0) {
            pause();
            _exit(0);
          }
          pause();
          return nullptr;
        },
        nullptr);
    while (__atomic_load_n(&child, __ATOMIC_ACQUIRE) == 0) usleep(1000);
    return int64_t{child};
  }});
  const auto child = static_cast<pid_t>(root.go());
  EXPECT_THAT(family_of(root.pid()), ElementsAre(root.pid(), child));
  kill(child, SIGKILL);
}

TEST_F(ProcFiles, ALongListOfChildrenNamesNoOther) {
  // More than one page of numbers: the last one may not be cut to that of somebody else.
  constexpr int kChildren = 900;
  Child root({[] {
    setpgid(0, 0);
    for (int i = 0; i < kChildren; ++i) {
      const pid_t child = fork();
      if (child < 0) return int64_t{-1};
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
      }
    }
    return int64_t{kChildren};
  }});
  if (root.go() < 0) GTEST_SKIP() << "so many processes are not allowed here";
  const std::vector<pid_t> family = family_of(root.pid());
  const pid_t group = getpgid(root.pid());
  size_t strangers = 0;
  for (const pid_t process : family) strangers += getpgid(process) == group ? 0 : 1;
  EXPECT_EQ(strangers, 0u);
  EXPECT_GT(family.size(), 400u);
}

TEST_F(ProcFiles, NobodyHasNothing) {
  constexpr pid_t kNobody = 1 << 30;
  EXPECT_THAT(family_of(kNobody), ElementsAre(kNobody));
  EXPECT_THAT(open_files_of(kNobody, 0).files, IsEmpty());
  EXPECT_FALSE(ProcFile::of_totals(kNobody).totals());
  EXPECT_FALSE(ProcFile::of_position(kNobody, 0).position());
  EXPECT_EQ(path_of(kNobody, 0), "");
}

}  // namespace
}  // namespace ioweave::stream

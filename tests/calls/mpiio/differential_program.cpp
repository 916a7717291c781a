// A plain MPI program, which now and then plans its reads, or others. It makes a random series of
// calls to MPI-IO by a seed, and each rank notes in a file of its own what they returned: results,
// counts, positions, and what was read. What they read, MPI's rules determine: ranks write apart
// from each other, and a sync, a barrier and a sync are between a write and reads of it by others.
//
// They also do to the file what MPI knows nothing of: children that they fork read it, it is cut
// off by truncate(2), and written by a memory map.
//
// Usage: mpirun -n RANKS mpiio_program FOLDER SEED ROUNDS [threads] [gaps] [shared] [begun]
// [killed]
//   threads: ranks read by several threads, and write by them
//   gaps:    and ranks write through views with gaps, and from memory with gaps
//   shared:  and at the position that they share, at which Open MPI 4.1.4's OMPIO hangs
//   begun:   and by collective calls that return at once, in which Open MPI 4.1.4's ROMIO crashes
//   killed:  the last rank is killed in the last round, as soon as it has read

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mpi.h>

#include "ioweave/mpiio.h"

namespace {

using Bytes = std::vector<unsigned char>;

constexpr MPI_Offset kFileBytes = 3 << 20;
constexpr size_t kMostRead = 300'000;

uint64_t hash_of(const Bytes& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char byte : bytes) {
    hash = (hash ^ byte) * 0x100000001b3;
  }
  return hash;
}

/// The same numbers in every rank, or others in each, by its seed.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  /// 0 to `end` - 1
  int64_t below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }
  bool throws(int of) { return below(of) == 0; }

 private:
  std::mt19937_64 random_;
};

class Program {
 public:
  /// What it does beyond the rest.
  struct Wishes {
    bool has_threads;
    bool writes_gaps;
    bool reads_shared;
    bool begins_collective;
  };
  Program(const std::string& folder, uint64_t seed, const Wishes& wishes)
      : name_(folder + "/data"),
        shared_(seed),
        own_(0),
        has_threads_(wishes.has_threads),
        writes_gaps_(wishes.writes_gaps),
        reads_shared_(wishes.reads_shared),
        begins_collective_(wishes.begins_collective) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    own_ = Dice(seed * 1000 + static_cast<uint64_t>(rank_) + 1);
    log_ = std::fopen((folder + "/log." + std::to_string(rank_)).c_str(), "w");
    if (log_ == nullptr) {
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
  }
  ~Program() { std::fclose(log_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void run(int rounds, bool is_killed) {
    const bool is_victim = is_killed && rank_ + 1 == ranks_;
    try_what_fails();
    fill();
    for (int i = 0; i < rounds; ++i) {
      dies_ = is_victim && i + 1 == rounds;
      const bool is_read_only = shared_.throws(3);
      open(is_read_only ? MPI_MODE_RDONLY : MPI_MODE_RDWR);
      for (int64_t phases = 1 + shared_.below(5); phases > 0; --phases) {
        set_view();
        change(is_read_only);
        read_some();
        if (!is_read_only) {
          write_some();
          if (has_threads_) {
            write_in_threads();
          }
          if (writes_gaps_) {
            write_gaps(true);
            write_gaps(false);
          }
        }
      }
      close();
    }
  }

 private:
  void note(const char* what, int result) {
    int kind = MPI_SUCCESS;
    if (result != MPI_SUCCESS) {
      MPI_Error_class(result, &kind);
    }
    std::fprintf(log_, "%s %d\n", what, kind);
  }
  void note_read(const char* what, int result, MPI_Status* status, MPI_Datatype type,
                 const Bytes& bytes) {
    int count = -1;
    if (result == MPI_SUCCESS && status != nullptr) {
      MPI_Get_elements(status, type, &count);
    }
    std::fprintf(log_, "%s %d %d %016llx\n", what, result != MPI_SUCCESS, count,
                 static_cast<unsigned long long>(hash_of(bytes)));
  }
  void note_position() {
    MPI_Offset at = -1;
    MPI_File_get_position(file_, &at);
    MPI_Offset bytes = -1;
    MPI_File_get_size(file_, &bytes);
    std::fprintf(log_, "at %lld of %lld\n", static_cast<long long>(at),
                 static_cast<long long>(bytes));
  }

  void try_what_fails() {
    MPI_File none;
    note("open of nothing", MPI_File_open(MPI_COMM_WORLD, (name_ + "-none").c_str(),
                                          MPI_MODE_RDONLY, MPI_INFO_NULL, &none));
    const std::string other = name_ + "-write-only";
    note("open to write", MPI_File_open(MPI_COMM_WORLD, other.c_str(),
                                        MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &none));
    int value = 7;
    MPI_Status status;
    note("read of what is written only", MPI_File_read_at(none, 0, &value, 1, MPI_INT, &status));
    note("read of a number below 0", MPI_File_read_at(none, 0, &value, -1, MPI_INT, &status));
    note("read without a type", MPI_File_read_at(none, 0, &value, 1, MPI_DATATYPE_NULL, &status));
    note("close", MPI_File_close(&none));
    std::fprintf(log_, "value %d\n", value);
    note("delete", rank_ == 0 ? MPI_File_delete(other.c_str(), MPI_INFO_NULL) : MPI_SUCCESS);
  }

  void fill() {
    if (rank_ == 0) {
      Bytes bytes(kFileBytes);
      std::mt19937_64 random(4711);
      for (unsigned char& byte : bytes) {
        byte = static_cast<unsigned char>(random());
      }
      std::FILE* const out = std::fopen(name_.c_str(), "w");
      if (out == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), out) != bytes.size()) {
        MPI_Abort(MPI_COMM_WORLD, 2);
      }
      std::fclose(out);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  void open(int mode) {
    MPI_Info hints = some_hints();
    note("open", MPI_File_open(MPI_COMM_WORLD, name_.c_str(), mode, hints, &file_));
    MPI_Info_free(&hints);
    etype_ = MPI_BYTE;
    has_gaps_ = false;
    element_ = 1;
  }
  void close() { note("close", MPI_File_close(&file_)); }

  /// By some of them ROMIO reads in other ways.
  MPI_Info some_hints() {
    constexpr const char* kHints[][2] = {{"direct_read", "true"},
                                         {"romio_cb_read", "enable"},
                                         {"romio_ds_read", "disable"},
                                         {"ind_rd_buffer_size", "65536"},
                                         {"cb_buffer_size", "131072"}};
    MPI_Info hints;
    MPI_Info_create(&hints);
    for (const auto& [key, value] : kHints) {
      if (shared_.throws(4)) {
        MPI_Info_set(hints, key, value);
      }
    }
    return hints;
  }

  /// One of the ways in which a file may be seen. Etypes of one byte or of four.
  void set_view() {
    const MPI_Datatype etype = shared_.throws(2) ? MPI_BYTE : MPI_INT;
    element_ = etype == MPI_BYTE ? 1 : 4;
    MPI_Datatype type = etype;
    const int way = static_cast<int>(shared_.below(7));
    const int blocks = static_cast<int>(1 + shared_.below(6));
    const int length = static_cast<int>(1 + shared_.below(5000));
    const int gap = static_cast<int>(shared_.below(9000));
    switch (way) {
      case 0: {
        MPI_Type_vector(blocks, length, length + gap, etype, &type);
        break;
      }
      case 1: {  // a part of each row for each rank
        const int sizes[2] = {blocks, length * ranks_};
        const int parts[2] = {blocks, length};
        const int begins[2] = {0, length * rank_};
        MPI_Type_create_subarray(2, sizes, parts, begins, MPI_ORDER_C, etype, &type);
        break;
      }
      case 2: {
        std::vector<int> lengths;
        std::vector<int> places;
        for (int i = 0; i < blocks; ++i) {
          lengths.push_back(1 + length / (i + 1));
          places.push_back(i * (length + gap + 1));
        }
        MPI_Type_indexed(blocks, lengths.data(), places.data(), etype, &type);
        break;
      }
      case 3: {  // the ranks' blocks in turn
        MPI_Datatype block;
        MPI_Type_contiguous(length, etype, &block);
        MPI_Type_create_resized(block, 0, MPI_Aint{length} * element_ * ranks_, &type);
        MPI_Type_free(&block);
        break;
      }
      case 4: {
        const int sizes[1] = {blocks * length * ranks_};
        const int kinds[1] = {MPI_DISTRIBUTE_CYCLIC};
        const int pieces[1] = {length};
        const int places[1] = {ranks_};
        MPI_Type_create_darray(ranks_, rank_, 1, sizes, kinds, pieces, places, MPI_ORDER_C, etype,
                               &type);
        break;
      }
      default:
        break;  // without gaps
    }
    if (type != etype) {
      MPI_Type_commit(&type);
    }
    const MPI_Offset begin = shared_.below(1000) * 4;
    note("view", MPI_File_set_view(file_, begin, etype, type, "native", MPI_INFO_NULL));
    etype_ = etype;
    has_gaps_ = type != etype;
    if (type != etype) {
      MPI_Type_free(&type);
    }
  }

  void change(bool is_read_only) {
    if (is_read_only) {
      return;
    }
    switch (shared_.below(10)) {
      case 8: {
        const off_t bytes = kFileBytes / 2 + shared_.below(kFileBytes / 2);
        if (rank_ == 0 && truncate(name_.c_str(), bytes) != 0) {
          std::fprintf(log_, "WRONG\n");
        }
        break;
      }
      case 9:
        store();
        break;
      case 0:
        note("size", MPI_File_set_size(file_, kFileBytes / 2 + shared_.below(kFileBytes)));
        break;
      case 1:
        note("preallocate", MPI_File_preallocate(file_, kFileBytes + shared_.below(100'000)));
        break;
      case 2:
        note("atomicity", MPI_File_set_atomicity(file_, shared_.throws(2)));
        break;
      default:
        break;
    }
    sync();
  }

  /// Writes a page of this rank's own by a memory map.
  void store() {
    constexpr size_t kPage = 4096;
    const off_t at = rank_ * (kFileBytes / 2 / ranks_) / 4096 * 4096;
    const int fd = ::open(name_.c_str(), O_RDWR);
    void* const page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
    if (page == MAP_FAILED) {
      std::fprintf(log_, "WRONG\n");
    } else {
      std::memset(page, static_cast<int>(own_.below(256)), kPage);
      munmap(page, kPage);
    }
    ::close(fd);
  }

  /// A child reads the file by system calls. It ends as children do that call exec, or as others.
  void read_in_child() {
    const off_t at = own_.below(kFileBytes / 4);
    const bool calls_exit = own_.throws(2);
    std::fflush(log_);
    const pid_t child = fork();
    if (child == 0) {
      Bytes bytes(100'000, 0xaa);
      const int fd = ::open(name_.c_str(), O_RDONLY);
      const bool is_read = pread(fd, bytes.data(), bytes.size(), at) != -1;
      const int status = is_read ? static_cast<int>(hash_of(bytes) & 0x7f) : 0xff;
      calls_exit ? std::exit(status) : _exit(status);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::fprintf(log_, "child %d %d\n", WIFEXITED(status), WEXITSTATUS(status));
  }

  /// With a write that may be behind the program still, and reads ahead of it.
  void die() {
    const Bytes bytes(50'000, 0x99);
    MPI_File_write_at(file_, 0, bytes.data(), 1000, etype_, MPI_STATUS_IGNORE);
    std::fflush(log_);
    std::raise(SIGKILL);
  }

  void sync() {
    note("sync", MPI_File_sync(file_));
    MPI_Barrier(MPI_COMM_WORLD);
    note("sync", MPI_File_sync(file_));
  }

  void read_some() {
    note("seek", MPI_File_seek(file_, shared_.below(1000), MPI_SEEK_SET));
    // Patterns that can be foretold, and others.
    const int way = static_cast<int>(shared_.below(begins_collective_ ? 10 : 8));
    const int64_t reads = 1 + shared_.below(24);
    const int count = static_cast<int>(1 + shared_.below(kMostRead / 4 / 4));
    MPI_Offset at = shared_.below(100'000) + rank_ * own_.below(10'000);
    const int64_t stride = shared_.below(2) == 0 ? count : shared_.below(200'000) - 50'000;
    std::vector<MPI_Offset> places;
    for (int64_t i = 0; i < reads; ++i) {
      places.push_back(std::max<MPI_Offset>(at, 0));
      at += own_.throws(20) ? own_.below(50'000) : stride;
    }
    if (own_.throws(3)) {
      plan(places, count);
    }
    if (shared_.throws(2)) {
      note("seek", MPI_File_seek(file_, shared_.below(100), MPI_SEEK_CUR));
    }
    for (const MPI_Offset place : places) {
      read_at(way, place, count);
    }
    if (dies_) {
      die();
    }
    note_position();
    if (own_.throws(8)) {
      read_in_child();
    }
    if (has_threads_) {
      read_in_threads(count);
    }
  }

  /// Rightly, or not. What it returns depends on the library.
  void plan(const std::vector<MPI_Offset>& places, int count) {
    const MPI_Offset wrong = own_.throws(2) ? own_.below(100'000) : 0;
    for (const MPI_Offset place : places) {
      static_cast<void>(iow_mpiio_plan(file_, place + wrong, count, etype_));
    }
  }

  /// By the way of this number. Collective ones are so for all ranks.
  void read_at(int way, MPI_Offset at, int count) {
    if (!may_read(way, at, count)) {
      count = 0;
    }
    // Sometimes with gaps in memory, which must stay as they are.
    MPI_Datatype type = etype_;
    const bool has_gaps = own_.throws(4) && count != 0;
    if (has_gaps) {
      MPI_Type_vector(1 + count / 100, 50, 100, etype_, &type);
      MPI_Type_commit(&type);
      count = 1;
    }
    Bytes bytes(kMostRead + 1000, 0xee);
    MPI_Status status;
    MPI_Request request;
    int result = MPI_SUCCESS;
    switch (way) {
      case 0:
        result = MPI_File_read_at(file_, at, bytes.data(), count, type, &status);
        break;
      case 1:
        result = MPI_File_read(file_, bytes.data(), count, type, &status);
        break;
      case 2:
        result = MPI_File_read_at_all(file_, at, bytes.data(), count, type, &status);
        break;
      case 3:
        result = MPI_File_read_all(file_, bytes.data(), count, type, &status);
        break;
      case 4:
        result = MPI_File_iread_at(file_, at, bytes.data(), count, type, &request);
        if (result == MPI_SUCCESS) {
          result = MPI_Wait(&request, &status);
        }
        break;
      case 5:
        result = MPI_File_iread(file_, bytes.data(), count, type, &request);
        if (result == MPI_SUCCESS) {
          result = MPI_Wait(&request, &status);
        }
        break;
      case 6:
        result = MPI_File_read_at_all_begin(file_, at, bytes.data(), count, type);
        if (result == MPI_SUCCESS) {
          result = MPI_File_read_at_all_end(file_, bytes.data(), &status);
        }
        break;
      case 8:
        result = MPI_File_iread_at_all(file_, at, bytes.data(), count, type, &request);
        if (result == MPI_SUCCESS) {
          result = MPI_Wait(&request, &status);
        }
        break;
      case 9:
        result = MPI_File_iread_all(file_, bytes.data(), count, type, &request);
        if (result == MPI_SUCCESS) {
          result = MPI_Wait(&request, &status);
        }
        break;
      default:
        result = MPI_File_read_all_begin(file_, bytes.data(), count, type);
        if (result == MPI_SUCCESS) {
          result = MPI_File_read_all_end(file_, bytes.data(), &status);
        }
        break;
    }
    note_read("read", result, &status, etype_, bytes);
    if (has_gaps) {
      MPI_Type_free(&type);
    }
  }

  /// Behind the end of the file ROMIO's collective reads, and those of a view with gaps, find what
  /// was in memory.
  bool may_read(int way, MPI_Offset at, int count) {
    const bool is_collective = way == 2 || way == 3 || way >= 6;
    const bool has_offset = way % 2 == 0;
    MPI_Offset position = at;
    MPI_Offset end = 0;
    MPI_Offset bytes = 0;
    if (!has_offset) {
      MPI_File_get_position(file_, &position);
    }
    MPI_File_get_byte_offset(file_, position + count + 50, &end);
    MPI_File_get_size(file_, &bytes);
    return end <= bytes || (!is_collective && !has_gaps_);
  }

  void read_in_threads(int count) {
    if (!may_read(2, MPI_Offset{count} * 18, 0)) {
      return;
    }
    constexpr int kThreads = 3;
    std::vector<Bytes> bytes(kThreads, Bytes(kMostRead, 0xdd));
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        for (int j = 0; j < 6; ++j) {
          MPI_File_read_at(file_, (i * 6 + j) * MPI_Offset{count},
                           bytes[static_cast<size_t>(i)].data(), count, etype_, MPI_STATUS_IGNORE);
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const Bytes& each : bytes) {
      note_read("thread", MPI_SUCCESS, nullptr, etype_, each);
    }
  }

  /// Each rank writes a part of the file of its own, through a view of bytes.
  void write_some() {
    sync();
    note("view", MPI_File_set_view(file_, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    etype_ = MPI_BYTE;
    has_gaps_ = false;
    element_ = 1;
    // Often by the one that may be made behind the program.
    const int way =
        shared_.throws(2) ? 0 : static_cast<int>(shared_.below(begins_collective_ ? 10 : 8));
    MPI_Offset last = 0;
    for (int64_t writes = shared_.below(12); writes > 0; --writes) {
      const MPI_Offset part = kFileBytes / ranks_;
      const int count = static_cast<int>(1 + own_.below(60'000));
      // Now and then over what was just written.
      const MPI_Offset at =
          rank_ * part + (own_.throws(3) ? std::min(last, part - count) : own_.below(part - count));
      last = at - rank_ * part + own_.below(1000);
      Bytes bytes(static_cast<size_t>(count), static_cast<unsigned char>(own_.below(256)));
      MPI_Status status;
      const int result = write_at(way, at, bytes, &status);
      note_read("write", result, &status, MPI_BYTE, bytes);
      // One's own writes are seen at once.
      if (way < kFirstCollectiveWrite && own_.throws(2)) {
        Bytes back(static_cast<size_t>(count), 0xcc);
        const int error = MPI_File_read_at(file_, at, back.data(), count, MPI_BYTE, &status);
        note_read("back", error, &status, MPI_BYTE, back);
        if (back != bytes) {
          std::fprintf(log_, "WRONG\n");
        }
      }
    }
    if (shared_.throws(3) && reads_shared_) {
      read_shared();
    }
    sync();
  }

  static constexpr int kFirstCollectiveWrite = 4;

  /// By the way of this number.
  int write_at(int way, MPI_Offset at, const Bytes& bytes, MPI_Status* status) {
    const auto count = static_cast<int>(bytes.size());
    const unsigned char* const from = bytes.data();
    MPI_Request request = MPI_REQUEST_NULL;
    int result = MPI_SUCCESS;
    MPI_File_seek(file_, at, MPI_SEEK_SET);
    switch (way) {
      case 0:
        return MPI_File_write_at(file_, at, from, count, MPI_BYTE, status);
      case 1:
        return MPI_File_write(file_, from, count, MPI_BYTE, status);
      case 2:
        result = MPI_File_iwrite_at(file_, at, from, count, MPI_BYTE, &request);
        break;
      case 3:
        result = MPI_File_iwrite(file_, from, count, MPI_BYTE, &request);
        break;
      case kFirstCollectiveWrite:
        return MPI_File_write_at_all(file_, at, from, count, MPI_BYTE, status);
      case 5:
        return MPI_File_write_all(file_, from, count, MPI_BYTE, status);
      case 6:
        result = MPI_File_write_at_all_begin(file_, at, from, count, MPI_BYTE);
        return result != MPI_SUCCESS ? result : MPI_File_write_at_all_end(file_, from, status);
      case 7:
        result = MPI_File_write_all_begin(file_, from, count, MPI_BYTE);
        return result != MPI_SUCCESS ? result : MPI_File_write_all_end(file_, from, status);
      case 8:
        result = MPI_File_iwrite_at_all(file_, at, from, count, MPI_BYTE, &request);
        break;
      default:
        result = MPI_File_iwrite_all(file_, from, count, MPI_BYTE, &request);
        break;
    }
    return result != MPI_SUCCESS ? result : MPI_Wait(&request, status);
  }

  /// From memory with gaps, and through a view with gaps, too, or not. Each rank in a part of the
  /// file of its own: MPIs write such by reading, changing and writing what lies between.
  void write_gaps(bool has_view_gaps) {
    const MPI_Datatype etype = shared_.throws(2) ? MPI_BYTE : MPI_INT;
    const int element = etype == MPI_BYTE ? 1 : 4;
    const int blocks = static_cast<int>(2 + shared_.below(4));
    const int length = static_cast<int>(1 + shared_.below(500));
    const int gap = has_view_gaps ? static_cast<int>(1 + shared_.below(900)) : 0;
    MPI_Datatype view;
    MPI_Type_vector(blocks, length, length + gap, etype, &view);
    MPI_Type_commit(&view);
    const MPI_Offset begin = rank_ * (kFileBytes / ranks_);
    note("view", MPI_File_set_view(file_, begin, etype, view, "native", MPI_INFO_NULL));
    MPI_Type_free(&view);
    const int64_t most = int64_t{blocks} * length * 10;  // all of it lies in this rank's part
    for (int64_t writes = 1 + own_.below(8); writes > 0; --writes) {
      const MPI_Offset at = own_.below(most);
      // In memory every second hundred elements of it are left out, or nothing.
      const bool has_gaps = own_.throws(2);
      const auto pieces = static_cast<int>(1 + own_.below(most / 100));
      const int count = pieces * 100;
      MPI_Datatype memory;
      MPI_Type_vector(pieces, 100, 200, etype, &memory);
      MPI_Type_commit(&memory);
      Bytes bytes(static_cast<size_t>(pieces) * 200 * static_cast<size_t>(element));
      for (unsigned char& byte : bytes) {
        byte = static_cast<unsigned char>(own_.below(256));
      }
      MPI_Status status;
      const int result = has_gaps
                             ? MPI_File_write_at(file_, at, bytes.data(), 1, memory, &status)
                             : MPI_File_write_at(file_, at, bytes.data(), count, etype, &status);
      note_read("gaps", result, &status, etype, bytes);
      if (own_.throws(3)) {
        Bytes back(bytes.size(), 0xcc);
        const int error = has_gaps
                              ? MPI_File_read_at(file_, at, back.data(), 1, memory, &status)
                              : MPI_File_read_at(file_, at, back.data(), count, etype, &status);
        note_read("back", error, &status, etype, back);
      }
      MPI_Type_free(&memory);
    }
    sync();
  }

  /// Each in a part of the file of its own, now and then over what it has written.
  void write_in_threads() {
    note("view", MPI_File_set_view(file_, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    etype_ = MPI_BYTE;
    has_gaps_ = false;
    element_ = 1;
    constexpr int kThreads = 3;
    constexpr MPI_Offset kPart = 128 << 10;
    const MPI_Offset of_rank = kFileBytes / ranks_;
    const MPI_Offset begin = rank_ * of_rank + own_.below(of_rank - kThreads * kPart);
    std::vector<std::thread> threads;
    std::vector<Bytes> written(kThreads, Bytes(kPart));
    std::vector<std::vector<bool>> was_written(kThreads, std::vector<bool>(kPart));
    for (int i = 0; i < kThreads; ++i) {
      const auto seed = static_cast<uint64_t>(own_.below(1 << 30));
      threads.emplace_back([&, i, seed] {
        Dice dice(seed);
        for (int j = 0; j < 30; ++j) {
          const int64_t count = 1 + dice.below(dice.throws(4) ? 60'000 : 3000);
          const MPI_Offset at = dice.below(kPart - count);
          unsigned char* const from = written[static_cast<size_t>(i)].data() + at;
          std::fill_n(from, count, static_cast<unsigned char>(dice.below(256)));
          std::fill_n(was_written[static_cast<size_t>(i)].begin() + at, count, true);
          MPI_File_write_at(file_, begin + i * kPart + at, from, static_cast<int>(count), MPI_BYTE,
                            MPI_STATUS_IGNORE);
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (int i = 0; i < kThreads; ++i) {
      Bytes found(kPart, 0xcc);
      MPI_Status status;
      const int result =
          MPI_File_read_at(file_, begin + i * kPart, found.data(), kPart, MPI_BYTE, &status);
      note_read("by a thread", result, &status, MPI_BYTE, found);
      for (size_t at = 0; at < found.size(); ++at) {
        if (was_written[static_cast<size_t>(i)][at] &&
            found[at] != written[static_cast<size_t>(i)][at]) {
          std::fprintf(log_, "WRONG\n");
          break;
        }
      }
    }
    sync();
  }

  void read_shared() {
    sync();
    note("seek", MPI_File_seek_shared(file_, shared_.below(100'000), MPI_SEEK_SET));
    if (shared_.throws(2)) {
      Bytes bytes(1000, static_cast<unsigned char>(own_.below(256)));
      MPI_Status status;
      const int result = MPI_File_write_ordered(file_, bytes.data(), 1000, MPI_BYTE, &status);
      note_read("write", result, &status, MPI_BYTE, bytes);
      sync();
      note("seek", MPI_File_seek_shared(file_, 0, MPI_SEEK_SET));
    }
    for (int i = 0; i < 3; ++i) {
      Bytes bytes(10'000, 0xbb);
      MPI_Status status;
      const int result = MPI_File_read_ordered(file_, bytes.data(), 10'000, MPI_BYTE, &status);
      note_read("ordered", result, &status, MPI_BYTE, bytes);
    }
  }

  const std::string name_;
  Dice shared_;
  Dice own_;
  const bool has_threads_;
  const bool writes_gaps_;
  const bool reads_shared_;
  const bool begins_collective_;
  int rank_ = 0;
  int ranks_ = 1;
  std::FILE* log_ = nullptr;
  MPI_File file_ = MPI_FILE_NULL;
  MPI_Datatype etype_ = MPI_BYTE;
  int element_ = 1;
  bool has_gaps_ = false;  ///< the view
  bool dies_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr,
                 "Usage: %s FOLDER SEED ROUNDS [threads] [gaps] [shared] [begun] [killed]\n",
                 argv[0]);
    return 2;
  }
  const std::vector<std::string> words(argv + 4, argv + argc);
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  int level = 0;
  MPI_Init_thread(&argc, &argv, has("threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  {
    Program program(
        argv[1], std::strtoull(argv[2], nullptr, 10),
        {has("threads") && level == MPI_THREAD_MULTIPLE, has("gaps"), has("shared"), has("begun")});
    program.run(std::atoi(argv[3]), has("killed"));
  }
  MPI_Finalize();
  return 0;
}

// The functions of MPI that the library stands before. Each makes the call that the program made,
// with its arguments, and returns what it returns. Before that, reads are noted: what has been read
// ahead is in the page cache, and what the program will read next is foretold and read ahead.

#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.hpp"
#include "calls/mpiio/open_file.hpp"
#include "calls/mpiio/real_mpi.hpp"
#include "calls/mpiio/session.hpp"
#include "calls/thread_errno.hpp"

namespace ioweave::calls {
namespace {

/// No offset: where the file's own position is.
using Where = std::optional<MPI_Offset>;

/// What a read of so many of a datatype moves: from which element of the view on, and how many
/// bytes.
struct Moved {
  MPI_Offset offset = 0;
  uint64_t bytes = 0;
};

/// Nothing for a read that MPI will refuse.
std::optional<Moved> find_moved(MPI_File handle, Where offset, int count,
                                MPI_Datatype type) noexcept {
  const RealMpi& real = real_mpi();
  MPI_Count size = 0;
  if (count <= 0 || !is_plausible(type) || real.Type_size_x(type, &size) != MPI_SUCCESS ||
      size <= 0 ||
      (!offset.has_value() && real.File_get_position(handle, &offset.emplace()) != MPI_SUCCESS) ||
      *offset < 0) {
    return std::nullopt;
  }
  return Moved{*offset, static_cast<uint64_t>(count) * static_cast<uint64_t>(size)};
}

/// A read of the program's, from before MPI makes it until it has.
class Read {
 public:
  Read(MPI_File handle, Where offset, int count, MPI_Datatype type, bool waits) noexcept {
    const ThreadErrnoKept kept;
    Session* const session = Session::get();
    if (session == nullptr) {
      return;
    }
    session->counts().reads.fetch_add(1, std::memory_order_relaxed);
    file_ = session->find(handle);
    if (file_ == nullptr) {
      return;
    }
    const auto moved = find_moved(handle, offset, count, type);
    if (!moved.has_value() || file_->begin_read(moved->offset, moved->bytes, waits) || !waits) {
      return;
    }
    bytes_ = moved->bytes;
    if (stream::Plan* const plan = session->plan()) {
      activity_.emplace(*plan);
    }
    begin_ns_ = now_ns();
  }
  ~Read() {
    if (begin_ns_ != 0) {
      file_->note_time(bytes_, now_ns() - begin_ns_);
    }
  }
  Read(const Read&) = delete;
  Read& operator=(const Read&) = delete;

 private:
  std::shared_ptr<OpenFile> file_;
  uint64_t bytes_ = 0;
  uint64_t begin_ns_ = 0;
  std::optional<stream::Plan::Activity> activity_;
};

/// A transfer of another kind, which reads ahead let go first.
class OtherTransfer {
 public:
  OtherTransfer() noexcept {
    Session* const session = Session::get();
    if (stream::Plan* const plan = session != nullptr ? session->plan() : nullptr) {
      activity_.emplace(*plan);
    }
  }

 private:
  std::optional<stream::Plan::Activity> activity_;
};

std::shared_ptr<OpenFile> find_file(MPI_File handle) noexcept {
  Session* const session = Session::get();
  return session != nullptr ? session->find(handle) : nullptr;
}

void note_view(MPI_File handle, MPI_Offset offset, MPI_Datatype etype, MPI_Datatype filetype,
               const char* representation) noexcept {
  const ThreadErrnoKept kept;
  const auto file = find_file(handle);
  if (file == nullptr) {
    return;
  }
  FileView view(handle, offset, etype, filetype, representation);
  if (view.element_bytes() == 0) {
    Session::get()->counts().leave_alone(LeftAlone::view);
  }
  file->set_view(std::move(view));
}

/// A function that is exported by both of its names.
#define IOWEAVE_MPI_WRAP(name, parameters)                                                        \
  extern "C" int wrapped_P##name parameters __asm__("PMPI_" #name)                                \
      __attribute__((visibility("default"), alias("MPI_" #name)));                                \
  extern "C"                                                                                      \
      __attribute__((visibility("default"))) int wrapped_##name parameters __asm__("MPI_" #name); \
  extern "C" int wrapped_##name parameters

#define IOWEAVE_MPI_NOTE(name, parameters, arguments, where, waits) \
  IOWEAVE_MPI_WRAP(name, parameters) {                              \
    const Read read(file, where, count, type, waits);               \
    return real_mpi().name arguments;                               \
  }
#define IOWEAVE_MPI_WRAP_READ_AT(name, parameters, arguments) \
  IOWEAVE_MPI_NOTE(name, parameters, arguments, offset, true)
#define IOWEAVE_MPI_WRAP_READ(name, parameters, arguments) \
  IOWEAVE_MPI_NOTE(name, parameters, arguments, std::nullopt, true)
#define IOWEAVE_MPI_WRAP_BEGIN_AT(name, parameters, arguments) \
  IOWEAVE_MPI_NOTE(name, parameters, arguments, offset, false)
#define IOWEAVE_MPI_WRAP_BEGIN(name, parameters, arguments) \
  IOWEAVE_MPI_NOTE(name, parameters, arguments, std::nullopt, false)
#define IOWEAVE_MPI_WRAP_SHARED_READ(name, parameters, arguments) \
  IOWEAVE_MPI_WRAP(name, parameters) {                            \
    if (Session* const session = Session::get()) {                \
      session->counts().leave_alone(LeftAlone::shared_position);  \
    }                                                             \
    const OtherTransfer transfer;                                 \
    return real_mpi().name arguments;                             \
  }
#define IOWEAVE_MPI_WRAP_WRITE(name, parameters, arguments) \
  IOWEAVE_MPI_WRAP(name, parameters) {                      \
    const OtherTransfer transfer;                           \
    return real_mpi().name arguments;                       \
  }

IOWEAVE_MPI_READS_AT(IOWEAVE_MPI_WRAP_READ_AT)
IOWEAVE_MPI_READS(IOWEAVE_MPI_WRAP_READ)
IOWEAVE_MPI_BEGINS_AT(IOWEAVE_MPI_WRAP_BEGIN_AT)
IOWEAVE_MPI_BEGINS(IOWEAVE_MPI_WRAP_BEGIN)
IOWEAVE_MPI_SHARED_READS(IOWEAVE_MPI_WRAP_SHARED_READ)
IOWEAVE_MPI_WRITES(IOWEAVE_MPI_WRAP_WRITE)

IOWEAVE_MPI_WRAP(File_open,
                 (MPI_Comm comm, const char* name, int mode, MPI_Info info, MPI_File* file)) {
  const int result = real_mpi().File_open(comm, name, mode, info, file);
  if (result == MPI_SUCCESS) {
    const ThreadErrnoKept kept;
    if (Session* const session = Session::get()) {
      session->enter(*file, name, mode);
    }
  }
  return result;
}

IOWEAVE_MPI_WRAP(File_close, (MPI_File * file)) {
  if (file != nullptr) {
    const ThreadErrnoKept kept;
    if (Session* const session = Session::get()) {
      session->leave(*file);
    }
  }
  return real_mpi().File_close(file);
}

IOWEAVE_MPI_WRAP(File_set_size, (MPI_File file, MPI_Offset bytes)) {
  {
    const ThreadErrnoKept kept;
    if (const auto found = find_file(file)) {
      found->forget();
    }
  }
  return real_mpi().File_set_size(file, bytes);
}

IOWEAVE_MPI_WRAP(File_set_view,
                 (MPI_File file, MPI_Offset offset, MPI_Datatype etype, MPI_Datatype filetype,
                  const char* representation, MPI_Info info)) {
  const int result = real_mpi().File_set_view(file, offset, etype, filetype, representation, info);
  if (result == MPI_SUCCESS) {
    note_view(file, offset, etype, filetype, representation);
  }
  return result;
}

IOWEAVE_MPI_WRAP(Finalize, (void)) {
  {
    const ThreadErrnoKept kept;
    if (Session* const session = Session::get()) {
      session->finish();
    }
  }
  return real_mpi().Finalize();
}

/// The contract is in ioweave/mpiio.h.
extern "C" __attribute__((visibility("default"))) int iow_mpiio_plan_read(MPI_File file,
                                                                          MPI_Offset offset,
                                                                          int count,
                                                                          MPI_Datatype type) {
  const ThreadErrnoKept kept;
  const auto found = find_file(file);
  if (found == nullptr) {
    return -ENOTSUP;
  }
  const auto moved = find_moved(file, offset, count, type);
  return moved.has_value() ? found->add_planned(moved->offset, moved->bytes) : -EINVAL;
}

}  // namespace
}  // namespace ioweave::calls

// The functions of MPI that the library stands before. Each makes the call that the program made,
// with its arguments, and returns what it returns. Before that, reads are noted: what has been read
// ahead is in the page cache, and what the program will read next is foretold and read ahead.
//
// Where writes behind the program are wanted, MPI_File_write_at() may leave them to a stream, and
// all else that depends on what a file holds drains it first.

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
std::optional<Moved> find_moved(MPI_File handle, Where offset, MPI_Count count,
                                MPI_Datatype type) noexcept {
  const RealMpi& real = real_mpi();
  MPI_Count size = 0;
  uint64_t bytes = 0;
  if (count <= 0 || !is_plausible(type) || real.Type_size_x(type, &size) != MPI_SUCCESS ||
      size <= 0 ||
      (!offset.has_value() && real.File_get_position(handle, &offset.emplace()) != MPI_SUCCESS) ||
      *offset < 0 || __builtin_mul_overflow(count, size, &bytes) || bytes > INT64_MAX) {
    return std::nullopt;
  }
  return Moved{*offset, bytes};
}

/// A read of the program's, from before MPI makes it until it has.
class Read {
 public:
  Read(MPI_File handle, Where offset, MPI_Count count, TypeWord type, bool waits) noexcept {
    const ThreadErrnoKept kept;
    Session* const session = Session::get();
    if (session == nullptr) {
      return;
    }
    session->counts().reads.fetch_add(1, std::memory_order_relaxed);
    session->drain(handle);
    file_ = session->find(handle);
    if (file_ == nullptr) {
      return;
    }
    const auto moved = find_moved(handle, offset, count, static_cast<MPI_Datatype>(type));
    if (!moved.has_value() || file_->begin_read(moved->offset, moved->bytes, waits)) {
      return;
    }
    bytes_ = moved->bytes;
    stream::Plan* const plan = session->plan();
    if (plan != nullptr && waits) {
      activity_.emplace(*plan);
    }
    begin_ns_ = now_ns();  // also of one that should return at once: some MPIs' do not
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
  explicit OtherTransfer(MPI_File file) noexcept {
    const ThreadErrnoKept kept;
    Session* const session = Session::get();
    if (session == nullptr) {
      return;
    }
    session->drain(file);
    if (stream::Plan* const plan = session->plan()) {
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

void drain(MPI_File handle) noexcept {
  const ThreadErrnoKept kept;
  if (Session* const session = Session::get()) {
    session->drain(handle);
  }
}

/// Whether memory of this type is its bytes, one behind the other.
bool is_plain(MPI_Datatype type, MPI_Count bytes) noexcept {
  const RealMpi& real = real_mpi();
  int count[3] = {};
  int combiner = 0;
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  return real.Type_get_envelope(type, &count[0], &count[1], &count[2], &combiner) == MPI_SUCCESS &&
         combiner == MPI_COMBINER_NAMED &&
         real.Type_get_extent_x(type, &lower, &extent) == MPI_SUCCESS && lower == 0 &&
         extent == bytes;
}

/// Leaves a write of the program's to the stream. False if the program must make it.
bool write_behind(MPI_File handle, MPI_Offset offset, const void* buffer, MPI_Count count,
                  TypeWord word, MPI_Status* status) noexcept {
  const ThreadErrnoKept kept;
  Session* const session = Session::get();
  if (session == nullptr || !session->writes_behind()) {
    return false;
  }
  const auto type = static_cast<MPI_Datatype>(word);
  const Session::Tracked tracked = session->find_to_write(handle);
  if (tracked.writer == nullptr) {
    return false;
  }
  const auto moved = find_moved(handle, offset, count, type);
  if (!moved.has_value()) {
    return false;
  }
  const auto range = is_plain(type, static_cast<MPI_Count>(moved->bytes) / count)
                         ? tracked.file->find_written(moved->offset, moved->bytes)
                         : std::nullopt;
  if (!range.has_value() || range->offset > INT64_MAX - range->bytes) {
    session->counts().leave_alone(LeftAlone::write);
    return false;
  }
  if (!tracked.writer->take(*range, buffer)) {
    return false;
  }
  session->counts().behind_writes.fetch_add(1, std::memory_order_relaxed);
  session->counts().behind_bytes.fetch_add(moved->bytes, std::memory_order_relaxed);
  if (status != MPI_STATUS_IGNORE) {
    real_mpi().Status_set_cancelled(status, 0);
    real_mpi().Status_set_elements_x(status, type, count);
  }
  return true;
}

/// What was written before is there, whoever looks for it now.
void drain_all() noexcept {
  const ThreadErrnoKept kept;
  if (Session* const session = Session::opened()) {
    session->drain_all();
  }
}

/// Reports a write behind the program that failed, as MPI would have reported it.
int report_error(MPI_File file, int error) noexcept {
  drain_all();  // the handler may end the process
  int code = MPI_ERR_IO;
  if (error == -ENOSPC) {
    code = MPI_ERR_NO_SPACE;
  } else if (error == -EDQUOT) {
    code = MPI_ERR_QUOTA;
  }
  real_mpi().File_call_errhandler(file, code);
  return code;
}

void note_view(MPI_File handle, MPI_Offset offset, TypeWord etype, TypeWord filetype,
               const char* representation) noexcept {
  const ThreadErrnoKept kept;
  const auto file = find_file(handle);
  if (file == nullptr) {
    return;
  }
  FileView view(handle, offset, static_cast<MPI_Datatype>(etype),
                static_cast<MPI_Datatype>(filetype), representation);
  if (view.element_bytes() == 0) {
    Session::get()->counts().leave_alone(LeftAlone::view);
  }
  file->set_view(std::move(view));
}

/// A function that is exported by both of its names. By the one that programs use it may be a
/// tool's first.
#define IOWEAVE_MPI_WRAP(name, parameters, arguments)                                             \
  extern "C" __attribute__((visibility("default"))) int wrapped_P##name parameters __asm__(       \
      "PMPI_" #name);                                                                             \
  extern "C"                                                                                      \
      __attribute__((visibility("default"))) int wrapped_##name parameters __asm__("MPI_" #name); \
  extern "C" int wrapped_##name parameters {                                                      \
    const auto tool = tool_mpi().name;                                                            \
    return tool != nullptr ? tool arguments : wrapped_P##name arguments;                          \
  }                                                                                               \
  extern "C" int wrapped_P##name parameters

#define IOWEAVE_MPI_NOTE(name, parameters, arguments, where, waits) \
  IOWEAVE_MPI_WRAP(name, parameters, arguments) {                   \
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
  IOWEAVE_MPI_WRAP(name, parameters, arguments) {                 \
    if (Session* const session = Session::get()) {                \
      session->counts().leave_alone(LeftAlone::shared_position);  \
    }                                                             \
    const OtherTransfer transfer(file);                           \
    return real_mpi().name arguments;                             \
  }
#define IOWEAVE_MPI_WRAP_WRITE(name, parameters, arguments) \
  IOWEAVE_MPI_WRAP(name, parameters, arguments) {           \
    const OtherTransfer transfer(file);                     \
    return real_mpi().name arguments;                       \
  }

#define IOWEAVE_MPI_WRAP_WRITE_AT(name, parameters, arguments)     \
  IOWEAVE_MPI_WRAP(name, parameters, arguments) {                  \
    if (write_behind(file, offset, buffer, count, type, status)) { \
      return MPI_SUCCESS;                                          \
    }                                                              \
    const OtherTransfer transfer(file);                            \
    return real_mpi().name arguments;                              \
  }
#define IOWEAVE_MPI_WRAP_LOOK(name, parameters, arguments) \
  IOWEAVE_MPI_WRAP(name, parameters, arguments) {          \
    drain(file);                                           \
    return real_mpi().name arguments;                      \
  }

IOWEAVE_MPI_READS_AT(IOWEAVE_MPI_WRAP_READ_AT)
IOWEAVE_MPI_READS(IOWEAVE_MPI_WRAP_READ)
IOWEAVE_MPI_BEGINS_AT(IOWEAVE_MPI_WRAP_BEGIN_AT)
IOWEAVE_MPI_BEGINS(IOWEAVE_MPI_WRAP_BEGIN)
IOWEAVE_MPI_SHARED_READS(IOWEAVE_MPI_WRAP_SHARED_READ)
IOWEAVE_MPI_WRITES_AT(IOWEAVE_MPI_WRAP_WRITE_AT)
IOWEAVE_MPI_WRITES(IOWEAVE_MPI_WRAP_WRITE)
IOWEAVE_MPI_LOOKS(IOWEAVE_MPI_WRAP_LOOK)

IOWEAVE_MPI_WRAP(File_seek, (MPI_File file, MPI_Offset offset, int whence),
                 (file, offset, whence)) {
  if (whence == MPI_SEEK_END) {
    drain(file);
  }
  return real_mpi().File_seek(file, offset, whence);
}

IOWEAVE_MPI_WRAP(File_seek_shared, (MPI_File file, MPI_Offset offset, int whence),
                 (file, offset, whence)) {
  Session* const session = Session::get();
  if (whence == MPI_SEEK_END && session != nullptr && session->writes_behind()) {
    drain(file);
    // One rank looks for the end for all: not before all have drained. MPIs leave this call
    // together.
    static_cast<void>(real_mpi().File_seek_shared(file, 0, MPI_SEEK_SET));
  }
  return real_mpi().File_seek_shared(file, offset, whence);
}

IOWEAVE_MPI_WRAP(File_sync, (MPI_File file), (file)) {
  int error = 0;
  {
    const ThreadErrnoKept kept;
    if (Session* const session = Session::get()) {
      error = session->take_error(file);
    }
  }
  const OtherTransfer transfer(file);
  const int result = real_mpi().File_sync(file);
  return error != 0 && result == MPI_SUCCESS ? report_error(file, error) : result;
}

IOWEAVE_MPI_WRAP(File_set_atomicity, (MPI_File file, int is_atomic), (file, is_atomic)) {
  {
    const ThreadErrnoKept kept;
    Session* const session = Session::get();
    if (session != nullptr && session->writes_behind()) {
      session->set_atomic(file, is_atomic != 0);
    }
  }
  return real_mpi().File_set_atomicity(file, is_atomic);
}

IOWEAVE_MPI_WRAP(File_open,
                 (CommWord comm, const char* name, int mode, InfoWord info, MPI_File* file),
                 (comm, name, mode, info, file)) {
  drain_all();  // it may be a file that is open already
  const int result = real_mpi().File_open(comm, name, mode, info, file);
  if (result == MPI_SUCCESS) {
    const ThreadErrnoKept kept;
    if (Session* const session = Session::get()) {
      session->enter(*file, static_cast<MPI_Comm>(comm), name, mode);
    }
  }
  return result;
}

IOWEAVE_MPI_WRAP(File_close, (MPI_File * file), (file)) {
  Session::Left left;
  if (file != nullptr) {
    const ThreadErrnoKept kept;
    if (Session* const session = Session::get()) {
      left = session->leave(*file);
    }
  }
  // While there is a file to report it of.
  const int code = left.error != 0 ? report_error(*file, left.error) : MPI_SUCCESS;
  const int result = real_mpi().File_close(file);
  const ThreadErrnoKept kept;
  left = {};
  return result == MPI_SUCCESS ? code : result;
}

IOWEAVE_MPI_WRAP(File_set_size, (MPI_File file, MPI_Offset bytes), (file, bytes)) {
  {
    const ThreadErrnoKept kept;
    if (const auto found = find_file(file)) {
      found->forget();
    }
  }
  drain(file);
  return real_mpi().File_set_size(file, bytes);
}

IOWEAVE_MPI_WRAP(File_set_view,
                 (MPI_File file, MPI_Offset offset, TypeWord etype, TypeWord filetype,
                  const char* representation, InfoWord info),
                 (file, offset, etype, filetype, representation, info)) {
  const int result = real_mpi().File_set_view(file, offset, etype, filetype, representation, info);
  if (result == MPI_SUCCESS) {
    note_view(file, offset, etype, filetype, representation);
  }
  return result;
}

/// A program may end without MPI_Finalize().
__attribute__((destructor)) void end_writes() {
  const ThreadErrnoKept kept;
  if (Session* const session = Session::opened()) {
    session->end_writes();
  }
}

IOWEAVE_MPI_WRAP(Abort, (CommWord comm, int code), (comm, code)) {
  end_writes();
  return real_mpi().Abort(comm, code);
}

IOWEAVE_MPI_WRAP(Finalize, (void), ()) {
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

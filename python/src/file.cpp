#include "file.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "base/futex.hpp"
#include "gil.hpp"
#include "transfer.hpp"

namespace ioweave::python {
namespace {

constexpr uint32_t kRefused = 1u << 31;  ///< in Users::word_

constexpr const char* kAlignment =
    " (opened with direct=True: the address and length of the buffer and the offset must be "
    "multiples of the device's block, 4096 bytes as a rule; mmap.mmap(-1, n) is such a buffer)";

int64_t or_error(int64_t result) {
  return result < 0 ? -errno : result;
}

}  // namespace

void raise_os_error(int error, const FileName& name) {
  const std::string text =
      std::generic_category().message(error) + (error == EINVAL && name.direct ? kAlignment : "");
  const nb::object path = name.path ? name.path : nb::none();
  // OSError chooses the subclass that belongs to the errno.
  PyErr_SetObject(PyExc_OSError, nb::make_tuple(error, text, path).ptr());
  throw nb::python_error();
}

void raise_path_error(int error, const std::string& path) {
  raise_os_error(error, {path_object(path)});
}

nb::object path_object(const std::string& path) {
  return nb::steal(
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
}

void check_offset(int64_t offset) {
  if (offset < 0) {
    throw nb::value_error(("offset must be 0 or more, not " + std::to_string(offset)).c_str());
  }
}

Py_buffer buffer_of(nb::handle object, const char* method, bool writable) {
  const auto refuse = [&](const std::string& why) {
    PyErr_Clear();
    const std::string type = nb::cast<std::string>(object.type().attr("__name__"));
    throw nb::type_error((std::string(method) + "(): the '" + type + "' " + why).c_str());
  };
  if (PyObject_CheckBuffer(object.ptr()) == 0) {
    refuse("has no buffer; pass bytes, bytearray, memoryview or an array");
  }
  Py_buffer view{};
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_STRIDES) != 0) {
    refuse("does not give its buffer as one block of memory");
  }
  const bool contiguous = PyBuffer_IsContiguous(&view, 'C') != 0;
  if (!contiguous || (writable && view.readonly != 0)) {
    PyBuffer_Release(&view);
    refuse(contiguous ? "is read-only; pass a bytearray, a writable memoryview or array"
                      : "is not C-contiguous; pass a contiguous one, or a copy");
  }
  return view;
}

nb::object new_bytes(int64_t bytes) {
  if (bytes < 0) {
    throw nb::value_error(("n must be 0 or more, not " + std::to_string(bytes)).c_str());
  }
  PyObject* const object = PyBytes_FromStringAndSize(nullptr, bytes);
  if (object == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(object);
}

nb::object shortened(nb::object bytes, int64_t length) {
  if (PyBytes_Size(bytes.ptr()) == length) {
    return bytes;
  }
  PyObject* object = bytes.release().ptr();
  if (_PyBytes_Resize(&object, length) != 0) {
    throw nb::python_error();
  }
  return nb::steal(object);
}

// ---- OpenService -------------------------------------------------------------------------------

OpenService::OpenService(iow_options options, bool keeps_log)
    : log_(keeps_log ? std::make_unique<Log>() : nullptr), service_([&] {
        if (log_ != nullptr) {
          options.log_user = log_.get();
          options.log = [](const char* line, size_t bytes, void* user) {
            Log& log = *static_cast<Log*>(user);
            const std::lock_guard guard(log.lock);
            if (!log.is_stopped) {
              log.text.append(line, bytes) += '\n';
            }
          };
        }
        return options;
      }()) {}

std::string OpenService::take_log() {
  if (log_ == nullptr) {
    return {};
  }
  const std::lock_guard guard(log_->lock);
  return std::exchange(log_->text, {});
}

void OpenService::stop_log() {
  if (log_ != nullptr) {
    const std::lock_guard guard(log_->lock);
    log_->is_stopped = true;
    log_->text.clear();
  }
}

// ---- Users -------------------------------------------------------------------------------------

bool Users::begin() noexcept {
  uint32_t word = word_.load(std::memory_order_relaxed);
  do {
    if ((word & kRefused) != 0) {
      return false;
    }
  } while (!word_.compare_exchange_weak(word, word + 1, std::memory_order_acquire,
                                        std::memory_order_relaxed));
  return true;
}

void Users::end() noexcept {
  if (word_.fetch_sub(1, std::memory_order_acq_rel) == (kRefused | 1)) {
    futex_wake(word_);
  }
}

bool Users::refuse() noexcept {
  return (word_.fetch_or(kRefused, std::memory_order_acq_rel) & kRefused) == 0;
}

void Users::admit() noexcept {
  word_.fetch_and(~kRefused, std::memory_order_release);
}

bool Users::refused() const noexcept {
  return (word_.load(std::memory_order_relaxed) & kRefused) != 0;
}

bool Users::sleep_until_none() noexcept {
  // Acquire pairs with end().
  if (const uint32_t word = word_.load(std::memory_order_acquire); word != kRefused) {
    futex_wait(word_, word);
  }
  return word_.load(std::memory_order_acquire) == kRefused;
}

// ---- Descriptor --------------------------------------------------------------------------------

Descriptor::Descriptor(int fd, nb::object service, nb::object path, bool direct, uint32_t flow)
    : fd_(fd),
      process_(process_generation()),
      service_kept_(std::move(service)),
      service_(nb::cast<OpenService&>(service_kept_).raw()),
      flow_(flow),
      name_{std::move(path), direct} {}

Descriptor::~Descriptor() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

const std::shared_ptr<Users>& Descriptor::begin_use() {
  Remains::let_go_of_all();
  if (!users_->begin()) {
    throw nb::value_error((nb::cast<std::string>(nb::repr(name_.path)) + " is closed").c_str());
  }
  return users_;
}

/// Calls with the descriptor in use; a negative result is -errno.
template <class Call>
int64_t Descriptor::without_gil(const Call& call) {
  begin_use();
  int64_t result = 0;
  {
    const WithoutGil released;
    result = call();
    users_->end();  // while it is certain that this thread goes on
  }
  if (result < 0) {
    raise_os_error(static_cast<int>(-result), name_);
  }
  return result;
}

nb::object Descriptor::pread(int64_t bytes, int64_t offset) {
  check_offset(offset);
  nb::object into = new_bytes(bytes);
  char* const to = PyBytes_AsString(into.ptr());
  const int64_t moved =
      without_gil([&] { return iow_pread(service_, fd_, to, static_cast<size_t>(bytes), offset); });
  return shortened(std::move(into), moved);
}

int64_t Descriptor::pread_into(nb::handle buffer, int64_t offset) {
  check_offset(offset);
  const View view(buffer_of(buffer, "pread_into", true));
  return without_gil([&] {
    return iow_pread(service_, fd_, (*view).buf, static_cast<size_t>((*view).len), offset);
  });
}

int64_t Descriptor::pwrite(nb::handle buffer, int64_t offset) {
  check_offset(offset);
  const View view(buffer_of(buffer, "pwrite", false));
  return without_gil([&] {
    return write_all(*view, offset, [&](const void* from, size_t bytes, int64_t at) {
      return iow_pwrite(service_, fd_, from, bytes, at);
    });
  });
}

void Descriptor::fsync(bool data_only) {
  without_gil([&] { return data_only ? iow_fdatasync(service_, fd_) : iow_fsync(service_, fd_); });
}

int64_t Descriptor::size() {
  // Not of fstat(2), which says 0 of a block device.
  return without_gil([&] { return or_error(lseek(fd_, 0, SEEK_END)); });
}

void Descriptor::truncate(int64_t bytes) {
  without_gil([&] {
    int64_t result = 0;
    do {
      result = or_error(ftruncate(fd_, bytes));
    } while (result == -EINTR);
    return result;
  });
}

int Descriptor::fileno() {
  begin_use();
  const int fd = fd_;
  users_->end();
  return fd;
}

bool Descriptor::closed() const noexcept {
  return users_->refused();
}

void Descriptor::close() {
  if (!users_->refuse()) {
    return;
  }
  // A forked child has no transfers in flight: those that are counted are its parent's.
  bool unused = process_ != process_generation();
  while (!unused) {
    {
      const WithoutGil released;
      unused = users_->sleep_until_none();
    }
    if (PyErr_CheckSignals() != 0) {
      users_->admit();  // still open, to be closed later
      throw nb::python_error();
    }
  }
  const int fd = std::exchange(fd_, -1);
  int64_t result = 0;
  {
    const WithoutGil released;
    result = or_error(::close(fd));
  }
  if (result < 0 && result != -EINTR) {  // after EINTR it is closed, on Linux
    raise_os_error(static_cast<int>(-result), name_);
  }
}

// ---- Module ------------------------------------------------------------------------------------

namespace {

/// What Python holds of a transfer.
class Handle final : public Awaited {
 public:
  explicit Handle(Transfer& transfer) : transfer_(&transfer) {}
  Handle(Handle&& other) noexcept : transfer_(std::exchange(other.transfer_, nullptr)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  Handle& operator=(Handle&&) = delete;
  ~Handle() override {
    if (transfer_ != nullptr) {
      transfer_->drop();
    }
  }
  Transfer* operator->() const { return transfer_; }
  [[nodiscard]] Ending& ending() const noexcept override { return transfer_->ending(); }

 private:
  Transfer* transfer_;
};

void open_service(OpenService* self, const std::string& engine, bool required, uint32_t queue_depth,
                  uint32_t threads) {
  iow_options options{};
  constexpr std::pair<const char*, iow_engine> kEngines[] = {{"auto", IOW_ENGINE_AUTO},
                                                             {"io_uring", IOW_ENGINE_URING},
                                                             {"aio", IOW_ENGINE_AIO},
                                                             {"threads", IOW_ENGINE_THREADS}};
  const auto* const found = std::find_if(std::begin(kEngines), std::end(kEngines),
                                         [&](const auto& known) { return engine == known.first; });
  if (found == std::end(kEngines)) {
    throw nb::value_error(
        ("engine must be 'auto', 'io_uring', 'aio' or 'threads', not '" + engine + "'").c_str());
  }
  options.engine = found->second;
  options.required = required ? 1 : 0;
  options.queue_depth = queue_depth;
  options.threads = threads;
  options.tasks = IOW_TASKS_NONE;  // a paused task might go on on a thread without its GIL
  try {
    new (self) OpenService(options);
  } catch (const std::system_error& error) {
    const int code = error.code().value();
    if (code == EINVAL) {
      throw nb::value_error(error.what());
    }
    PyErr_SetObject(PyExc_OSError, nb::make_tuple(code, error.what()).ptr());
    throw nb::python_error();
  }
}

void bind_service(nb::module_& module) {
  nb::class_<OpenService> type(
      module, "Service",
      "What moves the bytes of files: an engine of the core (io_uring, aio or threads) with its "
      "threads.\n\nAny number of threads may use one. It ends with the last file that was opened "
      "with it.\n\nArgs:\n    engine: \"auto\" (the best that works here), \"io_uring\", \"aio\" "
      "or \"threads\". Where it does not work the\n        next one is taken, and fallback_reason "
      "says why.\n    required: Raise instead of falling back.\n    queue_depth: Most operations "
      "in "
      "flight in a queue, 1 to 4096; 0: 256.\n    threads: Most worker threads of the threads "
      "engine, 1 to 256; 0: 4.\n\nRaises:\n    ValueError: An option is out of range; the text "
      "names it.\n    OSError: The engine is required and does not work, or memory is out.");
  type.def("__init__", &open_service, nb::kw_only(), nb::arg("engine") = "auto",
           nb::arg("required") = false, nb::arg("queue_depth") = 0, nb::arg("threads") = 0);
  type.def_prop_ro("engine", &OpenService::engine);
  type.def_prop_ro("fallback_reason", &OpenService::fallback_reason);
}

void bind_transfer(nb::module_& module) {
  nb::class_<Awaited> awaited(module, "Awaited");
  nb::class_<Handle, Awaited> type(module, "Transfer");
  type.def("done", [](const Handle& self) { return self->done(); });
  type.def(
      "result",
      [](const Handle& self, std::optional<double> timeout) { return self->result(timeout); },
      nb::arg("timeout").none() = nb::none());
  type.def("cancel", [](const Handle& self) { return self->cancel(); });

  nb::class_<Arrivals> arrivals(module, "Arrivals", nb::is_weak_referenceable());
  arrivals.def(nb::init<>());
  arrivals.def("fileno", [](const Arrivals& self) { return self.inbox->fileno(); });
  arrivals.def("take", [](const Arrivals& self) { return self.inbox->take(); });
  arrivals.def(
      "expect",
      [](const Arrivals& self, const Awaited& transfer, nb::object future) {
        return transfer.ending().expect(self.inbox, std::move(future));
      },
      nb::arg("transfer"), nb::arg("future"));
}

void bind_descriptor(nb::module_& module) {
  nb::class_<Descriptor> type(module, "Descriptor");
  type.def(nb::init<int, nb::object, nb::object, bool, uint32_t>(), nb::arg("fd"),
           nb::arg("service"), nb::arg("path"), nb::arg("direct"), nb::arg("flow") = 0);
  type.def("pread", &Descriptor::pread, nb::arg("n"), nb::arg("offset"));
  type.def("pread_into", &Descriptor::pread_into, nb::arg("buffer"), nb::arg("offset"));
  type.def("pwrite", &Descriptor::pwrite, nb::arg("buffer"), nb::arg("offset"));
  type.def("fsync", &Descriptor::fsync, nb::arg("data_only"));
  type.def("size", &Descriptor::size);
  type.def("truncate", &Descriptor::truncate, nb::arg("n"));
  type.def("fileno", &Descriptor::fileno);
  type.def("close", &Descriptor::close);
  type.def_prop_ro("closed", &Descriptor::closed);

  type.def(
      "apread",
      [](Descriptor& self, int64_t n, int64_t offset) {
        return Handle(Transfer::pread(self, n, offset));
      },
      nb::arg("n"), nb::arg("offset"));
  type.def(
      "apread_into",
      [](Descriptor& self, nb::handle buffer, int64_t offset) {
        return Handle(Transfer::pread_into(self, buffer, offset));
      },
      nb::arg("buffer"), nb::arg("offset"));
  type.def(
      "apwrite",
      [](Descriptor& self, nb::handle buffer, int64_t offset) {
        return Handle(Transfer::pwrite(self, buffer, offset));
      },
      nb::arg("buffer"), nb::arg("offset"));
  type.def(
      "afsync",
      [](Descriptor& self, bool data_only) { return Handle(Transfer::fsync(self, data_only)); },
      nb::arg("data_only"));
}

}  // namespace

void bind_files(nb::module_& module) {
  prepare_transfers();
  bind_service(module);
  bind_transfer(module);
  bind_descriptor(module);
}

}  // namespace ioweave::python

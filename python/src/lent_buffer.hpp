#pragma once

// Memory of the core's that Python sees as a buffer. While a view of it is exported it cannot be
// taken back, so that nobody can reach memory that is somebody else's again.

#include <cerrno>
#include <mutex>
#include <utility>

#include "module.hpp"

namespace ioweave::python {

/// A lease: `Raw` is its struct of the C interface, `end` gives it back. Any thread.
template <class Raw, void (*end)(Raw*)>
class LentBuffer {
 public:
  LentBuffer(const Raw& raw, const char* gone) : raw_(raw), gone_(gone) {}
  ~LentBuffer() { end(&raw_); }
  LentBuffer(const LentBuffer&) = delete;
  LentBuffer& operator=(const LentBuffer&) = delete;

  /// Gives the memory back; throws BufferError while it is exported.
  void release() {
    Raw taken{};
    {
      const nb::ft_lock_guard guard(lock_);
      if (raw_.data == nullptr) {
        return;
      }
      taken = take_locked();
    }
    end(&taken);
  }
  /// Else what holds the lease gives it back when the last view has gone.
  void release_unless_exported() {
    Raw taken{};
    {
      const nb::ft_lock_guard guard(lock_);
      if (exports_ == 0) {
        taken = std::exchange(raw_, Raw{});
      }
    }
    end(&taken);
  }
  [[nodiscard]] uint64_t nbytes() {
    const nb::ft_lock_guard guard(lock_);
    return raw_.bytes;
  }

  // The buffer protocol; -1 with an exception.
  int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    const nb::ft_lock_guard guard(lock_);
    if (raw_.data == nullptr) {
      view->obj = nullptr;
      PyErr_SetString(PyExc_ValueError, gone_);
      return -1;
    }
    const int status =
        PyBuffer_FillInfo(view, self, raw_.data, static_cast<Py_ssize_t>(raw_.bytes), 0, flags);
    exports_ += status == 0 ? 1 : 0;
    return status;
  }
  void release_buffer() {
    const nb::ft_lock_guard guard(lock_);
    --exports_;
  }

 protected:
  /// Under lock_: the memory, which Python cannot reach any more. Throws ValueError, BufferError.
  Raw take_locked() {
    check_locked();
    if (exports_ != 0) {
      throw nb::buffer_error(
          "a view of the lease is in use (a memoryview, a numpy array): delete or release it "
          "first");
    }
    return std::exchange(raw_, Raw{});
  }
  void check_locked() const {
    if (raw_.data == nullptr) {
      throw nb::value_error(gone_);
    }
  }

  nb::ft_mutex lock_;
  Raw raw_;

 private:
  const char* const gone_;
  uint32_t exports_ = 0;
};

/// The type slots of a class that is a LentBuffer.
template <class Lease>
struct LentBufferSlots {
  static int get(PyObject* self, Py_buffer* view, int flags) {
    return nb::inst_ptr<Lease>(self)->get_buffer(self, view, flags);
  }
  static void release(PyObject* self, Py_buffer* /*view*/) {
    nb::inst_ptr<Lease>(self)->release_buffer();
  }
  static inline PyType_Slot slots[] = {
      {Py_bf_getbuffer, reinterpret_cast<void*>(&get)},
      {Py_bf_releasebuffer, reinterpret_cast<void*>(&release)},
      {0, nullptr},
  };
};

/// What all such classes have.
template <class Lease>
void bind_lent_buffer(nb::class_<Lease>& type) {
  type.def("release", [](Lease& self) { self.release(); });
  type.def_prop_ro("nbytes", [](Lease& self) { return self.nbytes(); });
  type.def("__len__", [](Lease& self) { return self.nbytes(); });
  type.def("__enter__", [](nb::handle_t<Lease> self) { return nb::borrow(self); });
  type.def(
      "__exit__",
      [](Lease& self, nb::handle kind, nb::handle, nb::handle) {
        if (kind.is_none()) {
          self.release();
        } else {
          self.release_unless_exported();
        }
      },
      nb::arg("kind").none(), nb::arg("error").none(), nb::arg("traceback").none());
}

}  // namespace ioweave::python

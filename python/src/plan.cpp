// Plans for Python. Conversions only: include/ioweave/plans.h holds the contract.
//
// A plan reads ahead from descriptors of its own, which are duplicates, so that the program may
// close its files whenever it likes. A duplicate is closed by forget() or with the plan.
//
// Iterators of the program are called inside calls on the plan, which hold no GIL. Each asks for
// several reads at a time: under the GIL of a busy program every turn may take 5 ms. What an
// iterator raises is left as the pending exception of the thread, and the call throws it at its
// end.

#include <array>
#include <atomic>
#include <cerrno>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <unistd.h>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "gil.hpp"
#include "ioweave/plans.h"
#include "lent_buffer.hpp"
#include "plan_files.hpp"
#include "stream_common.hpp"
#include "transfer.hpp"

namespace ioweave::python {
namespace {

constexpr std::pair<const char*, iow_plan_schedule> kSchedules[] = {
    {"auto", IOW_PLAN_AUTO},
    {"normal", IOW_PLAN_NORMAL},
    {"pp", IOW_PLAN_PP},
    {"ppis", IOW_PLAN_PPIS},
    {"weighted", IOW_PLAN_WEIGHTED}};

class OpenPlan;

/// Reads that an object of the program names. Used by one thread at a time.
class Iterator {
 public:
  Iterator(OpenPlan& plan, nb::object iterator) : plan_(plan), iterator_(std::move(iterator)) {}

  /// As iow_plan_next, without the GIL or with it.
  int next(iow_planned_read& read) noexcept;
  [[nodiscard]] PyObject* object() const noexcept { return iterator_.ptr(); }
  void drop() noexcept { iterator_.reset(); }

 private:
  void fill() noexcept;
  bool take_one(iow_planned_read& read) noexcept;

  OpenPlan& plan_;
  nb::object iterator_;  ///< null: it has ended
  std::array<iow_planned_read, 16> reads_{};
  size_t found_ = 0;
  size_t given_ = 0;
};

/// A lease of the core's, and the plan that it must end before.
struct HeldLease {
  void* data = nullptr;
  uint64_t bytes = 0;
  iow_plan_lease raw{};
  nb::object plan;
};

void end_held(HeldLease* lease);

/// Memory of a plan's with what was read.
class PlanLease final : public LentBuffer<HeldLease, &end_held> {
 public:
  explicit PlanLease(const HeldLease& held) : LentBuffer(held, "the lease was released") {}
};

struct PlanSettings {
  int64_t budget_bytes;
  int64_t slice_bytes;
  uint32_t depth;
  std::string schedule;
  bool sole_writer;
};

/// Any thread. A call keeps it open until it has returned.
class OpenPlan {
 public:
  OpenPlan(nb::object service, const PlanSettings& settings);
  ~OpenPlan() {
    if (plan_ != nullptr) {
      const WithoutGil released;
      iow_plan_close(plan_);
    }
  }
  OpenPlan(const OpenPlan&) = delete;
  OpenPlan& operator=(const OpenPlan&) = delete;

  void add(nb::handle file, int64_t offset, int64_t bytes, int64_t stride, int64_t count);
  void add_all(const nb::list& reads);
  void add_from(nb::object iterator);
  std::tuple<int, int64_t, int64_t> named(nb::handle file, int64_t offset, int64_t bytes);
  nb::object read(nb::handle file, int64_t offset, int64_t bytes);
  /// Returns a PlanLease; `self` is the object of this plan.
  nb::object lease(nb::object self, nb::handle file, int64_t offset, int64_t bytes);
  void end_lease(iow_plan_lease& lease);
  int64_t read_into(nb::handle file, int64_t offset, nb::handle buffer);
  int64_t write(nb::handle file, int64_t offset, nb::handle data);
  void invalidate(nb::handle file, int64_t offset, int64_t bytes);
  void forget(nb::handle file);
  void close();
  [[nodiscard]] bool closed() const noexcept { return users_.refused(); }
  nb::dict stats();

  /// The object of an iterator is asked by this thread.
  void begin_iterating() noexcept { iterating_ = PyThread_get_thread_ident(); }
  void end_iterating() noexcept { iterating_ = 0; }
  [[nodiscard]] KeptFiles& files() noexcept { return files_; }

  // Of the garbage collector, which alone uses the plan then.
  int traverse(visitproc visit, void* argument);
  void clear() noexcept;

 private:
  struct Named {
    Named(nb::handle of, int64_t at, int64_t wanted) : file(of), offset(at), bytes(wanted) {}
    UsedFile file;
    int64_t offset;
    int64_t bytes;
  };

  Users& begin_use();
  template <class Call>
  int64_t without_gil(const Call& call);
  template <class Call>
  int64_t call_on(UsedFile& file, const Call& call);
  int plan_one(int fd, int64_t offset, int64_t bytes, int64_t stride, int64_t count);
  void refuse_inside_iterator() const;
  void end_core();
  [[nodiscard]] bool is_inherited() const noexcept { return process_ != process_generation(); }

  const nb::object service_kept_;
  const uint32_t process_ = process_generation();
  KeptFiles files_;  // before the plan, which reads from them
  iow_plan* plan_ = nullptr;
  Users users_;
  std::atomic<unsigned long> iterating_ = 0;  ///< the thread, or 0
  std::atomic<size_t> leases_ = 0;
  nb::ft_mutex lock_;
  bool is_over_ = false;  ///< closed: it ends with the last lease
  std::vector<std::unique_ptr<Iterator>> iterators_;
};

void end_held(HeldLease* lease) {
  if (lease->plan.is_valid()) {
    nb::cast<OpenPlan&>(lease->plan).end_lease(lease->raw);
    *lease = {};
  }
}

/// Throws for what a call on a file returned; nothing for 0 and more.
void check(int64_t result, const UsedFile& file) {
  if (result >= 0) {
    return;
  }
  const auto error = static_cast<int>(-result);
  const FileName name = file.name();
  const nb::object path = name.path ? name.path : nb::none();
  if (result == kIrregular) {
    throw nb::value_error((nb::cast<std::string>(nb::repr(path)) + " is no regular file").c_str());
  }
  if (error == EMFILE) {
    raise_with_text(error,
                    "too many open files: a plan holds a descriptor of its own for each file until "
                    "forget() or close()",
                    path);
  }
  if (error == ENOBUFS) {
    raise_with_text(error, "1048576 reads are planned and were not made: make some of them first",
                    path);
  }
  raise_os_error(error, name);
}

void check_read(int64_t offset, int64_t bytes) {
  check_offset(offset);
  if (bytes < 1) {
    throw nb::value_error(("nbytes must be 1 or more, not " + std::to_string(bytes)).c_str());
  }
  if (bytes > INT64_MAX - offset) {
    throw nb::value_error("offset + nbytes must be below 2**63");
  }
}

void check_strided(int64_t offset, int64_t bytes, int64_t stride, int64_t count) {
  check_read(offset, bytes);
  if (count < 1) {
    throw nb::value_error(("count must be 1 or more, not " + std::to_string(count)).c_str());
  }
  int64_t last = 0;
  if (__builtin_mul_overflow(stride, count - 1, &last) ||
      __builtin_add_overflow(last, offset, &last) || last < 0 || bytes > INT64_MAX - last) {
    throw nb::value_error("the last read must begin at 0 or more and end below 2**63");
  }
}

// ---- Iterator ----------------------------------------------------------------------------------

int Iterator::next(iow_planned_read& read) noexcept {
  if (given_ == found_) {
    fill();
  }
  if (given_ == found_) {
    return 0;
  }
  read = reads_[given_++];
  plan_.files().end_giving(1);  // the call that asks is giving still
  return 1;
}

void Iterator::fill() noexcept {
  given_ = 0;
  found_ = 0;
  const WithGil held;
  // An iterator before this one has raised in the same call: that exception is the call's.
  std::optional<nb::error_scope> raised_before;
  if (PyErr_Occurred() != nullptr) {
    raised_before.emplace();
  }
  plan_.begin_iterating();
  while (iterator_.is_valid() && found_ < reads_.size() && take_one(reads_[found_])) {
    ++found_;
  }
  plan_.end_iterating();
  plan_.files().begin_giving(found_);
  if (raised_before && PyErr_Occurred() != nullptr) {
    PyErr_WriteUnraisable(nullptr);
  }
}

/// The object yields what OpenPlan::named() made. Where it ends or raises it is dropped.
bool Iterator::take_one(iow_planned_read& read) noexcept {
  PyObject* const item = with_forced_unwind_as_sleep([&] { return PyIter_Next(iterator_.ptr()); });
  if (item == nullptr) {
    const nb::error_scope kept;  // its end may run code of the program
    with_forced_unwind_as_sleep([&] { iterator_.reset(); });
    return false;
  }
  read.fd = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(item, 0)));
  read.offset = PyLong_AsLongLong(PyTuple_GET_ITEM(item, 1));
  read.bytes = static_cast<uint64_t>(PyLong_AsLongLong(PyTuple_GET_ITEM(item, 2)));
  Py_DECREF(item);
  return true;
}

// ---- OpenPlan ----------------------------------------------------------------------------------

OpenPlan::OpenPlan(nb::object service, const PlanSettings& settings)
    : service_kept_(std::move(service)) {
  check_bytes("budget_bytes", settings.budget_bytes);
  check_bytes("slice_bytes", settings.slice_bytes);
  iow_plan_options options{};
  options.size = sizeof options;
  options.schedule = word_of("schedule", settings.schedule, kSchedules);
  options.budget_bytes = static_cast<uint64_t>(settings.budget_bytes);
  options.slice_bytes = static_cast<uint64_t>(settings.slice_bytes);
  options.depth = settings.depth;
  options.sole_writer = settings.sole_writer ? 1 : 0;
  char* text = nullptr;
  const int error =
      iow_plan_open(nb::cast<OpenService&>(service_kept_).raw(), &plan_, &options, &text);
  check_opened(error, text, nb::none());
}

void OpenPlan::refuse_inside_iterator() const {
  if (iterating_ == PyThread_get_thread_ident()) {
    PyErr_SetString(PyExc_RuntimeError, "the plan is called by an iterator of its own");
    throw nb::python_error();
  }
}

Users& OpenPlan::begin_use() {
  refuse_inside_iterator();
  if (!users_.begin()) {
    throw nb::value_error("the plan is closed");
  }
  return users_;
}

/// Calls with the plan in use, where iterators may be asked; throws what they raised.
template <class Call>
int64_t OpenPlan::without_gil(const Call& call) {
  struct Use {
    explicit Use(OpenPlan& plan) : files(plan.files_), users(plan.begin_use()) {
      files.begin_giving(1);
    }
    ~Use() {
      files.end_giving(1);
      users.end();
    }
    KeptFiles& files;
    Users& users;
  };
  std::optional<Use> use(std::in_place, *this);
  int64_t result = 0;
  {
    const WithoutGil released;
    result = call();
    use.reset();  // while it is certain that this thread goes on
  }
  if (PyErr_Occurred() != nullptr) {
    throw nb::python_error();
  }
  return result;
}

/// The same with a file of the program's, whose errors it throws.
template <class Call>
int64_t OpenPlan::call_on(UsedFile& file, const Call& call) {
  const int64_t result = without_gil([&] {
    const int64_t got = call(file.fd());
    file.end();
    return got;
  });
  check(result, file);
  return result;
}

int OpenPlan::plan_one(int fd, int64_t offset, int64_t bytes, int64_t stride, int64_t count) {
  if (is_inherited()) {
    return -ECANCELED;
  }
  const int kept = files_.keep(fd);
  return kept < 0 ? kept
                  : iow_plan_add_strided(plan_, kept, offset, static_cast<uint64_t>(bytes), stride,
                                         static_cast<uint64_t>(count));
}

void OpenPlan::add(nb::handle file, int64_t offset, int64_t bytes, int64_t stride, int64_t count) {
  check_strided(offset, bytes, stride, count);
  UsedFile used(file);
  call_on(used, [&](int fd) { return plan_one(fd, offset, bytes, stride, count); });
}

/// Reads as tuples of file, offset and bytes, with one turn of the GIL for all of them.
void OpenPlan::add_all(const nb::list& reads) {
  std::deque<Named> all;
  for (const nb::handle read : reads) {
    const auto [file, offset, bytes] = nb::cast<std::tuple<nb::object, int64_t, int64_t>>(read);
    check_read(offset, bytes);
    all.emplace_back(file, offset, bytes);
  }
  const Named* refused = nullptr;
  const int64_t result = without_gil([&] {
    int error = 0;
    for (Named& read : all) {
      if (error == 0) {
        error = plan_one(read.file.fd(), read.offset, read.bytes, 0, 1);
        refused = &read;
      }
      read.file.end();
    }
    return error;
  });
  if (result != 0) {
    check(result, refused->file);
  }
}

/// What the object yields is what named() returns.
void OpenPlan::add_from(nb::object iterator) {
  auto made = std::make_unique<Iterator>(*this, std::move(iterator));
  Iterator* const of = made.get();
  {
    const nb::ft_lock_guard guard(lock_);
    iterators_.push_back(std::move(made));
  }
  const int64_t result = without_gil([&] {
    return iow_plan_generate(
        plan_,
        [](iow_planned_read* read, void* user) {
          return static_cast<Iterator*>(user)->next(*read);
        },
        of);
  });
  if (result < 0) {
    of->drop();
    raise_os_error(static_cast<int>(-result), {});
  }
}

/// A read for the core, from a descriptor of the plan's own. Inside an iterator, so it keeps the
/// GIL: giving it up for each read could take long. It waits for fstat(2) at most.
std::tuple<int, int64_t, int64_t> OpenPlan::named(nb::handle file, int64_t offset, int64_t bytes) {
  check_read(offset, bytes);
  const UsedFile used(file);
  const int kept = files_.keep(used.fd());
  check(kept, used);
  return {kept, offset, bytes};
}

nb::object OpenPlan::read(nb::handle file, int64_t offset, int64_t bytes) {
  check_offset(offset);
  check_bytes("nbytes", bytes);
  UsedFile used(file);
  nb::object into = new_bytes(bytes);
  char* const to = PyBytes_AsString(into.ptr());
  const int64_t moved = call_on(used, [&](int fd) {
    return iow_plan_read(plan_, fd, to, static_cast<size_t>(bytes), offset);
  });
  return shortened(std::move(into), moved);
}

nb::object OpenPlan::lease(nb::object self, nb::handle file, int64_t offset, int64_t bytes) {
  static std::byte nothing;  // what a lease of no bytes points to
  check_offset(offset);
  check_bytes("nbytes", bytes);
  UsedFile used(file);
  HeldLease held;
  bool is_counted = false;
  const auto read = [&](int fd) {
    ++leases_;  // before a close() that waits for this call
    is_counted = true;
    return iow_plan_lease_read(plan_, &held.raw, fd, static_cast<size_t>(bytes), offset);
  };
  try {
    held.bytes = static_cast<uint64_t>(call_on(used, read));
  } catch (...) {
    if (is_counted) {
      end_lease(held.raw);
    }
    throw;
  }
  held.plan = std::move(self);
  held.data = held.bytes != 0 ? held.raw.data : &nothing;
  auto made = std::make_unique<PlanLease>(held);
  return nb::cast(made.release(), nb::rv_policy::take_ownership);
}

void OpenPlan::end_lease(iow_plan_lease& lease) {
  iow_plan_lease_end(plan_, &lease);
  bool is_last = false;
  {
    const nb::ft_lock_guard guard(lock_);
    is_last = --leases_ == 0 && is_over_;
  }
  if (is_last) {
    end_core();
  }
}

int64_t OpenPlan::read_into(nb::handle file, int64_t offset, nb::handle buffer) {
  check_offset(offset);
  UsedFile used(file);
  const View view(buffer_of(buffer, "read_into", true));
  return call_on(used, [&](int fd) {
    return iow_plan_read(plan_, fd, (*view).buf, static_cast<size_t>((*view).len), offset);
  });
}

int64_t OpenPlan::write(nb::handle file, int64_t offset, nb::handle data) {
  check_offset(offset);
  UsedFile used(file);
  const View view(buffer_of(data, "write", false));
  return call_on(used, [&](int fd) {
    return write_all(*view, offset, [&](const void* from, size_t bytes, int64_t at) {
      return iow_plan_write(plan_, fd, from, bytes, at);
    });
  });
}

void OpenPlan::invalidate(nb::handle file, int64_t offset, int64_t bytes) {
  check_offset(offset);
  check_bytes("nbytes", bytes);
  UsedFile used(file);
  call_on(used, [&](int fd) {
    return iow_plan_invalidate(plan_, fd, offset, static_cast<uint64_t>(bytes));
  });
}

void OpenPlan::forget(nb::handle file) {
  UsedFile used(file);
  Users& users = begin_use();
  const std::unique_ptr<Users, void (*)(Users*)> ended(&users, [](Users* of) { of->end(); });
  int result = -ECANCELED;
  if (!is_inherited()) {
    const WithoutGil released;
    const std::vector<int> taken = files_.take(used.fd());
    result = iow_plan_forget(plan_, used.fd());
    for (const int fd : taken) {
      ::close(fd);
    }
  }
  check(result, used);
}

void OpenPlan::close() {
  refuse_inside_iterator();
  if (!users_.refuse()) {
    return;
  }
  wait_for_calls(users_, is_inherited());
  bool is_last = false;
  {
    const nb::ft_lock_guard guard(lock_);
    is_over_ = true;
    is_last = leases_ == 0;
  }
  if (is_last) {
    end_core();
  }
  clear();
}

/// Nobody calls the plan any more, and all leases have ended.
void OpenPlan::end_core() {
  const WithoutGil released;
  iow_plan_close(std::exchange(plan_, nullptr));
  files_.close_all();
}

nb::dict OpenPlan::stats() {
  Users& users = begin_use();
  iow_plan_stats stats{};
  stats.size = sizeof stats;
  const int error = iow_plan_get_stats(plan_, &stats);
  users.end();
  if (error < 0) {
    raise_os_error(-error, {});
  }
  nb::dict named;
  named["depth"] = stats.depth;
  named["schedule"] = kSchedules[stats.schedule].first;
  named["settled"] = stats.is_settled != 0;
  named["gain_of_two"] = stats.gain_of_two;
  named["planned_reads"] = stats.planned_reads;
  named["planned_bytes"] = stats.planned_bytes;
  named["ahead_bytes"] = stats.ahead_bytes;
  named["reads"] = stats.reads;
  named["hit_reads"] = stats.hit_reads;
  named["late_reads"] = stats.late_reads;
  named["unplanned_reads"] = stats.unplanned_reads;
  named["hit_bytes"] = stats.hit_bytes;
  named["own_bytes"] = stats.own_bytes;
  named["wait_ns"] = stats.wait_ns;
  named["read_ns"] = stats.read_ns;
  named["unread_bytes"] = stats.unread_bytes;
  named["stale_bytes"] = stats.stale_bytes;
  named["failed_slices"] = stats.failed_slices;
  named["cached_bytes"] = stats.cached_bytes;
  return named;
}

int OpenPlan::traverse(visitproc visit, void* argument) {
  for (const std::unique_ptr<Iterator>& one : iterators_) {
    if (PyObject* const object = one->object(); object != nullptr) {
      if (const int stopped = visit(object, argument); stopped != 0) {
        return stopped;
      }
    }
  }
  return 0;
}

void OpenPlan::clear() noexcept {
  for (const std::unique_ptr<Iterator>& one : iterators_) {
    one->drop();
  }
}

/// An iterator of the program may hold the plan that holds it.
int traverse_plan(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<OpenPlan>(self)->traverse(visit, arg) : 0;
}

int clear_plan(PyObject* self) {
  if (nb::inst_ready(self)) {
    nb::inst_ptr<OpenPlan>(self)->clear();
  }
  return 0;
}

PyType_Slot plan_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse_plan)},
                            {Py_tp_clear, reinterpret_cast<void*>(&clear_plan)},
                            {0, nullptr}};

}  // namespace

void bind_plans(nb::module_& module) {
  nb::class_<PlanLease> lease(
      module, "PlanLease", nb::type_slots(LentBufferSlots<PlanLease>::slots),
      "What a plan has read: a buffer of bytes, for numpy.frombuffer(), memoryview() and all that"
      "\ntakes buffers. Its bytes may be changed.\n\n"
      "release() gives the memory back, as does the end of a `with` block, and of the object.\n"
      "Afterwards it is no buffer any more. release() raises BufferError while a view of it is in "
      "use.");
  bind_lent_buffer(lease);

  nb::class_<OpenPlan> plan(module, "Plan", nb::type_slots(plan_slots));
  plan.def(
      "__init__",
      [](OpenPlan* self, nb::object service, int64_t budget_bytes, int64_t slice_bytes,
         uint32_t depth, std::string schedule, bool sole_writer) {
        new (self) OpenPlan(std::move(service),
                            {budget_bytes, slice_bytes, depth, std::move(schedule), sole_writer});
      },
      nb::arg("service"), nb::kw_only(), nb::arg("budget_bytes") = 0, nb::arg("slice_bytes") = 0,
      nb::arg("depth") = 0, nb::arg("schedule") = "auto", nb::arg("sole_writer") = false);
  plan.def("add", &OpenPlan::add, nb::arg("file"), nb::arg("offset"), nb::arg("nbytes"),
           nb::arg("stride") = 0, nb::arg("count") = 1);
  plan.def("add_all", &OpenPlan::add_all, nb::arg("reads"));
  plan.def("add_from", &OpenPlan::add_from, nb::arg("iterator"));
  plan.def("named", &OpenPlan::named, nb::arg("file"), nb::arg("offset"), nb::arg("nbytes"));
  plan.def("read", &OpenPlan::read, nb::arg("file"), nb::arg("offset"), nb::arg("nbytes"));
  plan.def(
      "lease",
      [](nb::handle_t<OpenPlan> self, nb::handle file, int64_t offset, int64_t nbytes) {
        return nb::cast<OpenPlan&>(self).lease(nb::borrow(self), file, offset, nbytes);
      },
      nb::arg("file"), nb::arg("offset"), nb::arg("nbytes"));
  plan.def("read_into", &OpenPlan::read_into, nb::arg("file"), nb::arg("offset"),
           nb::arg("buffer"));
  plan.def("write", &OpenPlan::write, nb::arg("file"), nb::arg("offset"), nb::arg("data"));
  plan.def("invalidate", &OpenPlan::invalidate, nb::arg("file"), nb::arg("offset"),
           nb::arg("nbytes"));
  plan.def("forget", &OpenPlan::forget, nb::arg("file"));
  plan.def("close", &OpenPlan::close);
  plan.def("stats", &OpenPlan::stats);
  plan.def_prop_ro("closed", &OpenPlan::closed);
}

}  // namespace ioweave::python

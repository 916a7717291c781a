// Operations that Python carries out take their turn beside the requests of files, at the gate of
// one service. Conversions only.
//
// The thread that makes room learns which operations may start. It may be a thread of the core,
// which never takes the GIL, so it puts them into a list. Each call that asks for an operation or
// reports an end takes the list; what other threads put there is for the thread in wait().

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sched.h>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "base/futex.hpp"
#include "file.hpp"
#include "gil.hpp"
#include "module.hpp"
#include "policy/event.hpp"
#include "policy/words.hpp"
#include "transfer.hpp"

namespace ioweave::python {
namespace {

constexpr policy::NodeId kThisNode = 0;

[[noreturn]] void refuse(const std::string& why) {
  throw nb::value_error(why.c_str());
}

std::string with_number(const char* kind, uint64_t number, const char* what) {
  return std::string(kind) + " " + std::to_string(number) + " " + what;
}

/// Takes over a text that the library made, and frees it.
std::string take_text(char* text) {
  const std::unique_ptr<char, void (*)(void*)> freed(text, &std::free);
  return text != nullptr ? text : "";
}

/// Throws if the library's answer is an error; `why` says what EINVAL means.
int64_t checked(int64_t answer, const std::string& why) {
  if (answer == -EINVAL) {
    refuse(why);
  }
  if (answer < 0) {
    raise_os_error(static_cast<int>(-answer), {});
  }
  return answer;
}

uint32_t create_device(const OpenService& service, const std::string& name, double budget_mb_per_s,
                       uint32_t max_in_flight, uint32_t begins_at, bool is_measured) {
  iow_device_options options{};
  options.scheduling = IOW_SCHEDULE_STRICT;
  options.budget_mb_per_s = budget_mb_per_s;
  options.max_in_flight = max_in_flight;
  options.begins_at = begins_at;
  options.is_measured = is_measured ? 1 : 0;
  char* text = nullptr;
  const int id = iow_device_create(service.raw(), name.c_str(), &options, &text);
  return static_cast<uint32_t>(checked(id, take_text(text)));
}

uint32_t create_flow(const OpenService& service, const std::string& name, uint32_t device,
                     const std::string& priority, const std::string& constraint,
                     uint32_t max_in_flight, const std::string& learned) {
  constexpr auto& kWords = policy::Words<policy::Class>::kAll;  // in the order of iow_class
  static_assert(kWords[IOW_PREFETCH] == "prefetch" && kWords[IOW_WRITE_BEHIND] == "write_behind");
  const auto found = std::find(kWords.begin(), kWords.end(), priority);
  if (found == kWords.end()) {
    refuse("priority must be 'foreground', 'write_behind' or 'prefetch', not '" + priority + "'");
  }
  iow_flow_options options{};
  options.device = device;
  options.priority = static_cast<iow_class>(found - kWords.begin());
  options.constraint = constraint.c_str();
  options.max_in_flight = max_in_flight;
  options.learned = learned.c_str();
  char* text = nullptr;
  const int id = iow_flow_create(service.raw(), name.c_str(), &options, &text);
  return static_cast<uint32_t>(checked(id, take_text(text)));
}

iow_flow_stats stats_of(const OpenService& service, uint32_t flow) {
  iow_flow_stats stats{};
  stats.size = sizeof stats;
  checked(iow_service_flow_stats(service.raw(), flow, &stats),
          with_number("flow", flow, "does not exist"));
  return stats;
}

/// Returns how many operations of a flow wait, and how many run.
std::pair<uint64_t, uint64_t> flow_counts(const OpenService& service, uint32_t flow) {
  const iow_flow_stats stats = stats_of(service, flow);
  return {stats.waiting, stats.running};
}

/// An operation that was admitted. It ends with this at the latest.
class Admitted {
 public:
  Admitted(nb::object service, int64_t operation)
      : kept_(std::move(service)),
        service_(nb::cast<const OpenService&>(kept_).raw()),
        operation_(operation) {}
  Admitted(Admitted&& other) noexcept
      : kept_(std::move(other.kept_)),
        service_(other.service_),
        operation_(std::exchange(other.operation_, 0)) {}
  Admitted(const Admitted&) = delete;
  Admitted& operator=(const Admitted&) = delete;
  Admitted& operator=(Admitted&&) = delete;
  ~Admitted() { finish(-ECANCELED); }

  /// Reports the end: bytes moved, or -errno. Does nothing the second time, and in a forked child.
  void finish(int64_t result) noexcept {
    if (const int64_t operation = std::exchange(operation_, 0); operation != 0) {
      static_cast<void>(iow_finish(service_, operation, result));
    }
  }

 private:
  nb::object kept_;
  iow_service* service_;
  int64_t operation_;
};

/// Sleeps without the GIL until an operation of the flow may start.
Admitted admit(nb::object of, uint32_t flow, uint64_t bytes) {
  const auto& service = nb::cast<const OpenService&>(of);
  std::atomic<uint32_t> is_admitted = 0;
  const int64_t operation = checked(iow_admit_async(
                                        service.raw(), flow, bytes,
                                        [](int64_t, void* user) {
                                          auto& word = *static_cast<std::atomic<uint32_t>*>(user);
                                          word.store(1, std::memory_order_release);
                                          futex_wake(word);  // needs the address only
                                        },
                                        &is_admitted),
                                    with_number("flow", flow, "does not exist"));
  while (is_admitted.load(std::memory_order_acquire) == 0) {
    {
      const WithoutGil released;
      futex_wait(is_admitted, 0);  // until then, or a signal
    }
    if (PyErr_CheckSignals() != 0) {
      if (iow_withdraw(service.raw(), operation) == -EALREADY) {  // not in a forked child
        while (is_admitted.load(std::memory_order_acquire) == 0) {
          sched_yield();
        }
        iow_finish(service.raw(), operation, -ECANCELED);
      }
      throw nb::python_error();
    }
  }
  return {std::move(of), operation};
}

/// Used by any thread with the GIL.
class Gate {
 public:
  explicit Gate(nb::object log) : log_(std::move(log)) {
    iow_options options{};
    options.tasks = IOW_TASKS_NONE;  // a paused task might go on on a thread without its GIL
    try {
      kept_ = nb::cast(new OpenService(options, !log_.is_none()), nb::rv_policy::take_ownership);
    } catch (const std::system_error& error) {
      PyErr_SetObject(PyExc_OSError, nb::make_tuple(error.code().value(), error.what()).ptr());
      throw nb::python_error();
    }
    service_ = nb::cast<OpenService*>(kept_);
  }
  /// Files may keep the service for longer. A forked child leaves the service alone, since a thread
  /// of the parent may have held its locks.
  ~Gate() {
    if (process_ != process_generation()) {
      return;
    }
    for (const auto& [id, asked] : operations_) {
      give_up(*asked);
    }
    service_->stop_log();
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  [[nodiscard]] nb::object service() const { return kept_; }

  uint32_t add_device(const std::string& name, double budget_mb_per_s, uint32_t max_in_flight,
                      uint32_t begins_at) {
    const uint32_t id =
        create_device(*service_, name, budget_mb_per_s, max_in_flight, begins_at, true);
    tell_log();
    return id;
  }

  uint32_t add_flow(const std::string& name, uint32_t device, const std::string& priority,
                    const std::string& constraint, uint32_t max_in_flight,
                    const std::string& learned) {
    const uint32_t id =
        create_flow(*service_, name, device, priority, constraint, max_in_flight, learned);
    if (constraint == "climb" || constraint.starts_with("auto")) {  // those that find their limit
      const std::lock_guard guard(lock_);
      limits_.push_back({id, stats_of(*service_, id).limit});
    }
    tell_log();
    return id;
  }

  nb::list ready(uint64_t id, uint32_t flow, uint64_t bytes) {
    Asked& asked = add(id);
    const int64_t number = iow_admit_async(service_->raw(), flow, bytes, &admitted, &asked);
    if (number < 0) {
      (void)remove(id);
      checked(number, with_number("flow", flow, "does not exist"));
    }
    {
      const std::lock_guard guard(lock_);
      if (const auto found = operations_.find(id); found != operations_.end()) {
        found->second->number = number;
      }
    }
    return take();
  }

  /// Reports an end: bytes moved, or -errno.
  nb::list ended(uint64_t id, int64_t result) {
    const std::unique_ptr<Asked> asked = remove_started(id);
    checked(iow_finish(service_->raw(), asked->number, result), {});
    return take();
  }

  nb::list cancelled(uint64_t id) {
    give_up(*remove(id));
    return take();
  }

  nb::list sample(uint32_t device, double bytes_per_second, double seconds) {
    checked(iow_device_sample(service_->raw(), device, bytes_per_second, seconds),
            "the device does not exist, or the sample is none");
    return take();
  }

  /// Returns the decisions since the last call.
  nb::list take() {
    tell_log();
    nb::list decisions;
    const std::lock_guard guard(lock_);
    for (FlowLimit& known : limits_) {
      const uint32_t limit = stats_of(*service_, known.flow).limit;
      if (std::exchange(known.limit, limit) != limit) {
        decisions.append(nb::cast(policy::SetLimit{known.flow, limit}));
      }
    }
    for (const Asked* asked = std::exchange(started_, nullptr); asked != nullptr;
         asked = asked->next) {
      decisions.append(nb::cast(policy::Start{asked->id, kThisNode}));
    }
    last_started_ = nullptr;
    return decisions;
  }

  /// Sleeps until an operation may start. Returns false after stop().
  bool wait() {
    const bool has_log = !log_.is_none();
    const WithoutGil released;
    std::unique_lock guard(lock_);
    const auto is_over = [&] { return started_ != nullptr || is_stopped_; };
    if (has_log) {
      came_.wait_for(guard, std::chrono::seconds(1), is_over);  // lines of others come meanwhile
    } else {
      came_.wait(guard, is_over);
    }
    return !is_stopped_;
  }
  void stop() {
    const std::lock_guard guard(lock_);
    is_stopped_ = true;
    came_.notify_all();
  }

  std::pair<uint64_t, uint64_t> flow_counts(uint32_t flow) {
    return python::flow_counts(*service_, flow);
  }
  /// What the flow's operations that ended have moved.
  uint64_t moved_bytes(uint32_t flow) { return stats_of(*service_, flow).moved_bytes; }
  bool needs_samples(uint32_t device) {
    return checked(iow_device_needs_samples(service_->raw(), device),
                   with_number("device", device, "does not exist")) != 0;
  }
  std::string explain(uint32_t flow) { return text_of(&iow_flow_explain, flow); }
  std::string learned(uint32_t flow) { return text_of(&iow_flow_learned, flow); }

  // For the garbage collector: the log may lead back to whoever holds the gate.
  [[nodiscard]] PyObject* log() const { return log_.ptr(); }
  void forget_log() { log_ = nb::none(); }

 private:
  struct Asked {
    Gate* gate = nullptr;
    uint64_t id = 0;
    int64_t number = 0;  ///< its number in the library
    bool is_started = false;
    Asked* next = nullptr;  ///< in started_
  };
  struct FlowLimit {
    uint32_t flow;
    uint32_t limit;  ///< as take() last returned it
  };

  static void admitted(int64_t number, void* user) noexcept {
    auto& asked = *static_cast<Asked*>(user);
    Gate& gate = *asked.gate;
    const std::lock_guard guard(gate.lock_);
    asked.number = number;
    asked.is_started = true;
    (gate.started_ == nullptr ? gate.started_ : gate.last_started_->next) = &asked;
    gate.last_started_ = &asked;
    gate.came_.notify_all();  // under the lock, since the gate may be gone afterwards
  }

  Asked& add(uint64_t id) {
    auto asked = std::make_unique<Asked>();
    asked->gate = this;
    asked->id = id;
    const std::lock_guard guard(lock_);
    const auto [place, is_new] = operations_.try_emplace(id, std::move(asked));
    if (!is_new) {
      refuse(with_number("operation", id, "is known already"));
    }
    return *place->second;
  }

  std::unique_ptr<Asked> remove(uint64_t id) {
    const std::lock_guard guard(lock_);
    const auto found = operations_.find(id);
    if (found == operations_.end()) {
      refuse(with_number("operation", id, "is not known"));
    }
    std::unique_ptr<Asked> asked = std::move(found->second);
    operations_.erase(found);
    return asked;
  }

  std::unique_ptr<Asked> remove_started(uint64_t id) {
    const std::lock_guard guard(lock_);
    const auto found = operations_.find(id);
    if (found == operations_.end() || !found->second->is_started) {
      refuse(with_number("operation", id, "is not one that was started"));
    }
    std::unique_ptr<Asked> asked = std::move(found->second);
    operations_.erase(found);
    unlink(*asked);
    return asked;
  }

  /// Takes an operation out of the list of what was started, if it is there. Needs the lock.
  void unlink(const Asked& asked) noexcept {
    Asked* before = nullptr;
    for (Asked* one = started_; one != nullptr; before = std::exchange(one, one->next)) {
      if (one == &asked) {
        (before == nullptr ? started_ : before->next) = asked.next;
        last_started_ = last_started_ == &asked ? before : last_started_;
        return;
      }
    }
  }

  /// Gives up an operation that waits, or that was started without anybody taking it from the list.
  void give_up(Asked& asked) noexcept {
    if (iow_withdraw(service_->raw(), asked.number) != -EALREADY) {
      return;
    }
    std::unique_lock guard(lock_);
    while (!asked.is_started) {  // another thread is about to call admitted()
      guard.unlock();
      sched_yield();
      guard.lock();
    }
    unlink(asked);
    guard.unlock();
    iow_finish(service_->raw(), asked.number, -ECANCELED);
  }

  std::string text_of(int (*ask)(iow_service*, uint32_t, char**), uint32_t flow) const {
    char* text = nullptr;
    checked(ask(service_->raw(), flow, &text), with_number("flow", flow, "does not exist"));
    return take_text(text);
  }

  /// Passes the log on. An exception in it must not keep the decisions from the caller.
  void tell_log() {
    const std::string text = service_->take_log();
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      try {
        log_(nb::str(text.data() + begin, end - begin));
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("the log function of an ioweave Gate");
      }
      begin = end + 1;
    }
  }

  const uint32_t process_ = process_generation();  ///< the process that made it
  nb::object log_;
  nb::object kept_;  ///< the service, which outlives all below
  OpenService* service_ = nullptr;
  std::mutex lock_;  // a thread that holds it never takes the GIL
  std::condition_variable came_;
  std::unordered_map<uint64_t, std::unique_ptr<Asked>> operations_;
  Asked* started_ = nullptr;  ///< in order, not taken yet
  Asked* last_started_ = nullptr;
  std::vector<FlowLimit> limits_;
  bool is_stopped_ = false;
};

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) {
    Py_VISIT(nb::inst_ptr<Gate>(self)->log());
  }
  return 0;
}

int clear(PyObject* self) {
  if (nb::inst_ready(self)) {
    nb::inst_ptr<Gate>(self)->forget_log();
  }
  return 0;
}

PyType_Slot gate_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&clear)},
    {0, nullptr},
};

}  // namespace

void bind_gate(nb::module_& module) {
  nb::class_<Gate> type(module, "Gate", nb::type_slots(gate_slots));
  type.def(nb::init<nb::object>(), nb::arg("log").none() = nb::none());
  type.def_prop_ro("service", &Gate::service);
  type.def("add_device", &Gate::add_device, nb::arg("name"), nb::kw_only(),
           nb::arg("budget_mb_per_s") = 0.0, nb::arg("max_in_flight") = 0,
           nb::arg("begins_at") = 0);
  type.def("add_flow", &Gate::add_flow, nb::arg("name"), nb::arg("device"), nb::kw_only(),
           nb::arg("priority") = "foreground", nb::arg("constraint") = "none",
           nb::arg("max_in_flight") = 0, nb::arg("learned") = "");
  type.def("ready", &Gate::ready, nb::arg("operation"), nb::arg("flow"), nb::arg("bytes"));
  type.def(
      "finished", [](Gate& self, uint64_t id, int64_t bytes) { return self.ended(id, bytes); },
      nb::arg("operation"), nb::arg("bytes"));
  type.def(
      "failed", [](Gate& self, uint64_t id) { return self.ended(id, -EIO); }, nb::arg("operation"));
  type.def("cancelled", &Gate::cancelled, nb::arg("operation"));
  type.def("sample", &Gate::sample, nb::arg("device"), nb::arg("bytes_per_second"),
           nb::arg("seconds"));
  type.def("take", &Gate::take);
  type.def("wait", &Gate::wait);
  type.def("stop", &Gate::stop);
  type.def("flow_counts", &Gate::flow_counts, nb::arg("flow"));
  type.def("moved_bytes", &Gate::moved_bytes, nb::arg("flow"));
  type.def("needs_samples", &Gate::needs_samples, nb::arg("device"));
  type.def("explain", &Gate::explain, nb::arg("flow"));
  type.def("learned", &Gate::learned, nb::arg("flow"));

  module.def("create_device", &create_device, nb::arg("service"), nb::arg("name"), nb::kw_only(),
             nb::arg("budget_mb_per_s") = 0.0, nb::arg("max_in_flight") = 0,
             nb::arg("begins_at") = 0, nb::arg("is_measured") = false);
  module.def("create_flow", &create_flow, nb::arg("service"), nb::arg("name"), nb::arg("device"),
             nb::kw_only(), nb::arg("priority") = "foreground", nb::arg("constraint") = "none",
             nb::arg("max_in_flight") = 0, nb::arg("learned") = "");
  module.def("flow_counts", &flow_counts, nb::arg("service"), nb::arg("flow"));
  nb::class_<Admitted>(module, "Admitted").def("finish", &Admitted::finish, nb::arg("result"));
  module.def("admit", &admit, nb::arg("service"), nb::arg("flow"), nb::arg("bytes"));
}

}  // namespace ioweave::python

// Read streams for Python. Conversions only: include/ioweave/read_streams.h holds the contract.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "ioweave/read_streams.h"
#include "lent_buffer.hpp"
#include "stream_common.hpp"
#include "transfer.hpp"

namespace ioweave::python {
namespace {

/// A buffer with what was read.
class ReadLease : public LentBuffer<iow_read_lease, &iow_read_lease_end> {
 public:
  explicit ReadLease(const iow_read_lease& raw)
      : LentBuffer(raw, "the lease was released"),
        item(raw.item),
        offset(raw.offset),
        item_nbytes(raw.item_bytes) {}

  const uint64_t item;
  const uint64_t offset;
  const uint64_t item_nbytes;
};

struct ReadSettings {
  int64_t buffer_bytes;
  int64_t budget_bytes;
  std::string path;
  uint32_t flow;
  bool relative_only;
};

/// Any thread. A call keeps it open until it has returned.
class OpenReadStream {
 public:
  /// `files`: they are plain files, else there is one path, of a manifest. `shown`: for errors.
  OpenReadStream(nb::object service, nb::object shown, const std::vector<nb::bytes>& paths,
                 bool files, const ReadSettings& settings);
  ~OpenReadStream() {
    if (stream_ != nullptr) {
      const WithoutGil released;
      iow_read_stream_close(stream_);
    }
  }
  OpenReadStream(const OpenReadStream&) = delete;
  OpenReadStream& operator=(const OpenReadStream&) = delete;

  /// A ReadLease, or None behind the last item.
  nb::object next(std::optional<double> timeout_seconds);
  void close();
  [[nodiscard]] bool closed() const noexcept { return users_.refused(); }
  nb::dict stats();

 private:
  Users& begin_use();
  [[nodiscard]] int wait(iow_read_lease& lease, std::optional<double> timeout_seconds);

  const nb::object service_kept_;
  const nb::object shown_;
  iow_read_stream* stream_ = nullptr;
  const uint32_t process_ = process_generation();
  Users users_;
};

OpenReadStream::OpenReadStream(nb::object service, nb::object shown,
                               const std::vector<nb::bytes>& paths, bool files,
                               const ReadSettings& settings)
    : service_kept_(std::move(service)), shown_(std::move(shown)) {
  check_bytes("buffer_bytes", settings.buffer_bytes);
  check_bytes("budget_bytes", settings.budget_bytes);
  iow_read_stream_options options{};
  options.size = sizeof options;
  options.path = word_of("path", settings.path, kStreamPaths);
  options.buffer_bytes = static_cast<uint64_t>(settings.buffer_bytes);
  options.budget_bytes = static_cast<uint64_t>(settings.budget_bytes);
  options.flow = settings.flow;
  options.relative_only = settings.relative_only ? 1 : 0;
  std::vector<const char*> names;
  names.reserve(paths.size());
  for (const nb::bytes& path : paths) {
    names.push_back(path_text(path));
  }
  iow_service* const raw = nb::cast<OpenService&>(service_kept_).raw();
  char* text = nullptr;
  int error = 0;
  {
    const WithoutGil released;
    error = files ? iow_read_stream_open_files(raw, &stream_, names.data(),
                                               static_cast<unsigned>(names.size()), &options, &text)
                  : iow_read_stream_open(raw, &stream_, names[0], &options, &text);
  }
  check_opened(error, text, shown_);
}

Users& OpenReadStream::begin_use() {
  if (!users_.begin()) {
    throw nb::value_error("the read stream is closed");
  }
  return users_;
}

/// In slices, so that a signal ends it. An item must go to nobody who has left, so the core is not
/// asked to call back.
int OpenReadStream::wait(iow_read_lease& lease, std::optional<double> timeout_seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kSliceNs = 50'000'000;
  const auto until = Clock::now() + std::chrono::nanoseconds(static_cast<int64_t>(
                                        std::clamp(timeout_seconds.value_or(0), 0.0, 1e9) * 1e9));
  while (true) {
    const int64_t left =
        timeout_seconds ? std::chrono::nanoseconds(until - Clock::now()).count() : kSliceNs;
    int result = 0;
    {
      const WithoutGil released;
      result = iow_read_stream_next(stream_, &lease, std::clamp<int64_t>(left, 0, kSliceNs));
    }
    if (result != -ETIME || (timeout_seconds && left <= 0)) {
      return result;
    }
    if (PyErr_CheckSignals() != 0) {
      throw nb::python_error();
    }
  }
}

nb::object OpenReadStream::next(std::optional<double> timeout_seconds) {
  Users& users = begin_use();
  const std::unique_ptr<Users, void (*)(Users*)> used(&users, [](Users* of) { of->end(); });
  iow_read_lease lease{};
  const int result = wait(lease, timeout_seconds);
  if (result == 0) {
    return nb::none();
  }
  if (result == 1) {
    auto made = std::make_unique<ReadLease>(lease);
    return nb::cast(made.release(), nb::rv_policy::take_ownership);
  }
  if (result == -ETIME) {
    PyErr_SetString(PyExc_TimeoutError, "what comes next was not read yet");
    throw nb::python_error();
  }
  char* text = nullptr;
  if (process_ == process_generation()) {
    iow_read_stream_explain(stream_, &lease, result, &text);
  }
  raise_with_text(-result, take_text(text), shown_);
}

void OpenReadStream::close() {
  if (!users_.refuse()) {
    return;
  }
  wait_for_calls(users_, process_ != process_generation());
  const WithoutGil released;
  iow_read_stream_close(std::exchange(stream_, nullptr));
}

nb::dict OpenReadStream::stats() {
  Users& users = begin_use();
  iow_read_stream_stats stats{};
  stats.size = sizeof stats;
  iow_read_stream_get_stats(stream_, &stats);
  users.end();
  nb::dict named;
  named["buffers"] = stats.buffers;
  named["buffer_bytes"] = stats.buffer_bytes;
  named["items"] = stats.items;
  named["lost_items"] = stats.lost_items;
  named["nbytes"] = stats.bytes;
  named["largest_item"] = stats.largest_item;
  named["reads"] = stats.reads;
  named["read_bytes"] = stats.read_bytes;
  named["direct_bytes"] = stats.direct_bytes;
  named["waits"] = stats.waits;
  named["wait_ns"] = stats.wait_ns;
  named["read_ns"] = stats.read_ns;
  named["most_reading"] = stats.most_reading;
  named["huge_pages"] = stats.huge_pages != 0;
  return named;
}

}  // namespace

void bind_read_streams(nb::module_& module) {
  nb::class_<ReadLease> lease(
      module, "ReadLease", nb::type_slots(LentBufferSlots<ReadLease>::slots),
      "What a read stream has read: a buffer of bytes, for numpy.frombuffer(), memoryview() and all"
      "\nthat takes buffers. Its bytes may be changed.\n\n"
      "release() gives the memory back, so that the next item is read into it, as does the end of a"
      "\n`with` block, and of the object. Afterwards it is no buffer any more. release() raises\n"
      "BufferError while a view of it is in use.");
  bind_lent_buffer(lease);
  lease.def("release_unless_viewed", [](ReadLease& self) { self.release_unless_exported(); });
  lease.def_ro("item", &ReadLease::item);
  lease.def_ro("offset", &ReadLease::offset);
  lease.def_ro("item_nbytes", &ReadLease::item_nbytes);

  nb::class_<OpenReadStream> stream(module, "ReadStream");
  stream.def(
      "__init__",
      [](OpenReadStream* self, nb::object service, nb::object shown,
         const std::vector<nb::bytes>& paths, bool files, int64_t buffer_bytes,
         int64_t budget_bytes, std::string path, uint32_t flow, bool relative_only) {
        new (self)
            OpenReadStream(std::move(service), std::move(shown), paths, files,
                           {buffer_bytes, budget_bytes, std::move(path), flow, relative_only});
      },
      nb::arg("service"), nb::arg("shown").none(), nb::arg("paths"), nb::arg("files"),
      nb::kw_only(), nb::arg("buffer_bytes") = 0, nb::arg("budget_bytes") = 0,
      nb::arg("path") = "auto", nb::arg("flow") = 0, nb::arg("relative_only") = false);
  stream.def("next", &OpenReadStream::next, nb::arg("timeout").none() = nb::none());
  stream.def("close", &OpenReadStream::close);
  stream.def("stats", &OpenReadStream::stats);
  stream.def_prop_ro("closed", &OpenReadStream::closed);
}

}  // namespace ioweave::python

#include "stream.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "gil.hpp"
#include "stream_common.hpp"

namespace ioweave::python {
namespace {

constexpr const char* kFailedBefore = "an earlier write to the file failed";

iow_write_stream_options options_of(const WriteStreamSettings& settings) {
  constexpr std::pair<const char*, iow_overflow> kOverflows[] = {
      {"block", IOW_OVERFLOW_BLOCK},
      {"fail", IOW_OVERFLOW_FAIL},
      {"synchronous", IOW_OVERFLOW_SYNCHRONOUS}};
  check_bytes("buffer_bytes", settings.buffer_bytes);
  check_bytes("budget_bytes", settings.budget_bytes);
  iow_write_stream_options options{};
  options.size = sizeof options;
  options.overflow = word_of("overflow", settings.overflow, kOverflows);
  options.path = word_of("path", settings.path, kStreamPaths);
  options.buffer_bytes = static_cast<uint64_t>(settings.buffer_bytes);
  options.budget_bytes = static_cast<uint64_t>(settings.budget_bytes);
  options.depth = settings.depth;
  options.flow = settings.flow;
  return options;
}

}  // namespace

// ---- OpenStream --------------------------------------------------------------------------------

OpenStream::OpenStream(nb::object service, const WriteStreamSettings& settings)
    : service_kept_(std::move(service)) {
  const iow_write_stream_options options = options_of(settings);
  char* text = nullptr;
  const int error =
      iow_write_stream_open(nb::cast<OpenService&>(service_kept_).raw(), &stream_, &options, &text);
  check_opened(error, text, nb::none());
}

OpenStream::~OpenStream() {
  if (stream_ != nullptr) {
    const WithoutGil released;
    iow_write_stream_close(stream_, 0, nullptr);
  }
}

Users& OpenStream::begin_use() {
  Remains::let_go_of_all();
  if (!users_.begin()) {
    throw nb::value_error("the write stream is closed");
  }
  return users_;
}

int OpenStream::create(nb::object path, const nb::bytes& encoded, bool keep, bool exclusive,
                       int64_t expected_bytes) {
  check_bytes("expected_bytes", expected_bytes);
  const char* const name_in_c = path_text(encoded);
  iow_write_file_options options{};
  options.size = sizeof options;
  options.keep = keep ? 1 : 0;
  options.exclusive = exclusive ? 1 : 0;
  options.expected_bytes = static_cast<uint64_t>(expected_bytes);
  Users& users = begin_use();
  char* text = nullptr;
  int file = 0;
  {
    const WithoutGil released;
    file = iow_write_stream_create(stream_, name_in_c, &options, &text);
    users.end();
  }
  const std::string why = take_text(text);
  if (file < 0) {
    raise_with_text(-file, file == -EINVAL ? why : "", path);
  }
  auto name = std::make_shared<StreamFileName>();
  name->name.path = std::move(path);
  const nb::ft_lock_guard guard(lock_);
  files_[file] = std::move(name);
  return file;
}

std::shared_ptr<StreamFileName> OpenStream::name_of(int file) {
  const nb::ft_lock_guard guard(lock_);
  return files_.at(file);
}

/// The errno of a file's failure, reported or not, and a sentence on it.
int OpenStream::failure_of(int file, std::string& why) const {
  char* text = nullptr;
  const int error = iow_write_stream_error(stream_, file, &text);
  why = take_text(text);
  return error;
}

/// While the stream is in use.
void OpenStream::check(int result, int file, StreamFileName& of) {
  if (result >= 0) {
    return;
  }
  std::string why;
  if (result == -ECANCELED) {
    why = is_inherited() ? "" : kFailedBefore;
  } else if (failure_of(file, why) == result) {
    of.is_reported = true;
  } else {
    why.clear();  // an error of the call
  }
  raise_with_text(-result, why, of.name.path);
}

/// Throws the error of a call on all files: that of the first one that was not raised yet.
void OpenStream::check_all(int result) {
  if (result >= 0) {
    return;
  }
  nb::object path = nb::none();
  std::string why;
  {
    const nb::ft_lock_guard guard(lock_);
    for (const auto& [file, of] : files_) {
      const bool is_it = failure_of(file, why) == result && !of->is_reported;
      if (is_it || (result == -ECANCELED && of->is_reported)) {
        why = is_it ? why : kFailedBefore;
        of->is_reported = true;
        path = of->name.path;
        break;
      }
      why.clear();
    }
  }
  if (path.is_none() && failure_of(IOW_ALL_FILES, why) != result) {
    why.clear();  // else of a file of a spread
  }
  raise_with_text(-result, why, path);
}

/// Calls one that waits for all files.
void OpenStream::reach_all(int (*call)(iow_write_stream*, int)) {
  Users& users = begin_use();
  const std::unique_ptr<Users, void (*)(Users*)> used(&users, [](Users* of) { of->end(); });
  int result = 0;
  {
    const WithoutGil released;
    result = call(stream_, IOW_ALL_FILES);
  }
  check_all(result);
}

/// Nobody uses the file any more.
void OpenStream::end(int file, bool durable) {
  if (!users_.begin()) {
    return;  // close() has ended it
  }
  const std::shared_ptr<StreamFileName> of = name_of(file);
  {
    const nb::ft_lock_guard guard(lock_);
    files_.erase(file);  // before its number is another file's
  }
  int result = 0;
  char* text = nullptr;
  {
    const WithoutGil released;
    result = iow_write_stream_end(stream_, file, durable ? 1 : 0, &text);
    users_.end();
  }
  const std::string why = take_text(text);
  if (result < 0 && (result != -ECANCELED || is_inherited())) {
    raise_with_text(-result, why, of->name.path);
  }
}

void OpenStream::close(bool durable) {
  if (!users_.refuse()) {
    return;
  }
  wait_for_calls(users_, is_inherited());
  char* text = nullptr;
  int result = 0;
  {
    const WithoutGil released;
    result = iow_write_stream_close(std::exchange(stream_, nullptr), durable ? 1 : 0, &text);
  }
  const std::string why = take_text(text);
  // ECANCELED: all errors were raised already.
  if (result == 0 || (result == -ECANCELED && !is_inherited())) {
    return;
  }
  for (const auto& [file, of] : files_) {
    const nb::object encoded = nb::module_::import_("os").attr("fsencode")(of->name.path);
    if (why.find(std::string("'") + nb::cast<nb::bytes>(encoded).c_str() + "'") !=
        std::string::npos) {
      raise_with_text(-result, why, of->name.path);
    }
  }
  raise_with_text(-result, why, nb::none());
}

nb::dict OpenStream::stats() {
  Users& users = begin_use();
  iow_write_stream_stats stats{};
  stats.size = sizeof stats;
  iow_write_stream_get_stats(stream_, &stats);
  users.end();
  nb::dict named;
  named["buffers"] = stats.buffers;
  named["writes"] = stats.writes;
  named["written_bytes"] = stats.written_bytes;
  named["direct_bytes"] = stats.direct_bytes;
  named["dropped_bytes"] = stats.dropped_bytes;
  named["lease_waits"] = stats.lease_waits;
  named["lease_wait_ns"] = stats.lease_wait_ns;
  named["return_ns"] = stats.return_ns;
  named["durable_ns"] = stats.durable_ns;
  named["write_ns"] = stats.write_ns;
  named["syncs"] = stats.syncs;
  named["most_in_use"] = stats.most_in_use;
  named["huge_pages"] = stats.huge_pages != 0;
  return named;
}

// ---- StreamFile --------------------------------------------------------------------------------

StreamFile::StreamFile(nb::object stream, int number)
    : stream_kept_(std::move(stream)),
      stream_(nb::cast<OpenStream&>(stream_kept_)),
      number_(number),
      names_(stream_.name_of(number)) {}

template <class Call>
void StreamFile::call(const Call& call) {
  Users& users = stream_.begin_use();
  if (!names_->users.begin()) {
    users.end();
    refuse_closed(names_->name.path);
  }
  int result = 0;
  {
    const WithoutGil released;
    result = call(stream_.raw());
  }
  struct Used {
    Users& stream;
    Users& file;
    ~Used() {
      file.end();
      stream.end();
    }
  } const used{users, names_->users};
  stream_.check(result, number_, *names_);
}

void StreamFile::copy(nb::handle data, std::optional<int64_t> offset) {
  if (offset) {
    check_offset(*offset);
  }
  Py_buffer view = buffer_of(data, offset ? "write" : "append", false);
  const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> released(&view, &PyBuffer_Release);
  call([&](iow_write_stream* stream) {
    return iow_write_stream_copy(stream, number_, view.buf, static_cast<uint64_t>(view.len),
                                 offset.value_or(-1));
  });
}

void StreamFile::flush() {
  call([&](iow_write_stream* stream) { return iow_write_stream_flush(stream, number_); });
}

void StreamFile::sync() {
  call([&](iow_write_stream* stream) { return iow_write_stream_sync(stream, number_); });
}

nb::object StreamFile::hand_over(iow_lease lease, uint64_t bytes, int64_t offset) {
  try {
    call([&](iow_write_stream*) {
      return offset < 0 ? iow_lease_append(&lease, number_, bytes)
                        : iow_lease_write(&lease, number_, bytes, offset);
    });
  } catch (...) {
    iow_lease_end(&lease);  // where the call was not made
    throw;
  }
  return nb::none();
}

bool StreamFile::ended() const noexcept {
  return stream_.closed() || names_->users.refused();
}

void StreamFile::end(bool durable) {
  if (!names_->users.refuse()) {
    return;
  }
  wait_for_calls(names_->users, stream_.is_inherited());
  stream_.end(number_, durable);
}

// ---- Lease -------------------------------------------------------------------------------------

void Lease::write(int64_t offset, int64_t bytes) {
  check_offset(offset);
  nb::cast<LeaseTaker&>(taker_).check_offset_is_free();
  static_cast<void>(hand_over(bytes, offset));
}

nb::object Lease::hand_over(int64_t bytes, int64_t offset) {
  iow_lease taken{};
  {
    const nb::ft_lock_guard guard(lock_);
    check_locked();
    if (bytes < 0 || static_cast<uint64_t>(bytes) > raw_.bytes) {
      throw nb::value_error(("nbytes must be 0 to " + std::to_string(raw_.bytes) +
                             ", the size of the lease, not " + std::to_string(bytes))
                                .c_str());
    }
    taken = take_locked();
  }
  return nb::cast<LeaseTaker&>(taker_).hand_over(taken, static_cast<uint64_t>(bytes), offset);
}

// ---- LeaseAsk ----------------------------------------------------------------------------------

LeaseAsk::LeaseAsk(nb::object taker)
    : taker_(std::move(taker)), of_(nb::cast<const LeaseTaker&>(taker_)) {}

LeaseAsk::~LeaseAsk() {
  iow_lease_end(&raw_);
}

LeaseAsk& LeaseAsk::ask(nb::object taker) {
  std::unique_ptr<LeaseAsk> asked(new LeaseAsk(std::move(taker)));
  OpenStream& stream = asked->of_.stream();
  Users& users = stream.begin_use();
  if (asked->of_.ended()) {
    users.end();
    refuse_closed(asked->of_.name().path);
  }
  int error = 0;
  {
    const WithoutGil released;
    error = iow_lease_begin_async(stream.raw(), &LeaseAsk::on_leased, asked.get());
    users.end();
  }
  if (error == -EAGAIN) {
    raise_with_text(EAGAIN, "all buffers of the write stream are in use", asked->of_.name().path);
  }
  if (error < 0) {
    raise_os_error(-error, asked->of_.name());
  }
  return *asked.release();
}

/// On a thread of the core's, or inside any call on the stream.
void LeaseAsk::on_leased(iow_lease lease, void* user) noexcept {
  auto& self = *static_cast<LeaseAsk*>(user);
  self.raw_ = lease;
  if (!self.go_to(lease.data != nullptr ? kLeased : kStreamClosed)) {
    iow_lease_end(&self.raw_);  // it was cancelled
  }
  Remains::leave(self);
}

/// False where it has ended otherwise.
bool LeaseAsk::go_to(Phase phase) noexcept {
  uint32_t asked = kAsked;
  // Release makes raw_ visible to result().
  if (!phase_.compare_exchange_strong(asked, phase, std::memory_order_acq_rel)) {
    return false;
  }
  ending_.set();
  return true;
}

nb::object LeaseAsk::result(std::optional<double> timeout_seconds) {
  ending_.sleep(timeout_seconds, "no buffer of the write stream became free", of_.name());
  const uint32_t phase = phase_.load(std::memory_order_acquire);
  if (phase == kStreamClosed) {
    throw nb::value_error("the write stream is closed");
  }
  if (phase == kCancelled) {
    raise_os_error(ECANCELED, of_.name());
  }
  const nb::ft_lock_guard guard(lock_);
  if (!lease_) {
    auto lease = std::make_unique<Lease>(taker_, raw_);
    raw_ = {};
    lease_ = nb::cast(lease.release(), nb::rv_policy::take_ownership);
  }
  return lease_;
}

bool LeaseAsk::cancel() {
  return go_to(kCancelled);
}

void LeaseAsk::abandon() noexcept {
  if (!go_to(kCancelled) && phase_.load(std::memory_order_acquire) == kLeased) {
    iow_lease_end(&raw_);  // unless result() took it
  }
  drop();
}

void LeaseAsk::drop() noexcept {
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete this;
  }
}

// ---- Module ------------------------------------------------------------------------------------

namespace {

/// What Python holds of the wait for a lease.
class AskHandle final : public Awaited {
 public:
  explicit AskHandle(LeaseAsk& asked) : asked_(&asked) {}
  AskHandle(AskHandle&& other) noexcept : asked_(std::exchange(other.asked_, nullptr)) {}
  AskHandle(const AskHandle&) = delete;
  AskHandle& operator=(const AskHandle&) = delete;
  AskHandle& operator=(AskHandle&&) = delete;
  ~AskHandle() override {
    if (asked_ != nullptr) {
      asked_->abandon();
    }
  }
  LeaseAsk* operator->() const { return asked_; }
  [[nodiscard]] Ending& ending() const noexcept override { return asked_->ending(); }

 private:
  LeaseAsk* asked_;
};

void bind_lease(nb::module_& module) {
  nb::class_<Lease> type(
      module, "Lease", nb::type_slots(LentBufferSlots<Lease>::slots),
      "Memory of a write stream to fill: a writable buffer of bytes, for numpy.frombuffer(),\n"
      "memoryview() and all that takes buffers. It begins at a multiple of 4096.\n\n"
      "append() or write() hand it over, and release() gives it back unwritten, as does the end "
      "of a\n`with` block. Afterwards it is no buffer any more. They raise BufferError while a "
      "view of it is\nin use, and it stays leased then.");
  type.def("append", &Lease::append, nb::arg("nbytes"));
  type.def("write", &Lease::write, nb::arg("offset"), nb::arg("nbytes"));
  bind_lent_buffer(type);

  nb::class_<AskHandle, Awaited> ask(module, "LeaseAsk");
  ask.def("done", [](const AskHandle& self) { return self->ending().done(); });
  ask.def(
      "result",
      [](const AskHandle& self, std::optional<double> timeout) { return self->result(timeout); },
      nb::arg("timeout").none() = nb::none());
  ask.def("cancel", [](const AskHandle& self) { return self->cancel(); });
}

}  // namespace

void bind_streams(nb::module_& module) {
  nb::class_<OpenStream> stream(module, "WriteStream");
  stream.def(
      "__init__",
      [](OpenStream* self, nb::object service, int64_t buffer_bytes, int64_t budget_bytes,
         uint32_t depth, std::string overflow, std::string path, uint32_t flow) {
        new (self) OpenStream(std::move(service), {buffer_bytes, budget_bytes, depth,
                                                   std::move(overflow), std::move(path), flow});
      },
      nb::arg("service"), nb::kw_only(), nb::arg("buffer_bytes") = 0, nb::arg("budget_bytes") = 0,
      nb::arg("depth") = 0, nb::arg("overflow") = "block", nb::arg("path") = "auto",
      nb::arg("flow") = 0);
  stream.def(
      "create",
      [](nb::handle_t<OpenStream> self, nb::object path, const nb::bytes& encoded, bool keep,
         bool exclusive, int64_t expected_bytes) {
        const int file = nb::cast<OpenStream&>(self).create(std::move(path), encoded, keep,
                                                            exclusive, expected_bytes);
        return new StreamFile(nb::borrow(self), file);
      },
      nb::arg("path"), nb::arg("encoded"), nb::arg("keep"), nb::arg("exclusive"),
      nb::arg("expected_bytes"), nb::rv_policy::take_ownership);
  stream.def("flush", &OpenStream::flush);
  stream.def("sync", &OpenStream::sync);
  stream.def("close", &OpenStream::close, nb::arg("durable"));
  stream.def("stats", &OpenStream::stats);
  stream.def_prop_ro("closed", &OpenStream::closed);

  nb::class_<LeaseTaker> taker(module, "LeaseTaker");
  taker.def("alease", [](nb::handle_t<LeaseTaker> self) {
    return AskHandle(LeaseAsk::ask(nb::borrow(self)));
  });
  taker.def(
      "lease",
      [](nb::handle_t<LeaseTaker> self, std::optional<double> timeout) {
        const AskHandle asked(LeaseAsk::ask(nb::borrow(self)));
        return asked->result(timeout);  // gives the place in line up where it throws
      },
      nb::arg("timeout").none() = nb::none());

  nb::class_<StreamFile, LeaseTaker> file(module, "StreamFile");
  file.def(
      "write", [](StreamFile& self, nb::handle data, int64_t offset) { self.copy(data, offset); },
      nb::arg("data"), nb::arg("offset"));
  file.def(
      "append", [](StreamFile& self, nb::handle data) { self.copy(data, std::nullopt); },
      nb::arg("data"));
  file.def("flush", &StreamFile::flush);
  file.def("sync", &StreamFile::sync);
  file.def("end", &StreamFile::end, nb::arg("durable"));
  file.def_prop_ro("ended", &StreamFile::ended);
  bind_lease(module);
}

}  // namespace ioweave::python

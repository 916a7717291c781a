// Spreads for Python. Conversions only: include/ioweave/spread.h holds the contract.

#include "ioweave/spread.h"

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "stream.hpp"
#include "stream_common.hpp"

namespace ioweave::python {
namespace {

struct SpreadSettings {
  std::string placement;
  std::string on_failure;
  bool exclusive;
  int64_t expected_bytes;
};

/// Any thread. A call keeps it and its stream open until it has returned.
class OpenSpread final : public LeaseTaker {
 public:
  OpenSpread(nb::object stream, nb::object manifest, const nb::bytes& encoded,
             const std::vector<nb::bytes>& targets, const SpreadSettings& settings);
  /// Ends it without a manifest.
  ~OpenSpread() override {
    if (spread_ != nullptr) {
      const WithoutGil released;
      iow_spread_abandon(spread_);
    }
  }
  OpenSpread(const OpenSpread&) = delete;
  OpenSpread& operator=(const OpenSpread&) = delete;

  nb::object append(nb::handle data);
  nb::object hand_over(iow_lease lease, uint64_t bytes, int64_t offset) override;
  void check_offset_is_free() const override {
    throw nb::value_error("a spread chooses where its items lie: use append()");
  }
  void end(bool durable);
  void abandon();
  nb::dict stats();

  [[nodiscard]] bool ended() const noexcept override {
    return stream_.closed() || users_.refused();
  }
  [[nodiscard]] OpenStream& stream() const noexcept override { return stream_; }
  [[nodiscard]] const FileName& name() const noexcept override { return name_; }

 private:
  /// Calls without the GIL, while spread and stream stay open. Returns its result, 0 or more.
  template <class Call>
  int call(const Call& call);

  const nb::object stream_kept_;
  OpenStream& stream_;
  FileName name_;
  iow_spread* spread_ = nullptr;
  Users users_;
};

OpenSpread::OpenSpread(nb::object stream, nb::object manifest, const nb::bytes& encoded,
                       const std::vector<nb::bytes>& targets, const SpreadSettings& settings)
    : stream_kept_(std::move(stream)), stream_(nb::cast<OpenStream&>(stream_kept_)) {
  constexpr std::pair<const char*, iow_placement> kPlacements[] = {
      {"round_robin", IOW_PLACE_ROUND_ROBIN}, {"load", IOW_PLACE_BY_LOAD}};
  constexpr std::pair<const char*, iow_target_failure> kFailures[] = {{"stop", IOW_FAILURE_STOP},
                                                                      {"move", IOW_FAILURE_MOVE}};
  check_bytes("expected_bytes", settings.expected_bytes);
  iow_spread_options options{};
  options.size = sizeof options;
  options.placement = word_of("placement", settings.placement, kPlacements);
  options.on_failure = word_of("on_failure", settings.on_failure, kFailures);
  options.exclusive = settings.exclusive ? 1 : 0;
  options.expected_bytes = static_cast<uint64_t>(settings.expected_bytes);
  std::vector<const char*> paths;
  paths.reserve(targets.size());
  for (const nb::bytes& target : targets) {
    paths.push_back(path_text(target));
  }
  const char* const path = path_text(encoded);
  name_.path = std::move(manifest);
  Users& users = stream_.begin_use();
  char* text = nullptr;
  int error = 0;
  {
    const WithoutGil released;
    error = iow_spread_create(stream_.raw(), &spread_, path, paths.data(),
                              static_cast<unsigned>(paths.size()), &options, &text);
    users.end();
  }
  const std::string why = take_text(text);
  if (error == -EINVAL) {
    throw nb::value_error(why.c_str());
  }
  if (error < 0) {
    raise_with_text(-error, why, name_.path);
  }
}

template <class Call>
int OpenSpread::call(const Call& call) {
  Users& users = stream_.begin_use();
  if (!users_.begin()) {
    users.end();
    refuse_closed(name_.path);
  }
  int result = 0;
  char* text = nullptr;
  {
    const WithoutGil released;
    result = call();
    if (result < 0 && iow_write_stream_error(stream_.raw(), IOW_ALL_FILES, &text) != result) {
      std::free(std::exchange(text, nullptr));  // an error of the call
    }
  }
  users_.end();
  users.end();
  const std::string why = take_text(text);
  if (result < 0) {
    const bool is_told = result == -ECANCELED && !stream_.is_inherited();
    raise_with_text(-result, is_told ? "an earlier write of the spread failed" : why, name_.path);
  }
  return result;
}

nb::object OpenSpread::append(nb::handle data) {
  Py_buffer view = buffer_of(data, "append", false);
  const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> released(&view, &PyBuffer_Release);
  uint64_t item = 0;
  const auto bytes = static_cast<uint64_t>(view.len);
  call([&] { return iow_spread_copy(spread_, view.buf, bytes, &item); });
  return nb::int_(item);
}

nb::object OpenSpread::hand_over(iow_lease lease, uint64_t bytes, int64_t /*offset*/) {
  uint64_t item = 0;
  try {
    call([&] { return iow_spread_append(&lease, spread_, bytes, &item); });
  } catch (...) {
    iow_lease_end(&lease);  // where the call was not made
    throw;
  }
  return nb::int_(item);
}

void OpenSpread::end(bool durable) {
  if (!users_.refuse()) {
    return;
  }
  wait_for_calls(users_, stream_.is_inherited());
  char* text = nullptr;
  int error = 0;
  {
    const WithoutGil released;
    error = iow_spread_end(std::exchange(spread_, nullptr), durable ? 1 : 0, &text);
  }
  const std::string why = take_text(text);
  if (error < 0 && (error != -ECANCELED || stream_.is_inherited())) {
    raise_with_text(-error, why, name_.path);
  }
}

void OpenSpread::abandon() {
  if (users_.refuse()) {
    wait_for_calls(users_, stream_.is_inherited());
    const WithoutGil released;
    iow_spread_abandon(std::exchange(spread_, nullptr));
  }
}

nb::dict OpenSpread::stats() {
  iow_spread_stats stats{};
  stats.size = sizeof stats;
  call([&] { return iow_spread_get_stats(spread_, &stats); });
  nb::dict named;
  named["targets"] = stats.targets;
  named["failed_targets"] = stats.failed_targets;
  named["items"] = stats.items;
  named["nbytes"] = stats.bytes;
  named["moved_items"] = stats.moved_items;
  named["lost_items"] = stats.lost_items;
  return named;
}

}  // namespace

void bind_spreads(nb::module_& module) {
  nb::class_<OpenSpread, LeaseTaker> spread(module, "Spread");
  spread.def(
      "__init__",
      [](OpenSpread* self, nb::object stream, nb::object manifest, const nb::bytes& encoded,
         const std::vector<nb::bytes>& targets, std::string placement, std::string on_failure,
         bool exclusive, int64_t expected_bytes) {
        new (self)
            OpenSpread(std::move(stream), std::move(manifest), encoded, targets,
                       {std::move(placement), std::move(on_failure), exclusive, expected_bytes});
      },
      nb::arg("stream"), nb::arg("manifest"), nb::arg("encoded"), nb::arg("targets"),
      nb::arg("placement"), nb::arg("on_failure"), nb::arg("exclusive"), nb::arg("expected_bytes"));
  spread.def("append", &OpenSpread::append, nb::arg("data"));
  spread.def("end", &OpenSpread::end, nb::arg("durable"));
  spread.def("abandon", &OpenSpread::abandon);
  spread.def("stats", &OpenSpread::stats);
  spread.def_prop_ro("ended", [](const OpenSpread& self) { return self.ended(); });
}

}  // namespace ioweave::python

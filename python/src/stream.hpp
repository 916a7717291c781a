#pragma once

// Write streams for Python. Conversions only: include/ioweave/streams.h holds the contract.
//
// A lease is memory of the stream that Python sees as a buffer. While a view of it is exported it
// cannot be handed over, so that nobody can write to memory that is being written or leased again.
//
// Who waits for a lease waits for a LeaseAsk, whose end comes on a thread of the core's and touches
// no Python object. So a signal ends the wait, and an event loop can await it.

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "file.hpp"
#include "ioweave/streams.h"
#include "lent_buffer.hpp"
#include "module.hpp"
#include "transfer.hpp"

namespace ioweave::python {

/// A file of a stream, as its errors name it.
struct StreamFileName {
  FileName name;
  bool is_reported = false;  ///< its error was raised
  Users users;
};

struct WriteStreamSettings {
  int64_t buffer_bytes;
  int64_t budget_bytes;
  uint32_t depth;
  std::string overflow;
  std::string path;
  uint32_t flow;
};

/// A stream. Any thread. A call keeps it open until it has returned.
class OpenStream {
 public:
  OpenStream(nb::object service, const WriteStreamSettings& settings);
  /// Waits for writes under way; their errors are dropped.
  ~OpenStream();
  OpenStream(const OpenStream&) = delete;
  OpenStream& operator=(const OpenStream&) = delete;

  /// The number of the file. `encoded` is `path` as bytes.
  int create(nb::object path, const nb::bytes& encoded, bool keep, bool exclusive,
             int64_t expected_bytes);
  std::shared_ptr<StreamFileName> name_of(int file);
  void flush() { reach_all(&iow_write_stream_flush); }
  void sync() { reach_all(&iow_write_stream_sync); }
  void end(int file, bool durable);
  void close(bool durable);
  [[nodiscard]] bool closed() const noexcept { return users_.refused(); }
  nb::dict stats();

  /// Throws ValueError where it is closed. The caller owes an end().
  Users& begin_use();
  [[nodiscard]] iow_write_stream* raw() const noexcept { return stream_; }
  [[nodiscard]] bool is_inherited() const noexcept { return process_ != process_generation(); }

  /// Throws the error of a call on one file; nothing is thrown for 0 and more.
  void check(int result, int file, StreamFileName& of);

 private:
  void check_all(int result);
  void reach_all(int (*call)(iow_write_stream*, int));
  [[nodiscard]] int failure_of(int file, std::string& why) const;

  const nb::object service_kept_;
  iow_write_stream* stream_ = nullptr;
  const uint32_t process_ = process_generation();
  Users users_;
  nb::ft_mutex lock_;
  std::map<int, std::shared_ptr<StreamFileName>> files_;  ///< that have not ended
};

/// What takes leases of a stream: a file of it, or a spread.
class LeaseTaker {
 public:
  LeaseTaker() = default;
  virtual ~LeaseTaker() = default;
  LeaseTaker(const LeaseTaker&) = delete;
  LeaseTaker& operator=(const LeaseTaker&) = delete;

  /// Hands a lease over; a negative offset appends. Returns what append() returns.
  virtual nb::object hand_over(iow_lease lease, uint64_t bytes, int64_t offset) = 0;
  /// Throws ValueError where the caller must not choose the offset.
  virtual void check_offset_is_free() const {}
  [[nodiscard]] virtual bool ended() const noexcept = 0;
  [[nodiscard]] virtual OpenStream& stream() const noexcept = 0;
  [[nodiscard]] virtual const FileName& name() const noexcept = 0;
};

/// A file of a stream.
class StreamFile final : public LeaseTaker {
 public:
  StreamFile(nb::object stream, int number);

  void copy(nb::handle data, std::optional<int64_t> offset);
  void flush();
  void sync();
  void end(bool durable);
  [[nodiscard]] bool ended() const noexcept override;
  nb::object hand_over(iow_lease lease, uint64_t bytes, int64_t offset) override;

  [[nodiscard]] OpenStream& stream() const noexcept override { return stream_; }
  [[nodiscard]] const FileName& name() const noexcept override { return names_->name; }

 private:
  /// Calls without the GIL, while file and stream stay open, and throws its error.
  template <class Call>
  void call(const Call& call);

  const nb::object stream_kept_;
  OpenStream& stream_;
  const int number_;
  const std::shared_ptr<StreamFileName> names_;
};

/// A buffer of a stream, which Python may fill.
class Lease : public LentBuffer<iow_lease, &iow_lease_end> {
 public:
  Lease(nb::object taker, const iow_lease& raw)
      : LentBuffer(raw, "the lease was handed over or released"), taker_(std::move(taker)) {}

  nb::object append(int64_t bytes) { return hand_over(bytes, -1); }
  void write(int64_t offset, int64_t bytes);

 private:
  nb::object hand_over(int64_t bytes, int64_t offset);

  const nb::object taker_;
};

/// Somebody's wait for a lease. Two own it: its handle in Python, and the core until its end.
class LeaseAsk final : public Remains {
 public:
  /// Asked for; throws OSError. The caller owes an abandon().
  static LeaseAsk& ask(nb::object taker);
  ~LeaseAsk() override;

  [[nodiscard]] Ending& ending() noexcept { return ending_; }
  /// A Lease, the same each time. Throws TimeoutError, OSError ECANCELED, ValueError where the
  /// stream was closed, or what a signal handler raised.
  nb::object result(std::optional<double> timeout_seconds);
  /// False where it has ended already.
  bool cancel();
  /// The handle is gone: nobody will take the lease.
  void abandon() noexcept;

 private:
  enum Phase : uint32_t { kAsked, kLeased, kCancelled, kStreamClosed };

  explicit LeaseAsk(nb::object taker);
  static void on_leased(iow_lease lease, void* user) noexcept;
  void let_go() override { drop(); }
  void drop() noexcept;
  bool go_to(Phase phase) noexcept;

  nb::object taker_;
  const LeaseTaker& of_;
  Ending ending_;
  std::atomic<uint32_t> phase_ = kAsked;
  std::atomic<int> owners_ = 2;
  nb::ft_mutex lock_;
  iow_lease raw_{};
  nb::object lease_;  ///< once somebody asked for the result
};

}  // namespace ioweave::python

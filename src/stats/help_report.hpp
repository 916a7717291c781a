#pragma once

// Why the command helped the reader or the writer of a file, or did not, as it saw it last: for
// `ioweave report --why` (cli/why_text.hpp). The watcher (stream/watch/) decides for each reader,
// and from one sync to the next; what tells most is kept. It asks for the path of a file only
// before it opens it: without one, the id tells which file it is, which a later file may have as
// well.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/file_id.hpp"

namespace ioweave::stats {

/// Why a file was read ahead of its reader, or was not.
enum class ReadHelp : uint32_t {
  unknown,       ///< the run file does not tell
  not_followed,  ///< the watcher never saw a reader
  unseen,        ///< its position stands still, and what comes into the page cache shows nobody
  too_short,     ///< nothing could be decided
  holes,         ///< it is mapped, and few of its pages were touched in order
  no_order,
  cached,
  hardly_waits,  ///< the kernel's own read-ahead is in time
  slower,        ///< compared, help cost time
  device_busy,
  no_processor,
  not_told,  ///< whether its reader waits
  budget,    ///< [[device]] bandwidth
  direct,    ///< O_DIRECT
  leased,
  listened,  ///< to opens: fanotify, inotify
  mpiio,     ///< libioweave_mpiio_*.so cares for it
  policy,
  forgetful,  ///< its file system empties a file's cache when it is opened
  not_opened,
  refused,   ///< by its file system
  replayed,  ///< a plan helps it
  helped,
};
/// As the run file calls them.
inline constexpr std::array<std::string_view, 23> kReadHelpNames{
    "unknown",   "not followed", "unseen",  "too short",   "holes",   "no order",
    "cached",    "hardly waits", "slower",  "device busy", "crowded", "not told",
    "budget",    "O_DIRECT",     "leased",  "listened",    "MPI-IO",  "policy",
    "forgetful", "not opened",   "refused", "replayed",    "helped"};
/// As a reader of the report is told, behind "nothing was brought in ahead:".
inline constexpr std::array<std::string_view, kReadHelpNames.size()> kReadHelpWords{
    "its reads were too few or in no order, or found what they wanted in the page cache",
    "it is smaller than 1 MiB, or was never seen to be read",
    "its reads move no position, and what came into the page cache showed no reader",
    "its reading was over before it was known whether help pays",
    "of its map too little was read in order from its beginning",
    "it was read in no order",
    "what would be read next was found in the page cache",
    "its reader hardly waits for storage",
    "its reader was slower with help",
    "its device is busy without help",
    "no processor is to spare",
    "the kernel does not tell whether its reader waits",
    "the bandwidth of its [[device]] was used up",
    "it is read with O_DIRECT",
    "the program has a lease on it",
    "a process of the run listens to opens",
    "it is left to the library for MPI-IO",
    "its policy leaves reads alone",
    "its file system empties what is cached of a file that is opened again",
    "it could not be opened a second time",
    "its file system does not read ahead on request",
    "the plan that is replayed cares for it",
    "it waits for storage, and its device has time"};

/// Why a file was written early, or was not.
enum class EarlyHelp : uint32_t {
  unknown,       ///< the run file does not tell
  not_followed,  ///< the watcher never saw a writer
  small,
  first,     ///< of its use (stream/watch/early_writer.hpp), and synced
  unsynced,  ///< none of its use was synced before, nor was it
  alone,     ///< left alone to compare
  slower,    ///< compared, early writing cost time
  lost,      ///< as much was written for nothing as may be
  late,      ///< it was over before anything could be written
  file_system,
  policy,
  waits,  ///< O_SYNC, O_DSYNC, O_DIRECT
  leased,
  nameless,
  listened,
  mpiio,
  not_opened,
  not_told,  ///< which pages are unwritten
  early,
};
inline constexpr std::array<std::string_view, 19> kEarlyHelpNames{
    "unknown",  "not followed", "small",       "first",    "unsynced", "alone",  "slower",
    "lost",     "late",         "file system", "policy",   "waits",    "leased", "nameless",
    "listened", "MPI-IO",       "not opened",  "not told", "early"};
/// Behind "nothing was written early:".
inline constexpr std::array<std::string_view, kEarlyHelpNames.size()> kEarlyHelpWords{
    "nothing is known of it",
    "it is smaller than 1 MiB, or was never seen to be written",
    "it is less than 8 MiB from one sync to the next",
    "it was left alone as the first of its folder that is synced; behind it others are written "
    "early",
    "it was left alone, since neither it nor a file of its folder before was seen to be synced",
    "it was left alone to compare the paces",
    "files of its folder were slower when written early",
    "as much had been written for nothing as was synced",
    "its writing was over before anything could be written early",
    "its file system is neither ext4 nor XFS",
    "its policy leaves writes alone",
    "its writes wait for the device themselves",
    "the program has a lease on it",
    "it had no name any more",
    "a process of the run listens to opens",
    "it is left to the library for MPI-IO",
    "it could not be opened a second time",
    "the kernel does not tell what of it is unwritten",
    "it pays for files of its folder"};

/// MB/s, computation included; 0: not measured.
struct Paces {
  double alone_mb_per_s = 0;
  double helped_mb_per_s = 0;

  [[nodiscard]] static double mb_per_s(double ns_per_byte) noexcept {
    return ns_per_byte > 0 ? 1e3 / ns_per_byte : 0;
  }
};

struct ReadHelpReport {
  ReadHelp why = ReadHelp::not_followed;
  uint64_t read_bytes = 0;   ///< its reader was seen to read
  uint64_t since_bytes = 0;  ///< of these, before anything was brought in
  Paces paces;
};

struct EarlyHelpReport {
  EarlyHelp why = EarlyHelp::not_followed;
  Paces paces;  ///< of files of its use
};

/// What is known of the files of a run. One thread.
class HelpNotes {
 public:
  struct Note {
    ReadHelpReport read;
    EarlyHelpReport early;
  };

  /// Adds what one reader of a file came to. `path`: empty where it is not known. One that was
  /// helped tells more than one for which it was decided otherwise, and that more than one for
  /// which nothing was decided; of equals the one that read most.
  void add(const FileId& id, const std::string& path, const ReadHelpReport& reader);
  /// Adds what was done from one sync to the next: the last one stays, unless it was small.
  void add(const FileId& id, const std::string& path, const EarlyHelpReport& cycle);

  /// Returns what is known of a file.
  [[nodiscard]] Note find(const FileId& id, const std::string& path) const;

  static constexpr size_t kMost = 1 << 16;  ///< files; others are not noted

 private:
  using Key = std::pair<FileId, std::string>;
  [[nodiscard]] Note* note_of(Key key);

  std::map<Key, Note> notes_;
};

/// Returns true if it was decided to help, or not to.
[[nodiscard]] bool is_decided(ReadHelp why) noexcept;

}  // namespace ioweave::stats

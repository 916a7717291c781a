#include "stats/help_report.hpp"

#include <tuple>

namespace ioweave::stats {

bool is_decided(ReadHelp why) noexcept {
  return why > ReadHelp::too_short;
}

namespace {

void add_reader(ReadHelpReport& sum, const ReadHelpReport& reader) {
  const auto rank = [](const ReadHelpReport& report) {
    return std::tuple(report.since_bytes > 0, is_decided(report.why), report.read_bytes,
                      report.why);
  };
  if (rank(reader) > rank(sum)) sum = reader;
}

}  // namespace

HelpNotes::Note* HelpNotes::note_of(Key key) {
  const auto found = notes_.find(key);
  if (found != notes_.end()) return &found->second;
  return notes_.size() < kMost ? &notes_[std::move(key)] : nullptr;
}

void HelpNotes::add(const FileId& id, const std::string& path, const ReadHelpReport& reader) {
  if (Note* const note = note_of({id, path}); note != nullptr) add_reader(note->read, reader);
}

void HelpNotes::add(const FileId& id, const std::string& path, const EarlyHelpReport& cycle) {
  Note* const note = note_of({id, path});
  if (note == nullptr) return;
  const bool tells_little =
      cycle.why == EarlyHelp::small && note->early.why != EarlyHelp::not_followed;
  if (!tells_little) note->early = cycle;
}

HelpNotes::Note HelpNotes::find(const FileId& id, const std::string& path) const {
  Note note;
  if (const auto found = notes_.find({id, path}); found != notes_.end()) note = found->second;
  if (const auto found = notes_.find({id, ""}); found != notes_.end()) {
    add_reader(note.read, found->second.read);
    if (note.early.why == EarlyHelp::not_followed) note.early = found->second.early;
  }
  return note;
}

}  // namespace ioweave::stats

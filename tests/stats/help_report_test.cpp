#include "stats/help_report.hpp"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

namespace ioweave::stats {
namespace {

constexpr FileId kFile{1, 2};

ReadHelp kept(const HelpNotes& notes) {
  return notes.find(kFile, "/file").read.why;
}

TEST(HelpNotes, OfAFileThatNobodyNotedNothingIsKnown) {
  EXPECT_EQ(kept({}), ReadHelp::not_followed);
}

TEST(HelpNotes, AReaderThatWasHelpedTellsMost) {
  HelpNotes notes;
  notes.add(kFile, "/file", ReadHelpReport{ReadHelp::slower, 10, 5, {}});
  notes.add(kFile, "/file", ReadHelpReport{ReadHelp::hardly_waits, 1000, 0, {}});
  EXPECT_EQ(kept(notes), ReadHelp::slower);
}

TEST(HelpNotes, AReaderOfWhichSomethingWasDecidedTellsMoreThanOneThatReadMore) {
  HelpNotes notes;
  notes.add(kFile, "/file", ReadHelpReport{ReadHelp::no_order, 10, 0, {}});
  notes.add(kFile, "/file", ReadHelpReport{ReadHelp::too_short, 1000, 0, {}});
  notes.add(kFile, "/file", ReadHelpReport{ReadHelp::unseen, 0, 0, {}});
  EXPECT_EQ(kept(notes), ReadHelp::no_order);
}

TEST(HelpNotes, OfTwoReadersTheOneThatReadMoreTells) {
  HelpNotes notes;
  notes.add(kFile, "/file", ReadHelpReport{ReadHelp::no_order, 10, 0, {}});
  notes.add(kFile, "/file", ReadHelpReport{ReadHelp::cached, 20, 0, {}});
  notes.add(kFile, "/file", ReadHelpReport{ReadHelp::no_order, 15, 0, {}});
  EXPECT_EQ(kept(notes), ReadHelp::cached);
}

TEST(HelpNotes, OfWritesTheLastOnesTellUnlessTheyAreFew) {
  HelpNotes notes;
  notes.add(kFile, "/file", EarlyHelpReport{EarlyHelp::small, {}});
  EXPECT_EQ(notes.find(kFile, "/file").early.why, EarlyHelp::small);
  notes.add(kFile, "/file", EarlyHelpReport{EarlyHelp::first, {}});
  notes.add(kFile, "/file", EarlyHelpReport{EarlyHelp::early, {}});
  notes.add(kFile, "/file", EarlyHelpReport{EarlyHelp::small, {}});
  EXPECT_EQ(notes.find(kFile, "/file").early.why, EarlyHelp::early);
  EXPECT_EQ(kept(notes), ReadHelp::not_followed);
}

TEST(HelpNotes, OfARemovedFileAndALaterOneWithItsIdAreKeptApart) {
  HelpNotes notes;
  notes.add(kFile, "/0", EarlyHelpReport{EarlyHelp::first, {}});
  notes.add(kFile, "/1", EarlyHelpReport{EarlyHelp::early, {}});
  notes.add(kFile, "", EarlyHelpReport{EarlyHelp::small, {}});
  EXPECT_EQ(notes.find(kFile, "/0").early.why, EarlyHelp::first);
  EXPECT_EQ(notes.find(kFile, "/1").early.why, EarlyHelp::early);
  EXPECT_EQ(notes.find(kFile, "/2").early.why, EarlyHelp::small);
}

TEST(HelpNotes, OfReadersWithAndWithoutAPathTheOneThatTellsMoreIsTaken) {
  HelpNotes notes;
  notes.add(kFile, "/file", ReadHelpReport{ReadHelp::hardly_waits, 10, 0, {}});
  notes.add(kFile, "", ReadHelpReport{ReadHelp::no_order, 20, 0, {}});
  EXPECT_EQ(kept(notes), ReadHelp::no_order);
  notes.add(kFile, "/file", ReadHelpReport{ReadHelp::helped, 10, 5, {}});
  EXPECT_EQ(kept(notes), ReadHelp::helped);
}

TEST(HelpNotes, AreBounded) {
  HelpNotes notes;
  for (ino_t inode = 0; inode <= HelpNotes::kMost; ++inode) {
    notes.add({1, inode}, "", EarlyHelpReport{EarlyHelp::first, {}});
  }
  EXPECT_EQ(notes.find({1, HelpNotes::kMost - 1}, "").early.why, EarlyHelp::first);
  EXPECT_EQ(notes.find({1, HelpNotes::kMost}, "").early.why, EarlyHelp::not_followed);
}

TEST(HelpReasons, HaveNamesAndWordsOfTheirOwn) {
  EXPECT_EQ(kReadHelpNames.size(), static_cast<size_t>(ReadHelp::helped) + 1);
  EXPECT_EQ(kEarlyHelpNames.size(), static_cast<size_t>(EarlyHelp::early) + 1);
  const auto count = [](const auto& names) {
    return std::set<std::string_view>(names.begin(), names.end()).size();
  };
  EXPECT_EQ(count(kReadHelpNames), kReadHelpNames.size());
  EXPECT_EQ(count(kReadHelpWords), kReadHelpNames.size());
  EXPECT_EQ(count(kEarlyHelpNames), kEarlyHelpNames.size());
  EXPECT_EQ(count(kEarlyHelpWords), kEarlyHelpNames.size());
}

}  // namespace
}  // namespace ioweave::stats

#include "cli/why_text.hpp"

#include <cstring>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ioweave::cli {
namespace {

using config::RunPolicy;
using stats::CallClass;
using stats::Degrade;
using stats::EarlyHelp;
using stats::FileReport;
using stats::ReadHelp;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMiB = 1u << 20;

FileReport file_with(CallClass which) {
  FileReport file;
  file.path = "/data/file";
  file.file_system = "ext4";
  file.call[static_cast<size_t>(which)] = {100, 64 * kMiB, 0, 1};
  return file;
}

std::string text_of(const FileReport& file, const stats::RunReport& report = {}) {
  return why_text(report, file);
}

/// What is said of a file that was read, and of which nothing was brought in.
std::string text_of(ReadHelp why, Degrade degrade = Degrade::none) {
  FileReport file = file_with(CallClass::read);
  file.read_help = {why, kMiB, 0, {}};
  file.degrade = degrade;
  return text_of(file);
}

std::string text_of(EarlyHelp why, const stats::Paces& paces = {}) {
  FileReport file = file_with(CallClass::write);
  file.early_help = {why, paces};
  return text_of(file);
}

FileReport helped_file(ReadHelp why, const stats::Paces& paces) {
  FileReport file = file_with(CallClass::read);
  file.prefetched_bytes = file.prefetched_used_bytes = 50 * kMiB;
  file.read_help = {why, 64 * kMiB, 12 * kMiB, paces};
  return file;
}

FileReport early_file(EarlyHelp why, const stats::Paces& paces) {
  FileReport file = file_with(CallClass::write);
  file.early = {1, 48 * kMiB, 0};
  file.early_help = {why, paces};
  return file;
}

// ---- Reads --------------------------------------------------------------------------------------

TEST(WhyText, EachReasonNotToReadAheadIsSaid) {
  for (size_t i = 1; i < stats::kReadHelpNames.size(); ++i) {
    EXPECT_THAT(text_of(static_cast<ReadHelp>(i)),
                HasSubstr("  Nothing was brought in ahead: " +
                          std::string(stats::kReadHelpWords[i]) + ".\n"));
  }
}

TEST(WhyText, OfAnOlderRunFileItSaysWhatItAlwaysSaid) {
  EXPECT_THAT(text_of(ReadHelp::unknown),
              HasSubstr("  Nothing was brought in ahead: its reads were too few or in no order, or "
                        "found what they wanted in the page cache.\n"));
  EXPECT_THAT(text_of(ReadHelp::unknown, Degrade::mapped), HasSubstr("in ahead: mapped.\n"));
  EXPECT_THAT(text_of(helped_file(ReadHelp::unknown, {})), Not(HasSubstr("Help began")));
  EXPECT_THAT(text_of(EarlyHelp::unknown), Not(HasSubstr("early")));
}

TEST(WhyText, WhatTheInterposerKnowsIsSaidWhereNothingWasDecided) {
  EXPECT_THAT(text_of(ReadHelp::not_followed, Degrade::memory_file),
              HasSubstr("in ahead: memory file.\n"));
  EXPECT_THAT(text_of(ReadHelp::no_order, Degrade::mapped),
              HasSubstr("in ahead: it was read in no order.\n"));
}

TEST(WhyText, APolicyThatLeavesReadsAloneIsSaid) {
  FileReport file = file_with(CallClass::read);
  file.policy = RunPolicy::off;
  EXPECT_THAT(text_of(file), HasSubstr("Nothing is brought in ahead under this policy."));
}

TEST(WhyText, HelpThatWasComparedIsSaidWithItsPaces) {
  EXPECT_THAT(text_of(helped_file(ReadHelp::helped, {250, 400})),
              HasSubstr("  Help began when 12.0 MiB were read, and was compared: 400 MB/s with "
                        "help, 250 MB/s without it, computation included (1.60 times as fast).\n"));
}

TEST(WhyText, HelpThatWasNotComparedIsSaidWithItsReason) {
  EXPECT_THAT(text_of(helped_file(ReadHelp::helped, {0, 400})),
              HasSubstr("  Help began when 12.0 MiB were read, since it waits for storage, and its "
                        "device has time: 400 MB/s with help, not compared.\n"));
}

TEST(WhyText, HelpThatABudgetHeldBackIsSaid) {
  EXPECT_THAT(
      text_of(helped_file(ReadHelp::budget, {0, 400})),
      HasSubstr("  Help began when 12.0 MiB were read, and was held back by the bandwidth of "
                "its [[device]]: 400 MB/s with help, not compared.\n"));
}

TEST(WhyText, HelpThatWasSlowerIsSaidWithThePartThatItCost) {
  EXPECT_THAT(text_of(helped_file(ReadHelp::slower, {250, 200})),
              HasSubstr("and has ended: its reader was slower with help: 200 MB/s with help, 250 "
                        "MB/s without it, computation included (slower by 25 %).\n"));
}

TEST(WhyText, HelpThatEndedForAnotherReasonIsSaidWithoutPaces) {
  EXPECT_THAT(text_of(helped_file(ReadHelp::cached, {250, 200})),
              HasSubstr("and has ended: what would be read next was found in the page cache.\n"));
}

TEST(WhyText, APlanThatBroughtSomethingInIsNamed) {
  FileReport file = helped_file(ReadHelp::replayed, {});
  EXPECT_THAT(text_of(file), HasSubstr("  The plan that was replayed did that.\n"));
}

TEST(WhyText, ReadsThatNobodyObservedAreSaidAsTheyWereSeen) {
  FileReport file = helped_file(ReadHelp::holes, {});
  file.call = {};
  EXPECT_THAT(text_of(file), HasSubstr("  read 64.0 MiB, by no observed call\n"));
}

// ---- Writes -------------------------------------------------------------------------------------

TEST(WhyText, EachReasonNotToWriteEarlyIsSaid) {
  for (size_t i = 1; i < stats::kEarlyHelpNames.size(); ++i) {
    EXPECT_THAT(text_of(static_cast<EarlyHelp>(i)),
                HasSubstr("  Nothing was written early: " + std::string(stats::kEarlyHelpWords[i]) +
                          ".\n"));
  }
}

TEST(WhyText, EarlyWritingThatWasSlowerIsSaidWithItsPaces) {
  EXPECT_THAT(text_of(EarlyHelp::slower, {250, 200}),
              HasSubstr("files of its folder were slower when written early: 200 MB/s with help, "
                        "250 MB/s without it, computation included (slower by 25 %).\n"));
  EXPECT_THAT(text_of(early_file(EarlyHelp::slower, {250, 200})),
              HasSubstr("  In the end nothing was: files of its folder were slower when written "
                        "early: 200 MB/s with help"));
}

TEST(WhyText, EarlyWritingIsSaidWithItsPaces) {
  EXPECT_THAT(
      text_of(early_file(EarlyHelp::early, {250, 400})),
      AllOf(HasSubstr("  48.0 MiB were written early, in 1 cycle from one sync to the next"),
            HasSubstr("  Of files of its folder, the quickest were written at 400 MB/s with "
                      "help, 250 MB/s without it")));
}

TEST(WhyText, OnOtherFileSystemsNothingIsWrittenEarly) {
  FileReport file = file_with(CallClass::write);
  file.file_system = "tmpfs";
  EXPECT_THAT(text_of(file), HasSubstr("its file system is neither ext4 nor XFS"));
}

TEST(WhyText, WithODirectNothingIsWrittenEarly) {
  FileReport file = file_with(CallClass::write);
  file.degrade = Degrade::direct;
  EXPECT_THAT(text_of(file), HasSubstr("early: its writes wait for the device themselves.\n"));
  file.degrade = Degrade::none;
  file.choices.emplace_back();
  EXPECT_THAT(text_of(file), HasSubstr("early: its writes wait for the device themselves.\n"));
}

TEST(WhyText, SettingsThatForbidEarlyWritingAreSaid) {
  FileReport file = file_with(CallClass::write);
  stats::RunReport report;
  report.config.early_writeback = config::EarlyWriteback::never;
  EXPECT_THAT(text_of(file, report), HasSubstr("the setting early_writeback is never"));
  file.policy = RunPolicy::off;
  EXPECT_THAT(text_of(file), HasSubstr("Nothing is written early under this policy"));
}

// ---- Writes that are held back ------------------------------------------------------------------

TEST(WhyText, TheRuleByWhichWritesAreHeldBackIsNamed) {
  FileReport file = file_with(CallClass::write);
  file.policy = RunPolicy::behind;
  stats::RunReport report;
  report.behind.calls = 7;
  EXPECT_THAT(text_of(file, report),
              HasSubstr("  Its writes may be held back, by the policy of the "
                        "run; of all files of the run 7 were.\n"));
  report.config.rules = 1;
  std::strcpy(report.config.rule[0].glob, "/data/*");
  report.config.rule[0].policy = RunPolicy::behind;
  EXPECT_THAT(text_of(file, report), HasSubstr("held back, by the rule for '/data/*'; of"));
}

TEST(WhyText, WhyWritesAreNotHeldBackIsSaid) {
  FileReport file = file_with(CallClass::write);
  file.policy = RunPolicy::behind;
  file.degrade = Degrade::append;
  EXPECT_THAT(text_of(file),
              HasSubstr("  Its writes should be held back, by the policy of the run, "
                        "and are the program's own calls: O_APPEND.\n"));
}

}  // namespace
}  // namespace ioweave::cli

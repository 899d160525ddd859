#include "fuse/options/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "fuse/options/command_line.h"
#include "fuse/options/mount_flags.h"

namespace dafs::fuse {
namespace {

using ::testing::HasSubstr;

// Values of the option: the words, or NAME=VALUE with the least and the greatest, or each choice.
std::vector<std::string> Examples(const OptionRow& row) {
  const std::string name(row.name);
  if (std::holds_alternative<Word>(row.kind)) return {name, std::string(row.opposite)};
  if (const Number* number = std::get_if<Number>(&row.kind)) {
    return {name + "=" + std::to_string(number->least), name + "=" + std::to_string(number->most)};
  }
  std::vector<std::string> examples;
  if (const Choice* choice = std::get_if<Choice>(&row.kind)) {
    std::istringstream names{std::string(choice->names)};
    for (std::string one; std::getline(names, one, '|');) examples.push_back(name + "=" + one);
  }
  if (const FreeText* text = std::get_if<FreeText>(&row.kind)) {
    examples.push_back(name + (text->shown == "FILE" ? "=/0" : "=0"));
  }
  return examples;
}

TEST(OptionTable, EachExampleIsAcceptedByItsOwnRow) {
  for (const OptionRow& row : OptionTable()) {
    for (const std::string& example : Examples(row)) {
      EXPECT_EQ(FindOption(example), &row) << example;
      Options options;
      EXPECT_TRUE(ApplyOption(example, options).ok()) << example;
    }
  }
}

TEST(OptionTable, TheValuesOfAnOptionDiffer) {
  for (const OptionRow& row : OptionTable()) {
    std::vector<Options> results;
    for (const std::string& example : Examples(row)) {
      Options options;
      ASSERT_TRUE(ApplyOption(example, options).ok());
      EXPECT_EQ(std::count(results.begin(), results.end(), options), 0) << example;
      results.push_back(options);
    }
  }
}

TEST(OptionTable, NumbersOutOfRangeAreRefusedWithTheLimits) {
  for (const OptionRow& row : OptionTable()) {
    const Number* number = std::get_if<Number>(&row.kind);
    if (number == nullptr || number->clamps) continue;
    Options options;
    const std::string name(row.name);
    const absl::Status above =
        ApplyOption(name + "=" + std::to_string(uint64_t{number->most} + 1), options);
    EXPECT_EQ(above.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(above.message()),
                HasSubstr("expected a number from " + std::to_string(number->least) + " to " +
                          std::to_string(number->most)));
    if (number->least == 0) continue;
    EXPECT_FALSE(ApplyOption(name + "=" + std::to_string(number->least - 1), options).ok()) << name;
    EXPECT_EQ(options, Options()) << name;
  }
}

TEST(OptionTable, AnUnknownChoiceIsRefusedWithTheKnownOnes) {
  Options options;
  EXPECT_EQ(ApplyOption("local_lock=some", options).message(),
            "bad option local_lock=some: expected none, flock, posix or all");
  EXPECT_EQ(ApplyOption("proto=", options).message(),
            "bad option proto=: expected auto, tcp or rdma");
  EXPECT_TRUE(ApplyOption("lookupcache=positive", options).ok());
  EXPECT_FALSE(ApplyOption("lookupcache=pos|none", options).ok());
}

TEST(OptionTable, NoNameIsUsedTwiceOrByAnotherKindOfOption) {
  std::set<std::string_view> names;
  for (const OptionRow& row : OptionTable()) {
    if (std::holds_alternative<Elsewhere>(row.kind)) continue;
    for (std::string_view name : {row.name, row.opposite}) {
      if (name.empty()) continue;
      EXPECT_TRUE(names.insert(name).second) << name;
      EXPECT_EQ(FindFlagOption(name), nullptr) << name;
      EXPECT_FALSE(IsForOthers(name)) << name;
    }
  }
}

TEST(HelpText, ShowsEveryOptionWithItsValuesAndLimits) {
  const std::string help = HelpText();
  for (const char* usage : {"ro | rw", "acl | noacl", "proto=auto|tcp|rdma", "rsize=N, wsize=N",
                            "local_lock=none|flock|posix|all", "cpu_latency=auto|off|N",
                            "sleeping, 0..10000 (default 50)", "bytes, 4096..1048576", "_netdev"}) {
    EXPECT_THAT(help, HasSubstr(usage));
  }
  for (const OptionRow& row : OptionTable()) {
    EXPECT_THAT(help, HasSubstr(std::string(row.name)));
    EXPECT_THAT(help, HasSubstr(std::string(row.opposite)));
  }
  EXPECT_EQ(help.find("{}"), help.npos);
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 103u) << line;
}

}  // namespace
}  // namespace dafs::fuse

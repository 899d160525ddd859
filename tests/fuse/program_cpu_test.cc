// The CPU of a program, from what /proc says.
#include "fuse/program_cpu.h"

#include <sched.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"

namespace dafs::fuse {
namespace {

// A line of /proc/TID/stat with `name`, on `cpu`.
std::string Stat(const std::string& name, const std::string& cpu) {
  std::string text = "1234 (" + name + ") S";
  for (int field = 4; field < 39; ++field) text += " " + std::to_string(field);
  return text + " " + cpu + " 0 0 0\n";
}

TEST(ProgramCpuTest, IsTheThirtyNinthField) { EXPECT_EQ(CpuInStat(Stat("tar", "3")), 3u); }

TEST(ProgramCpuTest, NamesMayHoldAnything) {
  EXPECT_EQ(CpuInStat(Stat(") R 1 2 3 (x", "5")), 5u);
  EXPECT_EQ(CpuInStat(Stat("", "0")), 0u);
}

TEST(ProgramCpuTest, WhatIsCutShortOrNoNumberIsNone) {
  const std::string whole = Stat("tar", "3");
  EXPECT_EQ(CpuInStat(""), std::nullopt);
  EXPECT_EQ(CpuInStat(whole.substr(0, 40)), std::nullopt);
  EXPECT_EQ(CpuInStat(Stat("tar", "x")), std::nullopt);
  EXPECT_EQ(CpuInStat(Stat("tar", "99999999999")), std::nullopt);
}

TEST(ProgramCpuTest, ThisThreadIsWhereItIsBound) {
  cpu_set_t before;
  CPU_ZERO(&before);
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  uint32_t cpu = 0;
  while (!CPU_ISSET(cpu, &before)) ++cpu;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  ASSERT_EQ(sched_setaffinity(0, sizeof(only), &only), 0);
  EXPECT_EQ(CpuOfThread(static_cast<uint32_t>(gettid())), cpu);
  sched_setaffinity(0, sizeof(before), &before);
  EXPECT_EQ(CpuOfThread(0), std::nullopt);
}

}  // namespace
}  // namespace dafs::fuse

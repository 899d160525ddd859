// A folder with a configuration and programs in place of dafs-idmap, and the processes of one.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace dafs::auth {

class IdMapFixture : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dafs-idmap-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The path of a new file with `text`.
  std::string File(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    return path;
  }
  // A shell script, which counts its starts in the file "starts".
  std::string Script(const std::string& text) const {
    std::string path =
        File("helper", "#!/bin/sh\nprintf x >>" + folder_ + "/starts\n" + text + "\n");
    chmod(path.c_str(), 0755);
    return path;
  }
  size_t Starts() const {
    std::ifstream file(folder_ + "/starts");
    return std::string(std::istreambuf_iterator<char>(file), {}).size();
  }

  std::string folder_;
};

// The parent of a process that runs; nullopt: there is no such process, or only its exit status.
inline std::optional<pid_t> ParentOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string stat(std::istreambuf_iterator<char>(file), {});
  const size_t end = stat.rfind(") ");  // of the name of the program
  if (end == std::string::npos || stat.size() < end + 5 || stat[end + 2] == 'Z') {
    return std::nullopt;
  }
  pid_t parent = 0;
  std::from_chars(stat.data() + end + 4, stat.data() + stat.size(), parent);
  return parent;
}

inline bool IsRunning(pid_t pid) { return ParentOf(pid).has_value(); }

// The processes that `parent` has started and that run.
inline std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec == std::errc() &&
        ParentOf(pid) == parent) {
      children.push_back(pid);
    }
  }
  return children;
}

}  // namespace dafs::auth

// The directory and the options of a server with one export, below a temporary directory.
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "server/clients/options.h"

namespace dafs::server {

// Makes /tmp/dafs-KIND-..., with `state` and `export` in it. Returns its path, or an empty string
// if that fails. The caller removes the directory.
inline std::string MakeScratch(const std::string& kind) {
  std::string base = "/tmp/dafs-" + kind + "-XXXXXX";
  if (mkdtemp(base.data()) == nullptr) return "";
  chmod(base.c_str(), 0755);
  mkdir((base + "/state").c_str(), 0700);
  std::filesystem::create_directory(base + "/export");
  chmod((base + "/export").c_str(), 0777);
  return base;
}

// Options for one worker that serves `export` as /data to every client, with the user ids that the
// client states.
inline ServerOptions ScratchOptions(const std::string& base) {
  ServerOptions options;
  options.exports.resize(1);
  options.exports[0].name = "/data";
  options.exports[0].directory = base + "/export";
  options.exports[0].squash = Squash::kNone;
  options.exports[0].insecure = true;
  options.state_dir = base + "/state";
  options.workers = 1;
  return options;
}

}  // namespace dafs::server

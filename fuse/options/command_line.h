// The command line of mount.dafs, also used by mount(8) when it runs /sbin/mount.dafs:
//   mount.dafs SERVER[:PORT]:/EXPORT|NAME DIR [-sfnvrw] [-t TYPE] [-o option,...]
// Pure functions, except StartedByMount8; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fuse/options/options.h"

namespace dafs::fuse {

struct Caller {
  bool root = true;
  bool by_mount8 = false;  // started by mount(8), whose -f means "fake"
};

// Applies one option of -o to `options`. Fails with kInvalidArgument and a one-line reason.
absl::Status ApplyOption(std::string_view option, Options& options);

// Parses `arguments`, which exclude the program's name. With remount, only the flags of mount(2)
// are applied; all options are collected in `list`. With help or version, the rest is not checked.
// Fails with kInvalidArgument and a one-line reason, without the program's name.
absl::StatusOr<Options> ParseOptions(std::span<const std::string> arguments, const Caller& caller);

// Whether the parent process is mount(8).
bool StartedByMount8();

// The text of --help.
std::string HelpText();

}  // namespace dafs::fuse

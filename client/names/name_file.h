// The file of names: a line "NAME LOCATION ..." for each name. ParseLocation defines LOCATION.
// Spec: A.3, A.4. AskFile may block on a disk.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/names/location.h"
#include "client/names/names_conf.h"

namespace dafs::names {

// `file` is for messages. kNotFound: there is no line for `name`. kInvalidArgument: names the file,
// the line and the fault. This includes faults in the lines of other names, as otherwise an
// administrator would not notice that a line has no effect.
absl::StatusOr<std::vector<Located>> FindInNameFile(std::string_view text, const std::string& file,
                                                    std::string_view name);

// Also kNotFound: there is no file. The hosts are not resolved.
absl::StatusOr<std::vector<Located>> AskFile(const NamesConf& conf, const std::string& name);

}  // namespace dafs::names

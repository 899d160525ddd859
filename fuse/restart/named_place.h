// The place of a mount of a DAFS name, for the record of the mount: a process that continues the
// mount does not look up the name again. Pure functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "fuse/options/options.h"

namespace dafs::fuse {

// The place of `options` as a text. Empty: the source is not a DAFS name.
std::string PlaceText(const Options& options);
// Sets the place of `options`, if the source is a DAFS name. kDataLoss: `text` is not from
// PlaceText.
absl::Status SetPlace(const std::string& text, Options& options);

}  // namespace dafs::fuse

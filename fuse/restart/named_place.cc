#include "fuse/restart/named_place.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/names/location.h"

namespace dafs::fuse {

std::string PlaceText(const Options& options) {
  if (!options.source.is_name) return "";
  return names::ToString({.transport = "",
                          .host = options.source.host,
                          .port = options.port,
                          .path = options.source.export_path,
                          .version = ""});
}

absl::Status SetPlace(const std::string& text, Options& options) {
  if (!options.source.is_name) return absl::OkStatus();
  absl::StatusOr<names::Location> location = names::ParseServerPath(text);
  if (!location.ok()) {
    return absl::DataLossError(absl::StrCat("the record of the mount: the place of ",
                                            options.source.text, ": ",
                                            location.status().message()));
  }
  options.source.host = location->host;
  options.source.export_path = location->path;
  if (location->port != 0) options.port = location->port;
  return absl::OkStatus();
}

}  // namespace dafs::fuse

#include "fuse/options/source.h"

#include <utility>

#include "client/names/location.h"

namespace dafs::fuse {

absl::StatusOr<Source> ParseSource(std::string_view text) {
  const auto bad = [&](const absl::Status& status) {
    return absl::InvalidArgumentError(
        std::string("bad source ").append(text).append(": ").append(std::string(status.message())));
  };
  Source source;
  source.text = std::string(text);
  if (text.find_first_of(":/[") == text.npos) {
    if (absl::Status name = names::CheckName(text); !name.ok()) return bad(name);
    source.is_name = true;
    return source;
  }
  absl::StatusOr<names::Location> location = names::ParseServerPath(text);
  if (!location.ok()) return bad(location.status());
  source.host = std::move(location->host);
  source.port = location->port;
  source.export_path = std::move(location->path);
  return source;
}

}  // namespace dafs::fuse

#include "server/store/system/server_id.h"

#include <sys/random.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/store/system/state_dir.h"

namespace dafs::server {
namespace {

constexpr char kServerIdFile[] = "server-id";
constexpr size_t kServerIdText = 2 * wire::ServerId::kWireSize + 1;

std::optional<wire::ServerId> ParseServerId(std::string_view text) {
  if (text.size() != kServerIdText || text.back() != '\n' ||
      !std::all_of(text.begin(), text.end() - 1, absl::ascii_isxdigit)) {
    return std::nullopt;
  }
  const std::string bytes =
      absl::HexStringToBytes(absl::string_view(text.data(), kServerIdText - 1));
  wire::ServerId id;
  std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
  if (id.is_zero()) return std::nullopt;
  return id;
}

}  // namespace

absl::StatusOr<wire::ServerId> LoadOrCreateServerId(const std::string& state_dir) {
  const absl::StatusOr<std::string> stored = ReadStateFile(state_dir, kServerIdFile, kServerIdText);
  if (stored.ok()) {
    if (const std::optional<wire::ServerId> id = ParseServerId(*stored)) return *id;
    LogError(absl::StrCat(state_dir, "/", kServerIdFile,
                          ": damaged; created again: clients take this for another server until "
                          "all of its addresses say so"));
  } else if (!absl::IsNotFound(stored.status())) {
    return stored.status();
  }
  wire::ServerId id;
  if (getrandom(id.bytes.data(), id.bytes.size(), 0) != static_cast<ssize_t>(id.bytes.size())) {
    return absl::InternalError("getrandom: no random number for the server id");
  }
  RETURN_IF_ERROR(WriteStateFile(state_dir, kServerIdFile, wire::HexOf(id) + "\n"));
  return id;
}

}  // namespace dafs::server

#include "server/admin/report_names.h"

#include <nlohmann/json.hpp>

#include "absl/hash/hash.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "runtime/loop/loop.h"
#include "runtime/text.h"
#include "server/clients/client_name.h"
#include "server/clients/client_table.h"
#include "server/store/store.h"

namespace dafs::server {

using Json = nlohmann::ordered_json;

std::string IdText(const wire::ClientId& id) {
  return absl::StrFormat("%016x", wire::OpaqueToUint64(id));
}

std::string Hex(const ObjectKey& key) {
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()});
}

std::string LockOwnerId(const wire::ClientId& client_id, std::string_view owner) {
  return absl::StrFormat("%08x", static_cast<uint32_t>(absl::HashOf(client_id, owner)));
}

ReportNames::ReportNames(const AdminView& view)
    : exports_(view.shared.store->exports()), inventory_(view.shared.store->inventory()) {
  for (ClientTable::Entry& entry : view.shared.clients->List(Loop::Now())) {
    clients_[entry.client->client_id()] = ClientName(entry.client->client_id_string());
  }
}

const Inventory::FileName& ReportNames::Of(const ObjectKey& file) {
  auto [it, is_new] = files_.try_emplace(file);
  if (is_new) it->second = inventory_.NameOf(file);
  return it->second;
}

bool ReportNames::IsIn(const ObjectKey& file, std::string_view path) {
  if (path.empty()) return true;
  const std::string& name = Of(file).path;
  return name == path ||
         (absl::StartsWith(name, Text(path)) && (path.back() == '/' || name[path.size()] == '/'));
}

Json ReportNames::FileRow(const ObjectKey& file) {
  const Inventory::FileName& name = Of(file);
  return {{"file", name.path},
          {"export", name.export_index ? exports_[*name.export_index].name : ""},
          {"handle", Hex(file)}};
}

Json ReportNames::Row(const ObjectKey& file, const wire::ClientId& client_id) {
  Json row = FileRow(file);
  const auto client = clients_.find(client_id);
  row["client"] = client == clients_.end() ? "" : client->second;
  row["client_id"] = IdText(client_id);
  return row;
}

}  // namespace dafs::server

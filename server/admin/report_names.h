// How the reports of dafsctl name clients, files and lock owners.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "server/admin/admin_view.h"
#include "server/store/objects/export_set.h"
#include "server/store/objects/handle.h"
#include "server/store/parts/inventory.h"
#include "wire/protocol/types.h"

namespace dafs::server {

std::string IdText(const wire::ClientId& id);
std::string Hex(const ObjectKey& key);
// Names the owner of a lock for `unlock`: 8 hexadecimal digits, the same until the server stops.
std::string LockOwnerId(const wire::ClientId& client_id, std::string_view owner);

// The names of clients and files, found once each. One report, one thread.
class ReportNames {
 public:
  explicit ReportNames(const AdminView& view);

  const absl::flat_hash_map<wire::ClientId, std::string>& clients() const { return clients_; }
  const Inventory& inventory() const { return inventory_; }

  const Inventory::FileName& Of(const ObjectKey& file);
  // Whether `file` is `path`, or below it. An empty path accepts all.
  bool IsIn(const ObjectKey& file, std::string_view path);
  // The members that name a file; the same and a client.
  nlohmann::ordered_json FileRow(const ObjectKey& file);
  nlohmann::ordered_json Row(const ObjectKey& file, const wire::ClientId& client_id);

 private:
  const ExportSet& exports_;
  Inventory inventory_;
  absl::flat_hash_map<wire::ClientId, std::string> clients_;
  absl::flat_hash_map<ObjectKey, Inventory::FileName> files_;
};

}  // namespace dafs::server

// The change that a procedure is about to make, for Announcements::Announce (WIRE 9.6).
#pragma once

#include <cstdint>
#include <string_view>

#include "server/store/holdings/promises/promises.h"
#include "server/store/objects/object.h"

namespace dafs::server {

struct AnnouncedChange {
  ObjectKey key;
  uint8_t what = kPromisedAttributes;
  std::string_view name = {};         // with kPromisedNames; borrowed
  const Object* directory = nullptr;  // the same directory; borrowed

  // A name is made, removed, or leads elsewhere. The attributes of its directory change with it.
  static AnnouncedChange OfName(const Object& directory, std::string_view name) {
    return {directory.key(), kPromisedNames | kPromisedAttributes, name, &directory};
  }
  static AnnouncedChange OfAttributes(const ObjectKey& key) { return {key}; }
};

}  // namespace dafs::server

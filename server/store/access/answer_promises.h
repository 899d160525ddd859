// The promises of one response (WIRE 9.6). The procedure gives them before it reads what they
// cover. The response carries a bit only if every promise that the bit covers was given. One
// request, on one thread at a time. Nothing blocks.
#pragma once

#include <cstdint>

#include "server/store/holdings/caller.h"
#include "server/store/objects/object.h"

namespace dafs::server {

class Announcements;

class AnswerPromises {
 public:
  // Both are borrowed.
  AnswerPromises(Announcements& announcements, const Caller& caller)
      : announcements_(announcements), caller_(caller) {}

  // Whether the caller may get any.
  bool wanted() const { return caller_.promises != nullptr && caller_.promisee != 0; }

  // The procedure is about to read the names of a directory.
  void Names(const Object& directory);
  // The procedure is about to read the attributes of an object. Returns whether they are promised.
  bool Attributes(const FileSystem& fs, const ObjectKey& key);
  // The response depends on this export.
  void DependsOn(const Export& exported);
  // The response depends on names, or contains attributes, that cannot be promised.
  void NoNames() { has_names_ = false; }
  void NoAttributes() { has_attributes_ = false; }

  // Adds to the response the bits for what the response contains: kSpcondNames, kSpcondAttributes.
  void Report(uint16_t contained) const;

 private:
  bool Give(const FileSystem& fs, const ObjectKey& key, uint8_t what);

  Announcements& announcements_;
  const Caller& caller_;
  bool has_names_ = true;
  bool has_attributes_ = true;
  bool only_clients_ = true;
};

}  // namespace dafs::server

#include "server/store/access/answer_promises.h"

#include "server/store/access/announcements.h"
#include "wire/protocol/header.h"

namespace dafs::server {

void AnswerPromises::Names(const Object& directory) {
  if (!wanted()) return;
  has_names_ = Give(directory.fs(), directory.key(), kPromisedNames) && has_names_;
}

bool AnswerPromises::Attributes(const FileSystem& fs, const ObjectKey& key) {
  if (!wanted()) return false;
  const bool given = Give(fs, key, kPromisedAttributes);
  has_attributes_ = given && has_attributes_;
  return given;
}

void AnswerPromises::DependsOn(const Export& exported) {
  only_clients_ = only_clients_ && exported.only_clients_change;
}

bool AnswerPromises::Give(const FileSystem& fs, const ObjectKey& key, uint8_t what) {
  DependsOn(*fs.exported);
  return announcements_.GivePromise(caller_, key, what);
}

void AnswerPromises::Report(uint16_t contained) const {
  if (!wanted()) return;
  uint16_t bits = 0;
  if (has_names_) bits |= wire::kSpcondNames;
  if (has_attributes_) bits |= wire::kSpcondAttributes;
  bits &= contained;
  if (bits != 0 && only_clients_) bits |= wire::kSpcondOnlyClients;
  *caller_.promises |= bits;
}

}  // namespace dafs::server

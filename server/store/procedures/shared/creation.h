// OPEN with create, in every mode: creates or finds a file and opens it. Spec: 6.5.24.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "runtime/files/unique_fd.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/shared/open_object.h"
#include "wire/messages/open_close.h"

namespace dafs::server {

// One OPEN with create in `directory`, as the identity entered.
class Creation {
 public:
  Creation(StoreParts& store, const Caller& caller, const wire::OpenArgs& args, Object& directory,
           uint64_t change_before)
      : store_(store),
        caller_(caller),
        args_(args),
        directory_(directory),
        change_before_(change_before) {}

  // Creates or finds `name`, and opens it. Sets *made if it was created.
  wire::DafsStatus Run(const std::string& name, ObjectRef* file, Opened* opened, bool* made);

  // Creates and opens a file without a name, CLAIM_CREATE_UNLINKED.
  wire::DafsStatus RunUnlinked(ObjectRef* file, Opened* opened);

 private:
  mode_t Mode() const;
  wire::FileAttributes LeftToSet() const;
  wire::DafsStatus Take(const UniqueFd& fd, ObjectRef* file);
  void Keep(UniqueFd fd, Object& file);
  void Begin(const std::string& name, uint32_t flags, const Object* file);
  wire::DafsStatus Done(wire::DafsStatus status, const ObjectRef& file, int changed);
  wire::DafsStatus Make(const std::string& name, ObjectRef* file);
  wire::DafsStatus MakeFile(const std::string& name, ObjectRef* file);
  wire::DafsStatus MakeExclusive(const std::string& name, ObjectRef* file);
  wire::DafsStatus MakeExclusiveFile(const std::string& name, ObjectRef* file);
  int SetVerifier(int fd) const;
  bool HasOurVerifier(const Object& file) const;
  wire::DafsStatus OpenMade(const ObjectRef& file, Made made, Opened* opened);
  wire::DafsStatus OpenExisting(const std::string& name, const ObjectRef& file, Opened* opened);
  void Unopen(const ObjectRef& file, const Opened& opened);
  wire::DafsStatus Truncate(const std::string& name, const ObjectRef& file);

  StoreParts& store_;
  const Caller& caller_;
  const wire::OpenArgs& args_;
  Object& directory_;
  const uint64_t change_before_;
};

}  // namespace dafs::server

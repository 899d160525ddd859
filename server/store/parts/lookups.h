// From a directory and a name to an object: the steps of LOOKUP, and of the procedures that take a
// path. Crosses into exports and mounted file systems. Spec: 6.5.21, 4.1.4.
// Thread-safe. Blocks on the file system.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "server/store/access/answer_promises.h"
#include "server/store/access/handle_resolver.h"
#include "server/store/holdings/caller.h"
#include "server/store/objects/object.h"
#include "wire/protocol/constants.h"

namespace dafs::server {

struct StoreParts;

class Lookups {
 public:
  // Borrowed.
  explicit Lookups(StoreParts& store) : store_(store) {}

  // Whether `name` in `directory` is reserved for the server: the name of the orphan directory, at
  // the root of a file system. Elsewhere that name is an ordinary one.
  bool IsReserved(const Object& directory, std::string_view name) const;
  // ACCES for such a name.
  wire::DafsStatus CheckNotReserved(const Object& directory, std::string_view name) const;

  // Looks up `name` in `directory`, as the identity entered. Crosses into mounted file systems. If
  // it calls statx, it keeps the result for `keeper` (KeepsStats), and promises the attributes.
  wire::DafsStatus LookupName(Object& directory, const std::string& name, ObjectRef* child,
                              const Caller* keeper = nullptr);

  // The same while no NameGuard is held: never finds an object that is being removed.
  wire::DafsStatus LookupLiving(Object& directory, const std::string& name, ObjectRef* child,
                                const Caller* keeper = nullptr);

  // One step of a path. Enters the identity of `caller` itself. `promises`, if not null, gets those
  // of the names that the step depends on.
  wire::DafsStatus LookupStep(const Caller& caller, const Place& directory, const std::string& name,
                              Place* child, AnswerPromises* promises = nullptr);

  // Follows `path` from *place. *place becomes the last object reached, *count the number of steps.
  wire::DafsStatus Walk(const Caller& caller, std::span<const std::string> path, Place* place,
                        uint32_t* count, AnswerPromises* promises = nullptr);

 private:
  // One attempt of LookupLiving.
  wire::DafsStatus LookupOnce(Object& directory, const std::string& name, ObjectRef* child,
                              const Caller* keeper, bool* alive);

  StoreParts& store_;
};

// Checks a name that is to be created, removed or renamed: INVAL for ".", "..", and names that no
// file system can store (R63). The caller then calls Lookups::CheckNotReserved once it knows the
// directory.
wire::DafsStatus CheckName(const std::string& name);

}  // namespace dafs::server

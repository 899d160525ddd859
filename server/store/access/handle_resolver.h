// From a filehandle to what it names, for a caller: the first step of most procedures.
// Spec: 4.1.4.
// Thread-safe. Blocks on the file system.
#pragma once

#include "server/store/access/exports/openings.h"
#include "server/store/access/exports/pseudo_tree.h"
#include "server/store/access/known_objects.h"
#include "server/store/fencing/fencing.h"
#include "server/store/holdings/caller.h"
#include "server/store/objects/object.h"
#include "server/store/objects/pseudo_fs.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// The object that a filehandle names: a directory of the pseudo file system, or an object of an
// export.
struct Place {
  const PseudoNode* pseudo = nullptr;
  ObjectRef object;

  const wire::FileHandle& handle() const {
    return pseudo != nullptr ? pseudo->handle : object->handle();
  }
};

class HandleResolver {
 public:
  // Borrowed.
  struct Uses {
    const HandleMac& mac;
    DescriptorCache& cache;
    const Mounts& mounts;
    const PseudoTree& pseudo;
    const Openings& openings;
    const Fencing& fencing;
    KnownObjects& objects;
  };
  explicit HandleResolver(const Uses& uses) : uses_(uses) {}

  // The object or pseudo directory that `handle` names, if the export admits `caller`, and no fence
  // keeps it off. BADHANDLE, STALE, ACCES, WRONGSEC.
  wire::DafsStatus Resolve(const Caller& caller, const wire::FileHandle& handle, Place* place);
  // The same for what a fence does not forbid.
  wire::DafsStatus ResolveUnfenced(const Caller& caller, const wire::FileHandle& handle,
                                   Place* place);

  // The same without a caller, for work that the server does on its own.
  wire::DafsStatus ResolveHandle(const wire::FileHandle& handle, Place* place);

  // Resolve, for procedures that do not accept a pseudo directory: they fail with `pseudo` for one.
  wire::DafsStatus ResolveObject(const Caller& caller, const wire::FileHandle& handle,
                                 wire::DafsStatus pseudo, ObjectRef* object);

  // ResolveObject, for a directory that is to be modified. Also NOTDIR, and ROFS for a pseudo
  // directory or a read-only export.
  wire::DafsStatus ResolveTargetDir(const Caller& caller, const wire::FileHandle& handle,
                                    ObjectRef* directory);

 private:
  // DELAY for a handle that leads into an export that is still being opened, or may do so.
  wire::DafsStatus CheckOpened(const wire::FileHandle& handle) const;

  const Uses uses_;
};

}  // namespace dafs::server

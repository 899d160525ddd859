// Named attributes: the extended attributes of an object, presented as files in a directory.
// Spec: 4.1.5, 6.5.25 (OPENATTR), and what 6.5 says of READDIR, LOOKUP, OPEN, READ, WRITE, SETATTR,
// REMOVE, GETATTR and CLOSE for handles of these kinds; docs/decisions.md, Server.
//
// The name of a named attribute is the full name of the extended attribute ("user.x"). One system
// call reads a value and one sets it, both as the caller. Data written through an OPEN becomes the
// value at CLOSE, atomically. A WRITE or SETATTR without state id is one such change by itself.
// Only for the store. Thread-safe as the Store is.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "server/store/access/results.h"
#include "server/store/attributes/attribute_opens.h"
#include "server/store/holdings/caller.h"
#include "server/store/objects/object.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct StoreParts;

class NamedAttributes {
 public:
  NamedAttributes(StoreParts& store, uint32_t instance) : store_(store), opens_(instance) {}

  // OPENATTR. NOTSUPP: objects of this kind or file system have none.
  wire::DafsStatus OpenDirectory(const Caller& caller, const wire::FileHandle& filehandle,
                                 wire::FileHandle* directory);

  // The procedures of the Store for handles for which IsOfAttributes is true. Procedures not listed
  // here fail with NOTSUPP for these handles.
  wire::DafsStatus Lookup(const Caller& caller, const wire::LookupArgs& args, wire::LookupRes* res);
  wire::DafsStatus Lookupp(const Caller& caller, const wire::FileHandle& filehandle,
                           wire::FileHandle* parent);
  wire::DafsStatus Remove(const Caller& caller, const wire::RemoveArgs& args, wire::RemoveRes* res);
  wire::DafsStatus Readdir(const Caller& caller, const ReaddirRequest& request, ReaddirSink sink,
                           ReaddirResult* res);
  wire::DafsStatus Getattr(const Caller& caller, const wire::FileHandle& filehandle,
                           uint64_t bitmap, wire::FileAttributes* attributes);
  wire::DafsStatus Setattr(const Caller& caller, const wire::FileHandle& filehandle,
                           const wire::StateId& state_id, const wire::FileAttributes& attributes,
                           uint64_t* bitmap);
  wire::DafsStatus Open(const Caller& caller, const wire::OpenArgs& args, wire::OpenRes* res);
  wire::DafsStatus Close(const Caller& caller, const wire::CloseArgs& args);
  ReadResult Readv(const Caller& caller, const wire::FileHandle& filehandle,
                   const wire::StateId& state_id, uint64_t offset, std::span<const iovec> into);
  wire::DafsStatus Write(const Caller& caller, const wire::FileHandle& filehandle,
                         const wire::StateId& state_id, uint64_t offset,
                         std::span<const iovec> from, wire::StableHow stable_how, WriteResult* res);

  wire::DafsStatus Commit(const Caller& caller, const wire::CommitArgs& args, wire::CommitRes* res);
  wire::DafsStatus Access(const Caller& caller, const wire::AccessArgs& args, wire::AccessRes* res);

  // Returns the object to which the attributes of `handle` belong. BADHANDLE.
  wire::DafsStatus ObjectHandle(const wire::FileHandle& handle, wire::FileHandle* object);

  void ReleaseClient(const wire::ClientId& client_id) { opens_.ReleaseClient(client_id); }

  // Returns a hash of `value` that is the same in every instance of the server.
  uint64_t Identify(const std::string& value) const;

 private:
  // A named attribute of an object, or, if the name is empty, the attribute directory of the
  // object.
  struct Target {
    ObjectRef object;
    std::string name;
  };

  // Resolves `filehandle` and enters the caller's identity.
  wire::DafsStatus Resolve(const Caller& caller, const wire::FileHandle& filehandle,
                           Target* target);
  // The same for one kind alone. For the other kind, ResolveDirectory fails with NOTDIR and
  // ResolveAttribute with ISDIR.
  wire::DafsStatus ResolveDirectory(const Caller& caller, const wire::FileHandle& filehandle,
                                    ObjectRef* object);
  wire::DafsStatus ResolveAttribute(const Caller& caller, const wire::FileHandle& filehandle,
                                    Target* target);
  wire::DafsStatus NameOf(const Object& object, const NameHash& hash, std::string* name);
  NameHash HashOf(const std::string& name);
  wire::FileHandle HandleOf(const Object& object, const std::string& name);
  wire::DafsStatus Describe(const Caller& caller, const Target& target,
                            const wire::FileHandle& handle, uint64_t bitmap,
                            wire::FileAttributes* attributes);
  // Records in the journal what is about to happen to an attribute. The caller holds the NameGuard
  // of its name. `before`: CHANGE of the object, if the reply contains it.
  static void RecordIntent(const Caller& caller, const Object& object, const std::string& name,
                           uint64_t value, uint64_t before);
  wire::DafsStatus AnnounceClose(const Caller& caller, const wire::CloseArgs& args);
  // Sets the value of an open that is being closed.
  wire::DafsStatus SetClosed(const Caller& caller, Object& object, const AttributeOpen& open);
  // Changes a value without an open: reads it, calls `change`, sets it.
  wire::DafsStatus Modify(const Caller& caller, const Target& target,
                          absl::FunctionRef<wire::DafsStatus(std::string&)> change);
  // Makes the value stable, together with everything else of the object.
  wire::DafsStatus Sync(const Object& object);
  // Changes the value as an open sees it. A change that fails spoils the open.
  wire::DafsStatus ModifyOpen(const Caller& caller, const wire::FileHandle& filehandle,
                              const wire::StateId& state_id,
                              absl::FunctionRef<wire::DafsStatus(AttributeOpen&)> change);

  StoreParts& store_;
  AttributeOpens opens_;
  AttributeNames names_;
};

}  // namespace dafs::server

// Named attributes: the extended attributes of an object as files in a directory of their own.
// Spec: 4.1.5, 6.5.25 (OPENATTR), and what 6.5 says of READDIR, LOOKUP, OPEN, READ, WRITE, SETATTR,
// REMOVE, GETATTR and CLOSE for handles of these kinds; ARCHITECTURE "named attributes".
//
// The name of a named attribute is the whole name of the extended attribute ("user.x"). A value is
// read and set by one system call each, as the caller: what is written through an OPEN becomes the
// attribute's value at CLOSE, at once; a WRITE or SETATTR without state id is such a change by
// itself. Only for the store; thread-safe as the Store.
#pragma once

#include <span>
#include <string>

#include "server/store/attributes/attribute_opens.h"
#include "server/store/objects/object.h"
#include "server/store/store.h"

namespace dafs::server {

class StoreImpl;

class NamedAttributes {
 public:
  NamedAttributes(StoreImpl& store, uint32_t instance) : store_(store), opens_(instance) {}

  // OPENATTR. NOTSUPP: objects of this kind or file system have none.
  wire::DafsStatus OpenDirectory(const Caller& caller, const wire::FileHandle& filehandle,
                                 wire::FileHandle* directory);

  // The procedures of the Store for handles of which IsOfAttributes is true. What is not here is
  // NOTSUPP for them.
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

  // The object whose attributes `handle` is about. BADHANDLE.
  wire::DafsStatus ObjectHandle(const wire::FileHandle& handle, wire::FileHandle* object);

  void ReleaseClient(const wire::ClientId& client_id) { opens_.ReleaseClient(client_id); }

  // A number for a value, the same in every instance of the server.
  uint64_t Identify(const std::string& value) const;

 private:
  // An attribute of an object, or (empty name) the directory of them.
  struct Target {
    ObjectRef object;
    std::string name;
  };

  // Finds them, and takes the caller's identity.
  wire::DafsStatus Resolve(const Caller& caller, const wire::FileHandle& filehandle,
                           Target* target);
  // Those of the two kinds: NOTDIR, ISDIR otherwise.
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
  // Says what is to become of an attribute, whose name is kept from others. `before`: CHANGE of the
  // object, where the answer tells it.
  static void Announce(const Caller& caller, const Object& object, const std::string& name,
                       uint64_t value, uint64_t before);
  // Sets the value of an open that is being closed.
  wire::DafsStatus SetClosed(const Caller& caller, Object& object, const AttributeOpen& open);
  // One change of a value outside of any open: read, changed, set.
  wire::DafsStatus Modify(const Target& target,
                          absl::FunctionRef<wire::DafsStatus(std::string&)> change);
  // Makes what was set safe, and all else of the object.
  wire::DafsStatus Sync(const Object& object);
  // A change of the value as an open sees it; one that fails spoils the open.
  wire::DafsStatus ModifyOpen(const Caller& caller, const wire::FileHandle& filehandle,
                              const wire::StateId& state_id,
                              absl::FunctionRef<wire::DafsStatus(AttributeOpen&)> change);

  StoreImpl& store_;
  AttributeOpens opens_;
  AttributeNames names_;
};

}  // namespace dafs::server

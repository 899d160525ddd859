// The procedures on names: find objects, make and remove them, list directories.
// Spec: 6.5.9, 6.5.12, 6.5.17, 6.5.21, 6.5.22, 6.5.25, 6.5.29 .. 6.5.31, 6.5.33, 6.5.34.
// Thread-safe; blocks on the file system. Leaves the thread with the identity of the caller
// (server/store/store.h).
#pragma once

#include <optional>
#include <string>

#include "server/store/access/results.h"
#include "server/store/holdings/caller.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct StoreParts;

class NameProcedures {
 public:
  // Borrowed.
  explicit NameProcedures(StoreParts& store) : store_(store) {}

  // 6.5.12. The root of the pseudo file system, or of the export "/". WRONGSEC, ACCES: no export
  // admits the caller, so the root would be empty.
  wire::DafsStatus GetRootHandle(const Caller& caller, wire::FileHandle* root);

  // Reports squashing in the export of `filehandle`. For a directory of the pseudo file system: in
  // the exports below it that admit the caller.
  wire::DafsStatus WhoIsSquashed(const Caller& caller, const wire::FileHandle& filehandle,
                                 Squashes* squashes);

  // 6.5.21. On a component status (WIRE 9.3) `res` holds component_count and the filehandle of
  // the last component resolved (zero for none).
  wire::DafsStatus Lookup(const Caller& caller, const wire::LookupArgs& args, wire::LookupRes* res);

  // The path of a directory of the pseudo file system; nullopt for any other handle.
  std::optional<std::string> PathAboveExports(const wire::FileHandle& handle) const;

  // 6.5.22.
  wire::DafsStatus Lookupp(const Caller& caller, const wire::FileHandle& filehandle,
                           wire::FileHandle* parent);

  // 6.5.25. The directory of an object's named attributes. Its handle and the handles in it can be
  // used with LOOKUP, LOOKUPP, READDIR, OPEN, CLOSE, READ, WRITE, COMMIT, GETATTR, SETATTR (of the
  // size), GET_FSATTR, ACCESS and REMOVE. Everything else fails with NOTSUPP (named_attributes.h).
  wire::DafsStatus Openattr(const Caller& caller, const wire::FileHandle& filehandle,
                            wire::FileHandle* directory);

  // 6.5.9, 6.5.17, 6.5.33, 6.5.34.
  wire::DafsStatus Create(const Caller& caller, const wire::CreateArgs& args, wire::CreateRes* res);
  wire::DafsStatus Link(const Caller& caller, const wire::LinkArgs& args, wire::LinkRes* res);
  wire::DafsStatus Remove(const Caller& caller, const wire::RemoveArgs& args, wire::RemoveRes* res);
  wire::DafsStatus Rename(const Caller& caller, const wire::RenameArgs& args, wire::RenameRes* res);

  // Private procedures 1001 and 1003, see wire/messages/posix.h.
  wire::DafsStatus Rename2(const Caller& caller, const wire::Rename2Args& args,
                           wire::Rename2Res* res);
  wire::DafsStatus MakeNode(const Caller& caller, const wire::MakeNodeArgs& args,
                            wire::MakeNodeRes* res);

  // 6.5.31. The content of the link, byte for byte.
  wire::DafsStatus Readlink(const Caller& caller, const wire::FileHandle& filehandle,
                            std::string* link);

  // Whether Readdir of this directory may take long. Not for the directory of named attributes.
  static bool ReaddirMayWait(const wire::FileHandle& filehandle);
  // 6.5.29, 6.5.30. Calls `sink` for each entry except "." and "..", until it returns false or the
  // directory ends (eof). READDIR_NOSPC if it returns false for the first entry.
  wire::DafsStatus Readdir(const Caller& caller, const ReaddirRequest& request, ReaddirSink sink,
                           ReaddirResult* res);

 private:
  StoreParts& store_;
};

}  // namespace dafs::server

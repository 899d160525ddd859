// Converts file attributes between statx(2) and the protocol, and sets them.
// Spec: WIRE 5.2, R69, R90; draft 6.1.5, 6.5.35.
// Usable from any thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "server/store/objects/object.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/status.h"

namespace dafs::server {

// The file attributes that this server supports: readable and writable ones.
inline constexpr uint64_t kFattrReadable =
    wire::kFattrNamedAttr | wire::kFattrObjectType | wire::kFattrMode | wire::kFattrNumLinks |
    wire::kFattrChange | wire::kFattrObjectSize | wire::kFattrFileId | wire::kFattrSpaceUsed |
    wire::kFattrTimeAccess | wire::kFattrTimeCreate | wire::kFattrTimeDelta |
    wire::kFattrTimeMetadata | wire::kFattrTimeModify | wire::kFattrRawDev |
    wire::kFattrFilehandle | wire::kFattrAcl | wire::kFattrOwner | wire::kFattrOwnerGroup;
inline constexpr uint64_t kFattrWritable =
    wire::kFattrMode | wire::kFattrObjectSize | wire::kFattrTimeAccessSet |
    wire::kFattrTimeModifySet | wire::kFattrAcl | wire::kFattrOwner | wire::kFattrOwnerGroup;

wire::ObjectType ObjectTypeOf(mode_t type);
uint64_t CtimeNs(const struct statx& stx);

// Sets the attributes in `bitmap` that statx supplies. FILEHANDLE and CHANGE are the given ones, if
// `bitmap` has them; the caller sets NAMED_ATTR and ACL. `included` becomes the defined part of
// `bitmap`. `hidden_link`: one link is the server's own (server/store/objects/orphans.h), and not
// counted.
void FillAttributes(const struct statx& stx, uint64_t bitmap, uint64_t change,
                    const wire::FileHandle& filehandle, bool hidden_link,
                    wire::FileAttributes* attributes);

// Parses the number in an OWNER or OWNER_GROUP (R90). Returns false if there is none.
bool ParseId(const std::string& text, uint32_t* id);

// Returns INVAL unless all valid attributes of `attributes` can be set (6.5.35-07).
wire::DafsStatus CheckSettable(const wire::FileAttributes& attributes);

// Sets the valid attributes of `file` as the thread's identity, in this order: size, owner and
// group, mode, ACL, times. In another order a step could undo an earlier one. `size_fd`, if not
// negative, is a descriptor that permits a change of the size; otherwise the kernel checks the
// permissions. *set has the attributes that were set, also on failure.
wire::DafsStatus ApplyAttributes(Object& file, const wire::FileAttributes& attributes, int size_fd,
                                 uint64_t* set);

}  // namespace dafs::server

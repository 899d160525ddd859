// File attributes between statx(2) and the wire. Spec: WIRE.md 5.2, R69, R90; draft 6.1.5, 6.5.35.
// Usable from any thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "server/store/objects/object.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/status.h"

namespace dafs::server {

// What this server can tell about a file, and what it can set.
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

// statx of an O_PATH descriptor. Returns 0 or an errno.
int Statx(int fd, struct statx* stx);

// Fills in what `bitmap` asks for and statx knows. FILEHANDLE and CHANGE, if asked for, are the
// given ones; NAMED_ATTR and ACL are left to others. `included` becomes the defined part of
// `bitmap`. `hidden_link`: one link is the server's own (server/store/objects/orphans.h), and not
// counted.
void FillAttributes(const struct statx& stx, uint64_t bitmap, uint64_t change,
                    const wire::FileHandle& filehandle, bool hidden_link,
                    wire::FileAttributes* attributes);

// The number that an OWNER or OWNER_GROUP names (R90). False if it names none.
bool ParseId(const std::string& text, uint32_t* id);

// Whether `attributes` can all be set: INVAL if not (6.5.35-07). Looks only at valid ones.
wire::DafsStatus CheckSettable(const wire::FileAttributes& attributes);

// Sets the valid attributes of `file`, as the thread's identity: size, owner and group, mode,
// ACL, times, in this order, because each may undo a later one. `size_fd`, if not negative, is a
// descriptor that entitles to change the size; else the kernel decides by the permissions. *set
// tells what was set, also on failure.
wire::DafsStatus ApplyAttributes(Object& file, const wire::FileAttributes& attributes, int size_fd,
                                 uint64_t* set);

}  // namespace dafs::server

// File and file system attributes. Spec: WIRE section 5; draft 6.1.5, 6.1.6, 4.1.3.3.
// Values. An attribute has a value only if its bit is in `valid`; the encoder writes no other
// values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/constants.h"
#include "wire/protocol/limits.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// DAFS_FATTR_x: attribute N is bit N-1.
inline constexpr uint64_t kFattrNamedAttr = 0x1;          // 1
inline constexpr uint64_t kFattrArchive = 0x2;            // 2
inline constexpr uint64_t kFattrHidden = 0x4;             // 3
inline constexpr uint64_t kFattrSystem = 0x8;             // 4
inline constexpr uint64_t kFattrObjectType = 0x10;        // 5
inline constexpr uint64_t kFattrMode = 0x20;              // 6
inline constexpr uint64_t kFattrNumLinks = 0x40;          // 7
inline constexpr uint64_t kFattrChange = 0x80;            // 8
inline constexpr uint64_t kFattrObjectSize = 0x100;       // 9
inline constexpr uint64_t kFattrFileId = 0x200;           // 10
inline constexpr uint64_t kFattrSpaceUsed = 0x400;        // 11
inline constexpr uint64_t kFattrTimeAccess = 0x800;       // 12
inline constexpr uint64_t kFattrTimeAccessSet = 0x1000;   // 13
inline constexpr uint64_t kFattrTimeBackup = 0x2000;      // 14
inline constexpr uint64_t kFattrTimeCreate = 0x4000;      // 15
inline constexpr uint64_t kFattrTimeDelta = 0x8000;       // 16
inline constexpr uint64_t kFattrTimeMetadata = 0x10000;   // 17
inline constexpr uint64_t kFattrTimeModify = 0x20000;     // 18
inline constexpr uint64_t kFattrTimeModifySet = 0x40000;  // 19
inline constexpr uint64_t kFattrRawDev = 0x80000;         // 20
inline constexpr uint64_t kFattrFilehandle = 0x100000;    // 21
inline constexpr uint64_t kFattrAcl = 0x200000;           // 22
inline constexpr uint64_t kFattrMimeType = 0x400000;      // 23
inline constexpr uint64_t kFattrOwner = 0x800000;         // 24
inline constexpr uint64_t kFattrOwnerGroup = 0x1000000;   // 25
inline constexpr uint64_t kFattrAll = 0x1ffffff;
// Never valid in results; a client sets TIME_ACCESS and TIME_MODIFY by them.
inline constexpr uint64_t kFattrWriteOnly = kFattrTimeAccessSet | kFattrTimeModifySet;
// The attributes that SETATTR, CREATE and OPEN with create may include.
inline constexpr uint64_t kFattrSettable =
    kFattrArchive | kFattrHidden | kFattrSystem | kFattrMode | kFattrObjectSize |
    kFattrTimeAccessSet | kFattrTimeBackup | kFattrTimeCreate | kFattrTimeMetadata |
    kFattrTimeModifySet | kFattrAcl | kFattrMimeType | kFattrOwner | kFattrOwnerGroup;
inline constexpr uint64_t kFattrMandatory =
    kFattrObjectType | kFattrChange | kFattrObjectSize | kFattrFileId | kFattrFilehandle;

// File attributes (6.1.5). `included`: attributes that take space on the wire. `valid`, a subset:
// attributes with a value. A requested attribute without an available value is included but not
// valid.
struct FileAttributes {
  static constexpr uint64_t kAllBits = kFattrAll;

  uint64_t included = 0;
  uint64_t valid = 0;

  bool named_attr = false;
  bool archive = false;
  bool hidden = false;
  bool system = false;
  ObjectType object_type = ObjectType::kInvalid;
  uint32_t mode = 0;
  uint32_t num_links = 0;
  uint64_t change = 0;
  uint64_t object_size = 0;
  uint64_t file_id = 0;
  uint64_t space_used = 0;
  Time time_access;
  SetTime time_access_set;
  Time time_backup;
  Time time_create;
  Time time_delta;
  Time time_metadata;
  Time time_modify;
  SetTime time_modify_set;
  SpecData raw_dev;
  FileHandle filehandle;
  std::vector<Ace> acl;
  std::string mime_type;
  std::string owner;
  std::string owner_group;

  constexpr bool has(uint64_t bits) const { return (valid & bits) == bits; }
  // Marks `bits` as included and valid. The caller assigns the fields themselves.
  constexpr void set(uint64_t bits) {
    included |= bits;
    valid |= bits;
  }

  // bit, size, align, value: the table of WIRE 5.2, ascending.
  // clang-format off
  static void Attrs(auto& m, auto& c) {
    c.Attr(kFattrNamedAttr, 1, 1, [&] { c.Bool8("NAMED_ATTR", m.named_attr); });
    c.Attr(kFattrArchive, 1, 1, [&] { c.Bool8("ARCHIVE", m.archive); });
    c.Attr(kFattrHidden, 1, 1, [&] { c.Bool8("HIDDEN", m.hidden); });
    c.Attr(kFattrSystem, 1, 1, [&] { c.Bool8("SYSTEM", m.system); });
    c.Attr(kFattrObjectType, 4, 4, [&] { c.Field("OBJECT_TYPE", m.object_type); });
    c.Attr(kFattrMode, 4, 4, [&] { c.Mode("MODE", m.mode); });
    c.Attr(kFattrNumLinks, 4, 4, [&] { c.Field("NUM_LINKS", m.num_links); });
    c.Attr(kFattrChange, 8, 8, [&] { c.Field("CHANGE", m.change); });
    c.Attr(kFattrObjectSize, 8, 8, [&] { c.Field("OBJECT_SIZE", m.object_size); });
    c.Attr(kFattrFileId, 8, 8, [&] { c.Field("FILE_ID", m.file_id); });
    c.Attr(kFattrSpaceUsed, 8, 8, [&] { c.Field("SPACE_USED", m.space_used); });
    c.Attr(kFattrTimeAccess, 16, 8, [&] { c.Field("TIME_ACCESS", m.time_access); });
    c.Attr(kFattrTimeAccessSet, 24, 8, [&] { c.Field("TIME_ACCESS_SET", m.time_access_set); });
    c.Attr(kFattrTimeBackup, 16, 8, [&] { c.Field("TIME_BACKUP", m.time_backup); });
    c.Attr(kFattrTimeCreate, 16, 8, [&] { c.Field("TIME_CREATE", m.time_create); });
    c.Attr(kFattrTimeDelta, 16, 8, [&] { c.Field("TIME_DELTA", m.time_delta); });
    c.Attr(kFattrTimeMetadata, 16, 8, [&] { c.Field("TIME_METADATA", m.time_metadata); });
    c.Attr(kFattrTimeModify, 16, 8, [&] { c.Field("TIME_MODIFY", m.time_modify); });
    c.Attr(kFattrTimeModifySet, 24, 8, [&] { c.Field("TIME_MODIFY_SET", m.time_modify_set); });
    c.Attr(kFattrRawDev, 16, 8, [&] { c.Field("RAW_DEV", m.raw_dev); });
    c.Attr(kFattrFilehandle, 64, 8, [&] { c.Field("FILEHANDLE", m.filehandle); });
    c.Attr(kFattrAcl, 4, 4, [&] { c.Array("ACL", m.acl, kAclMax); });
    c.Attr(kFattrMimeType, 4, 4, [&] { c.String("MIME_TYPE", m.mime_type, kWhoBound); });
    c.Attr(kFattrOwner, 4, 4, [&] { c.String("OWNER", m.owner, kWhoBound); });
    c.Attr(kFattrOwnerGroup, 4, 4, [&] { c.String("OWNER_GROUP", m.owner_group, kWhoBound); });
  }
  // clang-format on
  friend bool operator==(const FileAttributes&, const FileAttributes&) = default;
};

// DAFS_FSATTR_x. Number 31 is not assigned.
inline constexpr uint64_t kFsattrLinkSupport = 0x1;               // 1
inline constexpr uint64_t kFsattrSymlinkSupport = 0x2;            // 2
inline constexpr uint64_t kFsattrCanSetTime = 0x4;                // 3
inline constexpr uint64_t kFsattrCaseInsensitive = 0x8;           // 4
inline constexpr uint64_t kFsattrCasePreserving = 0x10;           // 5
inline constexpr uint64_t kFsattrChownRestricted = 0x20;          // 6
inline constexpr uint64_t kFsattrHomogeneous = 0x40;              // 7
inline constexpr uint64_t kFsattrNoTrunc = 0x80;                  // 8
inline constexpr uint64_t kFsattrUniqueHandle = 0x100;            // 9
inline constexpr uint64_t kFsattrLeaseTime = 0x200;               // 10
inline constexpr uint64_t kFsattrRdAttrError = 0x400;             // 11
inline constexpr uint64_t kFsattrAclSupport = 0x800;              // 12
inline constexpr uint64_t kFsattrMaxLink = 0x1000;                // 13
inline constexpr uint64_t kFsattrMaxName = 0x2000;                // 14
inline constexpr uint64_t kFsattrSupportedFattr = 0x4000;         // 15
inline constexpr uint64_t kFsattrSupportedFsattr = 0x8000;        // 16
inline constexpr uint64_t kFsattrFilesAvailable = 0x10000;        // 17
inline constexpr uint64_t kFsattrFilesFree = 0x20000;             // 18
inline constexpr uint64_t kFsattrFilesTotal = 0x40000;            // 19
inline constexpr uint64_t kFsattrMaxFileSize = 0x80000;           // 20
inline constexpr uint64_t kFsattrMaxRead = 0x100000;              // 21
inline constexpr uint64_t kFsattrMaxWrite = 0x200000;             // 22
inline constexpr uint64_t kFsattrQuotaHard = 0x400000;            // 23
inline constexpr uint64_t kFsattrQuotaSoft = 0x800000;            // 24
inline constexpr uint64_t kFsattrQuotaUsed = 0x1000000;           // 25
inline constexpr uint64_t kFsattrSpaceAvailable = 0x2000000;      // 26
inline constexpr uint64_t kFsattrSpaceFree = 0x4000000;           // 27
inline constexpr uint64_t kFsattrSpaceTotal = 0x8000000;          // 28
inline constexpr uint64_t kFsattrFshandle = 0x10000000;           // 29
inline constexpr uint64_t kFsattrFailoverLocations = 0x20000000;  // 30
inline constexpr uint64_t kFsattrMaxAppend = 0x80000000;          // 32
inline constexpr uint64_t kFsattrPrefIoSize = 0x100000000;        // 33
inline constexpr uint64_t kFsattrFhExpireType = 0x200000000;      // 34
inline constexpr uint64_t kFsattrAll = 0x3bfffffff;
inline constexpr uint64_t kFsattrMandatory =
    kFsattrLinkSupport | kFsattrSymlinkSupport | kFsattrLeaseTime | kFsattrRdAttrError |
    kFsattrSupportedFattr | kFsattrSupportedFsattr | kFsattrFshandle | kFsattrMaxAppend;

// File system attributes (6.1.6). lease_time is in seconds. None can be set.
struct FsAttributes {
  static constexpr uint64_t kAllBits = kFsattrAll;

  uint64_t included = 0;
  uint64_t valid = 0;

  bool link_support = false;
  bool symlink_support = false;
  bool can_set_time = false;
  bool case_insensitive = false;
  bool case_preserving = false;
  bool chown_restricted = false;
  bool homogeneous = false;
  bool no_trunc = false;
  bool unique_handle = false;
  uint32_t lease_time = 0;
  uint32_t rd_attr_error = 0;
  uint32_t acl_support = 0;
  uint32_t max_link = 0;
  uint32_t max_name = 0;
  uint64_t supported_fattr = 0;
  uint64_t supported_fsattr = 0;
  uint64_t files_available = 0;
  uint64_t files_free = 0;
  uint64_t files_total = 0;
  uint64_t max_file_size = 0;
  uint64_t max_read = 0;
  uint64_t max_write = 0;
  uint64_t quota_hard = 0;
  uint64_t quota_soft = 0;
  uint64_t quota_used = 0;
  uint64_t space_available = 0;
  uint64_t space_free = 0;
  uint64_t space_total = 0;
  FsHandle fshandle;
  std::vector<FsLocations> failover_locations;
  uint64_t max_append = 0;
  uint64_t pref_io_size = 0;
  uint32_t fh_expire_type = 0;

  constexpr bool has(uint64_t bits) const { return (valid & bits) == bits; }
  constexpr void set(uint64_t bits) {
    included |= bits;
    valid |= bits;
  }

  // bit, size, align, value: the table of WIRE 5.3, ascending.
  // clang-format off
  static void Attrs(auto& m, auto& c) {
    c.Attr(kFsattrLinkSupport, 1, 1, [&] { c.Bool8("LINK_SUPPORT", m.link_support); });
    c.Attr(kFsattrSymlinkSupport, 1, 1, [&] { c.Bool8("SYMLINK_SUPPORT", m.symlink_support); });
    c.Attr(kFsattrCanSetTime, 1, 1, [&] { c.Bool8("CAN_SET_TIME", m.can_set_time); });
    c.Attr(kFsattrCaseInsensitive, 1, 1, [&] { c.Bool8("CASE_INSENSITIVE", m.case_insensitive); });
    c.Attr(kFsattrCasePreserving, 1, 1, [&] { c.Bool8("CASE_PRESERVING", m.case_preserving); });
    c.Attr(kFsattrChownRestricted, 1, 1, [&] { c.Bool8("CHOWN_RESTRICTED", m.chown_restricted); });
    c.Attr(kFsattrHomogeneous, 1, 1, [&] { c.Bool8("HOMOGENEOUS", m.homogeneous); });
    c.Attr(kFsattrNoTrunc, 1, 1, [&] { c.Bool8("NO_TRUNC", m.no_trunc); });
    c.Attr(kFsattrUniqueHandle, 1, 1, [&] { c.Bool8("UNIQUE_HANDLE", m.unique_handle); });
    c.Attr(kFsattrLeaseTime, 4, 4, [&] { c.Field("LEASE_TIME", m.lease_time); });
    c.Attr(kFsattrRdAttrError, 4, 4, [&] { c.Field("RD_ATTR_ERROR", m.rd_attr_error); });
    c.Attr(kFsattrAclSupport, 4, 4, [&] { c.Field("ACL_SUPPORT", m.acl_support); });
    c.Attr(kFsattrMaxLink, 4, 4, [&] { c.Field("MAX_LINK", m.max_link); });
    c.Attr(kFsattrMaxName, 4, 4, [&] { c.Field("MAX_NAME", m.max_name); });
    c.Attr(kFsattrSupportedFattr, 8, 8, [&] { c.Field("SUPPORTED_FATTR", m.supported_fattr); });
    c.Attr(kFsattrSupportedFsattr, 8, 8, [&] { c.Field("SUPPORTED_FSATTR", m.supported_fsattr); });
    c.Attr(kFsattrFilesAvailable, 8, 8, [&] { c.Field("FILES_AVAILABLE", m.files_available); });
    c.Attr(kFsattrFilesFree, 8, 8, [&] { c.Field("FILES_FREE", m.files_free); });
    c.Attr(kFsattrFilesTotal, 8, 8, [&] { c.Field("FILES_TOTAL", m.files_total); });
    c.Attr(kFsattrMaxFileSize, 8, 8, [&] { c.Field("MAX_FILE_SIZE", m.max_file_size); });
    c.Attr(kFsattrMaxRead, 8, 8, [&] { c.Field("MAX_READ", m.max_read); });
    c.Attr(kFsattrMaxWrite, 8, 8, [&] { c.Field("MAX_WRITE", m.max_write); });
    c.Attr(kFsattrQuotaHard, 8, 8, [&] { c.Field("QUOTA_HARD", m.quota_hard); });
    c.Attr(kFsattrQuotaSoft, 8, 8, [&] { c.Field("QUOTA_SOFT", m.quota_soft); });
    c.Attr(kFsattrQuotaUsed, 8, 8, [&] { c.Field("QUOTA_USED", m.quota_used); });
    c.Attr(kFsattrSpaceAvailable, 8, 8, [&] { c.Field("SPACE_AVAILABLE", m.space_available); });
    c.Attr(kFsattrSpaceFree, 8, 8, [&] { c.Field("SPACE_FREE", m.space_free); });
    c.Attr(kFsattrSpaceTotal, 8, 8, [&] { c.Field("SPACE_TOTAL", m.space_total); });
    c.Attr(kFsattrFshandle, 16, 8, [&] { c.Field("FSHANDLE", m.fshandle); });
    c.Attr(kFsattrFailoverLocations, 4, 4, [&] { c.Array("FAILOVER_LOCATIONS", m.failover_locations, kFailoverLocationsMax); });
    c.Attr(kFsattrMaxAppend, 8, 8, [&] { c.Field("MAX_APPEND", m.max_append); });
    c.Attr(kFsattrPrefIoSize, 8, 8, [&] { c.Field("PREF_IO_SIZE", m.pref_io_size); });
    c.Attr(kFsattrFhExpireType, 4, 4, [&] { c.Field("FH_EXPIRE_TYPE", m.fh_expire_type); });
  }
  // clang-format on
  friend bool operator==(const FsAttributes&, const FsAttributes&) = default;
};

}  // namespace dafs::wire

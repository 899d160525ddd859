// Messages that open and close files and return delegations.
// Spec: WIRE 9.4; draft 6.5.7, 6.5.10, 6.5.11, 6.5.24, 6.5.26.
// Values. Fields carry the specification's names, in its order; each struct lists them once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/attributes.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// DAFS_PROC_OPEN, spec 6.5.24 (R9, R30, R31). The struct has the fields of all union arms. Fields
// that claim_type, open_type, createmode or delegation_type do not select are neither sent nor
// filled in.
struct OpenArgs {
  static constexpr Proc kProc = Proc::kOpen;

  OpenClaimType claim_type = OpenClaimType::kNull;
  FileHandle dir_handle;  // claims kNull, kDelegateCur, kDelegatePrev, kCreateUnlinked
  FileHandle filehandle;  // claim kPrevious
  Pathname pathname;      // claimnull_, claimdelcur_, claimdelprev_pathname
  OpenDelegationType delegate_type = OpenDelegationType::kNone;  // claim kPrevious
  StateId claimdelcur_stateid;                                   // claim kDelegateCur
  OpenType open_type = OpenType::kNoCreate;
  CreateMode createmode = CreateMode::kUnchecked;  // kCreate
  FileAttributes createattrs;                      // kCreate, kUnchecked and kGuarded
  Verifier create_verifier;                        // kCreate, kExclusive
  OpenDeleteDisp delete_disp = OpenDeleteDisp::kDontCare;
  std::string owner;          // opaque bytes
  uint32_t share_access = 0;  // kShare...
  uint32_t share_deny = 0;
  ShareKeyType share_key_type = ShareKeyType::kNone;
  uint64_t share_key = 0;

  // The filehandle of the selected arm, which DAFS_CHF_FH replaces.
  FileHandle& claim_handle() {
    return claim_type == OpenClaimType::kPrevious ? filehandle : dir_handle;
  }
  const FileHandle& claim_handle() const {
    return claim_type == OpenClaimType::kPrevious ? filehandle : dir_handle;
  }

  static void Fields(auto& m, auto& c) {
    c.Field("claim_type", m.claim_type);
    c.Union("open_claim", 80, 8, [&] {
      switch (m.claim_type) {
        case OpenClaimType::kNull:
          c.Field("dir_handle", m.dir_handle);
          c.Path("claimnull_pathname", m.pathname);
          break;
        case OpenClaimType::kPrevious:
          c.Field("filehandle", m.filehandle);
          c.Field("delegate_type", m.delegate_type);
          break;
        case OpenClaimType::kDelegateCur:
          c.Field("dir_handle", m.dir_handle);
          c.Path("claimdelcur_pathname", m.pathname);
          c.Field("claimdelcur_stateid", m.claimdelcur_stateid);
          break;
        case OpenClaimType::kDelegatePrev:
          c.Field("dir_handle", m.dir_handle);
          c.Path("claimdelprev_pathname", m.pathname);
          break;
        case OpenClaimType::kCreateUnlinked:
          c.Field("dir_handle", m.dir_handle);
          break;
      }
    });
    c.Field("open_type", m.open_type);
    c.Union("openflag", 16, 8, [&] {
      if (m.open_type != OpenType::kCreate) return;
      c.Field("createmode", m.createmode);
      c.Union("createhow", 8, 8, [&] {
        if (m.createmode == CreateMode::kExclusive) {
          c.Field("create_verifier", m.create_verifier);
        } else {
          c.Attributes("createattrs", m.createattrs);
        }
      });
    });
    c.Field("delete_disp", m.delete_disp);
    c.OpaqueBytes("owner", m.owner, kOwnerBound);
    c.Field("share_access", m.share_access);
    c.Field("share_deny", m.share_deny);
    c.Field("share_key_type", m.share_key_type);
    c.Pad32("pad");
    c.Field("share_key", m.share_key);
  }
  static auto& ChainFileHandle(auto& m) { return m.claim_handle(); }
  static auto* ChainStateId(auto& m) {
    return m.claim_type == OpenClaimType::kDelegateCur ? &m.claimdelcur_stateid : nullptr;
  }
  friend bool operator==(const OpenArgs&, const OpenArgs&) = default;
};

// The delegation in the result of OPEN and OPEN_DELEGATED; the fields after the type are unused
// with kNone. DelegationFields lists delegation_type and the union `opendelegation`.
struct OpenDelegation {
  OpenDelegationType delegation_type = OpenDelegationType::kNone;
  StateId delegation_state_id;
  bool recall = false;
  LimitBy limitby = LimitBy::kSize;  // kWrite
  uint64_t filesize = 0;             // kWrite, LimitBy::kSize
  uint32_t num_blocks = 0;           // kWrite, LimitBy::kBlocks
  uint32_t bytes_per_block = 0;      // kWrite, LimitBy::kBlocks
  uint32_t permissions_acetype = 0;
  uint32_t permissions_aceflag = 0;
  uint32_t permissions_acemask = 0;
  std::string delegation_who;  // readdel_who, writedel_who

  static void DelegationFields(auto& m, auto& c) {
    c.Field("delegation_type", m.delegation_type);
    c.Union("opendelegation", 40, 8, [&] {
      if (m.delegation_type == OpenDelegationType::kRead) {
        c.Field("state_id", m.delegation_state_id);
        c.Bool32("recall", m.recall);
        Permissions(m, c);
        c.String("readdel_who", m.delegation_who, kWhoBound);
      } else if (m.delegation_type == OpenDelegationType::kWrite) {
        c.Field("state_id", m.delegation_state_id);
        c.Bool32("recall", m.recall);
        c.Field("limitby", m.limitby);
        c.Union("space_limit", 8, 8, [&] {
          if (m.limitby == LimitBy::kSize) {
            c.Field("filesize", m.filesize);
          } else {
            c.Field("num_blocks", m.num_blocks);
            c.Field("bytes_per_block", m.bytes_per_block);
          }
        });
        Permissions(m, c);
        c.String("writedel_who", m.delegation_who, kWhoBound);
      }
    });
  }
  static void Permissions(auto& m, auto& c) {
    c.Field("permissions_acetype", m.permissions_acetype);
    c.Field("permissions_aceflag", m.permissions_aceflag);
    c.Field("permissions_acemask", m.permissions_acemask);
  }
  friend bool operator==(const OpenDelegation&, const OpenDelegation&) = default;
};

struct OpenRes : OpenDelegation {
  static constexpr Proc kProc = Proc::kOpen;

  FileHandle filehandle;
  StateId state_id;
  ChangeInfo change_info;
  uint32_t component_count = 0;
  uint32_t result_flags = 0;  // kOpenResultMlock

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.WhenOk(32, 8, [&] {
      c.Field("state_id", m.state_id);
      c.Field("change_info", m.change_info);
    });
    c.Field("component_count", m.component_count);
    c.WhenOk(52, 4, [&] {
      c.Field("result_flags", m.result_flags);
      DelegationFields(m, c);
    });
  }
  friend bool operator==(const OpenRes&, const OpenRes&) = default;
};

// DAFS_PROC_CLOSE, spec 6.5.7.
struct CloseArgs {
  static constexpr Proc kProc = Proc::kClose;

  FileHandle filehandle;
  StateId state_id;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
  }
  friend bool operator==(const CloseArgs&, const CloseArgs&) = default;
};

struct CloseRes {
  static constexpr Proc kProc = Proc::kClose;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const CloseRes&, const CloseRes&) = default;
};

// DAFS_PROC_OPEN_DOWNGRADE, spec 6.5.26.
struct OpenDowngradeArgs {
  static constexpr Proc kProc = Proc::kOpenDowngrade;

  FileHandle filehandle;
  StateId state_id;
  uint32_t share_access = 0;
  uint32_t share_deny = 0;
  ShareKeyType share_key_type = ShareKeyType::kNone;
  uint64_t share_key = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    c.Field("share_access", m.share_access);
    c.Field("share_deny", m.share_deny);
    c.Field("share_key_type", m.share_key_type);
    c.Pad32("pad");
    c.Field("share_key", m.share_key);
  }
  friend bool operator==(const OpenDowngradeArgs&, const OpenDowngradeArgs&) = default;
};

struct OpenDowngradeRes {
  static constexpr Proc kProc = Proc::kOpenDowngrade;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const OpenDowngradeRes&, const OpenDowngradeRes&) = default;
};

// DAFS_PROC_DELEGPURGE, spec 6.5.10.
struct DelegpurgeArgs {
  static constexpr Proc kProc = Proc::kDelegpurge;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const DelegpurgeArgs&, const DelegpurgeArgs&) = default;
};

struct DelegpurgeRes {
  static constexpr Proc kProc = Proc::kDelegpurge;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const DelegpurgeRes&, const DelegpurgeRes&) = default;
};

// DAFS_PROC_DELEGRETURN, spec 6.5.11.
struct DelegreturnArgs {
  static constexpr Proc kProc = Proc::kDelegreturn;

  StateId state_id;  // of the delegation

  static void Fields(auto& m, auto& c) { c.Field("state_id", m.state_id); }
  friend bool operator==(const DelegreturnArgs&, const DelegreturnArgs&) = default;
};

struct DelegreturnRes {
  static constexpr Proc kProc = Proc::kDelegreturn;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const DelegreturnRes&, const DelegreturnRes&) = default;
};

// DAFS_PROC_OPEN_HANDLE (1000), a private procedure (R15): OPEN of the file that `filehandle`
// names, without a path and without creating. For clients that have handles but no usable names.
// Shares, state ids and errors as for OPEN with CLAIM_NULL; NOTSUPP from a server without it.
//
//   req  0 filehandle 64, 64 u32 share_access, 68 u32 share_deny, 72 off -> opaque<> owner;
//        80 bytes
//   res  0 filehandle 64, 64 opaque64 state_id; 72 bytes
struct OpenHandleArgs {
  static constexpr Proc kProc = Proc::kOpenHandle;

  FileHandle filehandle;
  uint32_t share_access = 0;
  uint32_t share_deny = 0;
  std::string owner;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("share_access", m.share_access);
    c.Field("share_deny", m.share_deny);
    c.OpaqueBytes("owner", m.owner, kOwnerBound);
  }
  friend bool operator==(const OpenHandleArgs&, const OpenHandleArgs&) = default;
};

struct OpenHandleRes {
  static constexpr Proc kProc = Proc::kOpenHandle;

  FileHandle filehandle;
  StateId state_id;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
  }
  friend bool operator==(const OpenHandleRes&, const OpenHandleRes&) = default;
};

// DAFS_PROC_OPEN_DELEGATED (1011), a private procedure (R15): OPEN_HANDLE whose result may have a
// delegation, as that of OPEN. The server decides; `want` is the most that it may grant.
//
//   req  0 filehandle 64, 64 u32 share_access, 68 u32 share_deny, 72 off -> opaque<> owner,
//        76 u32 want; 80 bytes
//   res  0 filehandle 64, 64 opaque64 state_id, 72 u32 delegation_type, 80 opendelegation 40, as
//        in OPEN; 120 bytes
struct OpenDelegatedArgs : OpenHandleArgs {
  static constexpr Proc kProc = Proc::kOpenDelegated;

  OpenDelegationType want = OpenDelegationType::kNone;

  static void Fields(auto& m, auto& c) {
    OpenHandleArgs::Fields(m, c);
    c.Field("want", m.want);
  }
  friend bool operator==(const OpenDelegatedArgs&, const OpenDelegatedArgs&) = default;
};

struct OpenDelegatedRes : OpenDelegation {
  static constexpr Proc kProc = Proc::kOpenDelegated;

  FileHandle filehandle;
  StateId state_id;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    DelegationFields(m, c);
  }
  friend bool operator==(const OpenDelegatedRes&, const OpenDelegatedRes&) = default;
};

}  // namespace dafs::wire

// Owners and groups as "name@domain" on the wire, for a server with an ID-mapping domain. The store
// has numbers. Without a domain the numbers are on the wire too, in decimal. Clients may always
// send numbers.
//
// A name that has to be looked up gets DELAY: it is looked up meanwhile, and the client asks again.
// A user or group without a name stays a number. If lookups fail, which IdMap logs, an owner that
// was never looked up is "nobody@domain", without a promise. An access control list then has the
// number: clients change one entry of a list and write all of it back, and would give the rights of
// that user to another one.
// Spec: 4.4.3 (`who`), 6.1.5; WIRE R90. Thread-safe; nothing blocks.
#pragma once

#include <cstdint>
#include <type_traits>

#include "wire/auth/idmap/id_map.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/status.h"

namespace dafs::server {

// Replaces the numbers of OWNER, OWNER_GROUP and of the ACL by names. DELAY: at least one is being
// looked up; the others are replaced. `ids` null: there is no domain, and nothing to do.
// `promises`: the spec_cond bits of the response, which lose that for attributes if a lookup has
// failed; null: it has none.
wire::DafsStatus NameOwners(auth::IdMap* ids, wire::FileAttributes& attributes, uint16_t* promises);

// Replaces the names in attributes that a client sets or compares by numbers. INVAL: a name is
// that of no user or group. SERVERFAULT: its lookup has failed. DELAY and `ids` as above.
wire::DafsStatus NumberOwners(auth::IdMap* ids, wire::FileAttributes& attributes);

// The attributes in the arguments of a procedure; null: it has none.
template <class Args>
wire::FileAttributes* AttributesIn(Args& args) {
  if constexpr (requires { args.createattrs; }) {
    return &args.createattrs;
  } else if constexpr (requires { args.attr; }) {
    return &args.attr;
  } else if constexpr (requires { args.obj_attributes; }) {
    using Member = std::remove_cvref_t<decltype(args.obj_attributes)>;
    if constexpr (std::is_same_v<Member, wire::FileAttributes>) return &args.obj_attributes;
  }
  return nullptr;
}

}  // namespace dafs::server

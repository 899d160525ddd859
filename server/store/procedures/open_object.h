// Opens an object that was found or created. Spec: 6.5.24, 4.4.1.2, 4.4.2.
//
// At OPEN, the kernel checks with the caller's identity whether the file may be read or written.
// The open records the rights that it granted. Data operations then use descriptors that the server
// opens with its own privilege.
#pragma once

#include <cstdint>
#include <string_view>

#include "server/store/store_impl.h"
#include "wire/messages/open_close.h"

namespace dafs::server {

// How the file of an OPEN was obtained. Decides which rights are checked.
enum class Made : uint8_t {
  kFound,      // it existed: checks the caller's rights
  kCreated,    // by this OPEN, whatever rights its mode grants
  kPermitted,  // it existed, and the caller's rights were checked already
  kReclaimed,  // it was open before the restart of the server
  kDelegated,  // the client has a delegation of it, and may have opened it already
};

OpenRequest RequestOf(const Caller& caller, const wire::OpenArgs& args);
OpenRequest RequestOf(const Caller& caller, std::string_view owner, uint32_t access,
                      uint32_t deny = wire::kShareDenyNone);

bool MayExecute(const Object& file);

// Opens `file` for `request`, as the identity entered. *before: what its owner had open already.
wire::DafsStatus OpenObject(StoreImpl& store, const Caller& caller, const ObjectRef& file,
                            const OpenRequest& request, Made made, wire::StateId* state_id,
                            Shares* before = nullptr);

}  // namespace dafs::server

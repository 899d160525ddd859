// Opening an object, however it was found or made. Spec: 6.5.24, 4.4.1.2, 4.4.2.
//
// The kernel decides at OPEN, by the caller's identity, whether the file may be read or written;
// what it granted is recorded with the open, and data operations then use descriptors the server
// opens by its own right.
#pragma once

#include <cstdint>
#include <string_view>

#include "server/store/store_impl.h"
#include "wire/messages/open_close.h"

namespace dafs::server {

// How an open file came about.
enum class Made : uint8_t {
  kFound,      // it was there: the caller's rights count
  kCreated,    // by this OPEN, whatever rights its mode gives
  kPermitted,  // it was there, and the rights were looked at
  kReclaimed,  // it was open before the server was started
};

OpenRequest RequestOf(const Caller& caller, const wire::OpenArgs& args);
OpenRequest RequestOf(const Caller& caller, std::string_view owner, uint32_t access,
                      uint32_t deny = wire::kShareDenyNone);

bool MayExecute(const Object& file);

// Opens `file` for `request`, as the identity entered. *before: what its owner had taken already.
wire::DafsStatus OpenObject(StoreImpl& store, const Caller& caller, const ObjectRef& file,
                            const OpenRequest& request, Made made, wire::StateId* state_id,
                            Shares* before = nullptr);

}  // namespace dafs::server

// A request that opens a file, and gives the open its permanent name in the tables of the client.
// Threads and blocking: client/files/files.h.
// Used by client/files/opens/opening.cc and opening_by_handle.cc only.
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "client/exchange/call.h"
#include "client/state/client.h"
#include "client/state/delegations.h"
#include "client/state/opens.h"
#include "client/state/records/identity.h"
#include "wire/messages/messages.h"
#include "wire/protocol/constants.h"

namespace dafs::client {

// OPEN, OPEN_HANDLE, OPEN_DELEGATED or OPEN_EXECUTE. Decode gives the open its permanent name and
// stores it in `res`, so that later members of the chain and later operations use that name. If the
// server grants a delegation in place of the open, the open is a local one.
template <class Args>
class OpenCall : public Call<Args> {
 public:
  OpenCall(Client& client, const Identity& user) : client_(client), user_(user) {}

  absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                      wire::DafsStatus answer) override {
    absl::Status status = Call<Args>::Decode(message, order, answer);
    if (!status.ok() || answer != wire::DafsStatus::kOk) return status;
    if constexpr (requires { this->res.delegation_type; }) {
      // The killed process may have wanted a delegation that this one does not want.
      if (this->left && this->res.delegation_type != wire::OpenDelegationType::kNone) {
        this->args.share_access |= wire::kShareWantOpenXorDelegation;
      }
      if (this->res.delegation_type != wire::OpenDelegationType::kNone && in_place_of_open()) {
        this->res.state_id =
            client_.delegations().Granted(Info(), this->res, this->xid.client_id, this->asked);
        return status;
      }
    }
    if (this->res.state_id.is_zero()) return status;
    this->res.state_id = client_.opens().Add(Info(), this->res.state_id, this->xid.client_id);
    return status;
  }
  // Wants a delegation in place of the open.
  bool in_place_of_open() const {
    if constexpr (Args::kProc == wire::Proc::kOpenExecute) {
      return false;
    } else {
      return (this->args.share_access & wire::kShareWantOpenXorDelegation) != 0;
    }
  }

 private:
  OpenInfo Info() const {
    OpenInfo info;
    info.handle = this->res.filehandle;
    info.owner = this->args.owner;
    if constexpr (Args::kProc == wire::Proc::kOpenExecute) {
      info.share_access = wire::kShareRead;
      info.executes = true;
    } else {
      info.share_access = this->args.share_access & wire::kShareBoth;
      info.share_deny = this->args.share_deny;
      if constexpr (Args::kProc == wire::Proc::kOpen) {
        info.deny_delete = this->args.delete_disp == wire::OpenDeleteDisp::kDeny;
        if (this->args.share_key_type == wire::ShareKeyType::kBoth) {
          info.share_key = this->args.share_key;
        }
      }
    }
    info.user = user_;
    return info;
  }

  Client& client_;
  const Identity& user_;
};

}  // namespace dafs::client

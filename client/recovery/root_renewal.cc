#include "client/recovery/root_renewal.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/exchange/call.h"
#include "client/recovery/calls/operation.h"
#include "client/session/session_keeper.h"
#include "client/state/server/root_handle.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs::client {
namespace {

// The chain that looks the root up by its path.
class Walk {
 public:
  explicit Walk(const Client& client) {
    lookup_.chf_fh = true;
    lookup_.args.path = client.options().export_path;
  }
  std::span<CallBase* const> chain() const { return std::span(chain_).first(is_deep() ? 2 : 1); }
  bool found() const { return is_deep() ? lookup_.ok() : get_.ok(); }
  const CallBase& refused() const {
    return is_deep() && get_.ok() ? static_cast<const CallBase&>(lookup_) : get_;
  }
  const wire::FileHandle& handle() const {
    return is_deep() ? lookup_.res.filehandle : get_.res.root_handle;
  }

 private:
  bool is_deep() const { return !lookup_.args.path.empty(); }

  Call<wire::GetRootHandleArgs> get_;
  Call<wire::LookupArgs> lookup_;
  CallBase* const chain_[2] = {&get_, &lookup_};
};

}  // namespace

Task<absl::StatusOr<bool>> RenewRoot(RequestExecutor& executor, RequestExecutor::Gate gate,
                                     CallBase& call) {
  RootHandle& root = executor.client().root();
  std::optional<wire::FileHandle> expired;
  call.VisitHandles([&](wire::FileHandle& handle) {
    if (root.Present(handle).has_value()) expired = handle;
  });
  if (!expired.has_value()) co_return false;
  if (root.Present(*expired) != *expired) co_return true;  // another worker has renewed it
  Walk walk(executor.client());
  const Identity self{};  // the identity that looked it up first
  Task<absl::Status> walking = executor.RunGated(gate, &self, walk.chain());
  CO_RETURN_IF_ERROR(co_await walking);
  const std::string what = absl::StrCat(executor.session_keeper().name(),
                                        ": the filehandle of the mount's root is no longer valid (",
                                        Text(wire::Name(call.status)), ")");
  if (!walk.found()) {
    if (root.ReportLost()) {
      LogError(absl::StrCat(what, ", and looking it up fails: ",
                            StatusOf(walk.refused(), "look up the root").message(),
                            "; the mount returns ESTALE until it succeeds"));
    }
    co_return false;
  }
  if (root.Renew(*expired, walk.handle())) {
    LogWarning(absl::StrCat(what,
                            "; it was found again by its path. Files opened before are lost "
                            "unless the server still knows them"));
  }
  co_return root.Present(*expired) != *expired;
}

}  // namespace dafs::client

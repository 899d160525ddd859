#include "server/session/refusals.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/log.h"
#include "server/clients/client_name.h"
#include "server/session/refusal_log.h"
#include "server/store/store.h"

namespace dafs::server {
namespace {

constexpr char kWrongPort[] =
    "an export without `insecure` takes only clients with a port below 1024; mount as root, or "
    "export with insecure";

}  // namespace

void Refusals::Say(const std::string& client_id_string, const char* kind, absl::string_view why) {
  if (!shared_.refusals->Admits(host_, kind, Loop::Now())) return;
  LogWarning(absl::StrCat("client ", ClientName(client_id_string), " at ", connection_.peer_name(),
                          " refused: ", why));
}

void Refusals::SayInUse(const std::string& client_id_string, const PeerAddress& holder) {
  Say(client_id_string, "identity",
      absl::StrCat("a client of that name has a lease from ", holder.ToString(),
                   "; if they are two machines, mount on one of them with clientid="));
}

void Refusals::SayNotAdmitted(const std::string& client_id_string) {
  if (HasWrongPort()) return SayWrongPort(client_id_string);
  Say(client_id_string, "address",
      "no export admits its address; add that to an export's clients= to admit it");
}

void Refusals::SayWrongPort(const std::string& client_id_string) {
  Say(client_id_string, "port", kWrongPort);
}

bool Refusals::HasWrongPort() const {
  const Peer& peer = connection_.peer();
  const std::vector<const Export*> served = shared_.store->exports().Served();
  return std::any_of(served.begin(), served.end(), [&peer](const Export* each) {
    return each->Admission(peer) == wire::DafsStatus::kWrongSec;
  });
}

}  // namespace dafs::server

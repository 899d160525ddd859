#include "server/session/connection/refusals.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/log/log.h"
#include "server/clients/client_name.h"
#include "server/session/shared/refusal_log.h"
#include "server/store/store.h"

namespace dafs::server {
namespace {

constexpr char kWrongPort[] =
    "an export without `insecure` takes only clients with a port below 1024; mount as root, or "
    "export with insecure";

// The demand of an export other than that for a port, with the remedy. Null: none.
const char* DemandOf(Export::Misfit misfit) {
  switch (misfit) {
    case Export::Misfit::kNeedsTls:
      return "takes only connections with TLS; mount with xprtsec=tls or xprtsec=mtls";
    case Export::Misfit::kRefusesTls:
      return "takes only connections without TLS; mount with xprtsec=none";
    case Export::Misfit::kNeedsCertificate:
      return "takes only clients with a certificate; mount with xprtsec=mtls";
    case Export::Misfit::kCertificate:
      return "names none of the names in its certificate; add one to the export's certs=";
    case Export::Misfit::kNeedsKerberos:
      return "takes only clients that authenticate by Kerberos; mount with sec=krb5host";
    case Export::Misfit::kRefusesKerberos:
      return "takes no clients that authenticate by Kerberos; mount with sec=sys, or add krb5 to "
             "the "
             "export's sec=";
    case Export::Misfit::kNeedsPassword:
      return "takes only clients with a name and password; mount with sec=text and xprtsec=tls";
    case Export::Misfit::kRefusesPassword:
      return "takes no clients with a name and password; add text to the export's sec=";
    case Export::Misfit::kPrincipal:
      return "does not name its principal; add that to the export's principals=";
    case Export::Misfit::kNone:
    case Export::Misfit::kAddress:
    case Export::Misfit::kPort:
      break;
  }
  return nullptr;
}

// The kind of the log line: what the client has. One machine may try all of them.
const char* KindOf(const Peer& peer) {
  if (peer.principal != nullptr) return "principal";
  if (peer.tls == nullptr) return "no TLS";
  return peer.tls->has_certificate ? "certificate" : "no certificate";
}

}  // namespace

void Refusals::Say(const std::string& client_id_string, const char* kind, absl::string_view why) {
  if (IsSaid(kind)) Write(client_id_string, why);
}

bool Refusals::IsSaid(const char* kind) const {
  return shared_.refusals->Admits(host_, kind, Loop::Now());
}

void Refusals::Write(const std::string& client_id_string, absl::string_view why) const {
  LogWarning(absl::StrCat("client ", ClientName(client_id_string), " at ", connection_.peer_name(),
                          " refused: ", why));
}

void Refusals::SayInUse(const std::string& client_id_string, const Principal& holder) {
  Say(client_id_string, "identity",
      absl::StrCat("a client at ", holder.host.ToString(),
                   " has that name and has proven itself by ", NameOf(holder.proof),
                   "; if they are two machines, mount on one of them with clientid="));
}

void Refusals::SayNotAdmitted(const std::string& client_id_string) {
  if (HasWrongSecurity()) return SayWrongSecurity(client_id_string);
  Say(client_id_string, "address",
      "no export admits its address; add that to an export's clients= to admit it");
}

void Refusals::SayHidden(const std::string& client_id_string, absl::string_view name) {
  const Peer& peer = connection_.peer();
  std::string what = "its address; add that to the export's clients=";
  if (peer.principal != nullptr) {
    what = absl::StrCat("its address or its principal ", absl::CHexEscape(*peer.principal),
                        "; add it to the export's clients= or principals=");
  } else if (peer.tls != nullptr && peer.tls->has_certificate) {
    what = absl::StrCat("its address or its certificate for ",
                        absl::CHexEscape(absl::StrJoin(peer.tls->names, ", ")),
                        "; add it to the export's clients= or certs=");
  }
  Say(client_id_string, "hidden",
      absl::StrCat("export ", name, " does not admit ", what, " to admit it"));
}

// Which export was meant is not known here, so the line has all that refuse the client.
void Refusals::SayWrongSecurity(const std::string& client_id_string) {
  constexpr size_t kMostNamed = 4;
  const Peer& peer = connection_.peer();
  if (!IsSaid(KindOf(peer))) return;
  std::vector<std::string> demands;
  for (const Export* each : shared_.store->exports().Served()) {
    const char* demand = DemandOf(each->MisfitOf(peer));
    if (demand != nullptr && demands.size() < kMostNamed) {
      demands.push_back(absl::StrCat("export ", each->name, " ", demand));
    }
  }
  if (demands.empty()) return Write(client_id_string, kWrongPort);
  if (peer.tls != nullptr && peer.tls->has_certificate) {
    demands.push_back(absl::StrCat("the certificate is for ",
                                   absl::CHexEscape(absl::StrJoin(peer.tls->names, ", "))));
  }
  if (peer.principal != nullptr) {
    demands.push_back(absl::StrCat("the principal is ", absl::CHexEscape(*peer.principal)));
  }
  Write(client_id_string, absl::StrJoin(demands, "; "));
}

bool Refusals::HasWrongSecurity() const {
  const Peer& peer = connection_.peer();
  const std::vector<const Export*> served = shared_.store->exports().Served();
  return std::any_of(served.begin(), served.end(), [&peer](const Export* each) {
    const Export::Misfit misfit = each->MisfitOf(peer);
    return misfit != Export::Misfit::kNone && misfit != Export::Misfit::kAddress;
  });
}

}  // namespace dafs::server

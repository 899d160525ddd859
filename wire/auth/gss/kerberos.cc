#include "wire/auth/gss/kerberos.h"

#include <gssapi/gssapi_ext.h>
#include <gssapi/gssapi_krb5.h>
#include <krb5/krb5.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "wire/auth/credentials.h"
#include "wire/auth/gss/handles.h"

namespace dafs::auth {
namespace {

// A name is shown in logs and compared with patterns; none is longer in practice.
constexpr size_t kMostNameBytes = 1024;

gss_OID Mechanism() { return const_cast<gss_OID>(gss_mech_krb5); }

void AppendStatus(OM_uint32 code, int type, std::string* text) {
  OM_uint32 more = 0;
  do {
    GssBuffer line;
    OM_uint32 minor = 0;
    if (GSS_ERROR(gss_display_status(&minor, code, type, Mechanism(), &more, line.out()))) return;
    absl::StrAppend(text, text->empty() ? "" : "; ", line.text());
  } while (more != 0);
}

// The error, in the library's words.
std::string Reason(OM_uint32 major, OM_uint32 minor) {
  std::string text;
  // "Unspecified GSS failure" says nothing beside the minor status.
  if (GSS_ROUTINE_ERROR(major) != GSS_S_FAILURE) AppendStatus(major, GSS_C_GSS_CODE, &text);
  if (minor != 0) AppendStatus(minor, GSS_C_MECH_CODE, &text);
  return text.empty() ? "unspecified failure" : text;
}

// The channel binding as RFC 9266 and RFC 5801 (5.1) put it. Borrows `data`.
struct Bindings {
  explicit Bindings(const std::string& data) {
    value.application_data = BufferOf(data);
    pointer = data.empty() ? GSS_C_NO_CHANNEL_BINDINGS : &value;
  }
  gss_channel_bindings_struct value = {};
  gss_channel_bindings_t pointer;
};

std::string BindingData(const std::string& channel_binding) {
  return channel_binding.empty() ? "" : absl::StrCat("tls-exporter:", channel_binding);
}

absl::StatusOr<std::string> TextOf(gss_name_t name) {
  GssBuffer text;
  OM_uint32 minor = 0;
  const OM_uint32 major = gss_display_name(&minor, name, text.out(), nullptr);
  if (GSS_ERROR(major)) return absl::UnauthenticatedError(Reason(major, minor));
  std::string result = text.text();
  if (result.empty() || result.size() > kMostNameBytes || result.find('\0') != std::string::npos) {
    return absl::UnauthenticatedError("the name of the peer is empty or too long");
  }
  return result;
}

// The part that both sides have in common.
class KerberosExchange : public Exchange {
 public:
  explicit KerberosExchange(const std::string& channel_binding)
      : binding_data_(BindingData(channel_binding)) {}

  const std::string& peer_name() const override { return peer_name_; }
  const std::string& user() const override { return user_; }
  absl::Duration lifetime() const override { return lifetime_; }
  uint32_t major_status() const override { return major_; }
  uint32_t minor_status() const override { return minor_; }

 protected:
  void SetLifetime(OM_uint32 seconds) {
    lifetime_ = seconds == GSS_C_INDEFINITE ? absl::InfiniteDuration() : absl::Seconds(seconds);
  }

  const std::string binding_data_;
  GssContext context_;
  std::string peer_name_;
  std::string user_;
  absl::Duration lifetime_;
  OM_uint32 major_ = 0;
  OM_uint32 minor_ = 0;
};

// ---- The client ---------------------------------------------------------------------------------

class InitiatorExchange final : public KerberosExchange {
 public:
  InitiatorExchange(const InitiatorOptions& options, const std::string& channel_binding)
      : KerberosExchange(channel_binding), options_(options) {}

  absl::StatusOr<Progress> Step(std::string_view token, std::string* answer) override {
    answer->clear();
    if (context_.get() == nullptr) {
      if (absl::Status status = Acquire(); !status.ok()) return status;
    }
    const Bindings bindings(binding_data_);
    gss_buffer_desc in = BufferOf(token);
    GssBuffer out;
    OM_uint32 flags = 0, seconds = 0;
    major_ = gss_init_sec_context(&minor_, credential_.get(), context_.out(), target_.get(),
                                  Mechanism(), GSS_C_MUTUAL_FLAG, 0, bindings.pointer, &in, nullptr,
                                  out.out(), &flags, &seconds);
    if (GSS_ERROR(major_)) return Failed(token.empty());
    *answer = out.text();
    if ((major_ & GSS_S_CONTINUE_NEEDED) != 0) return Progress::kContinues;
    // 6.2.3: the client relies on it, since no SERVER_AUTH follows.
    if ((flags & GSS_C_MUTUAL_FLAG) == 0) {
      return absl::UnauthenticatedError("Kerberos: the server did not authenticate itself");
    }
    SetLifetime(seconds);
    peer_name_ = absl::StrCat("dafs@", options_.server_host);
    return Progress::kDone;
  }

 private:
  absl::Status Acquire() {
    const std::string target = absl::StrCat("dafs@", options_.server_host);
    gss_buffer_desc text = BufferOf(target);
    major_ = gss_import_name(&minor_, &text, GSS_C_NT_HOSTBASED_SERVICE, target_.out());
    if (GSS_ERROR(major_)) return Failed(true);
    if (!options_.principal.empty()) {
      gss_buffer_desc own = BufferOf(options_.principal);
      major_ = gss_import_name(&minor_, &own, const_cast<gss_OID>(GSS_KRB5_NT_PRINCIPAL_NAME),
                               name_.out());
      if (GSS_ERROR(major_)) return Failed(true);
    }
    // Tickets that the keys give are kept in memory, apart from those of other users of this
    // process, and are requested again before they expire.
    const std::string cache =
        absl::StrCat("MEMORY:dafs ", options_.keytab, " ", options_.principal);
    std::array<gss_key_value_element_desc, 2> places = {
        {{"client_keytab", options_.keytab.c_str()}, {"ccache", cache.c_str()}}};
    const gss_key_value_set_desc store = {.count = places.size(), .elements = places.data()};
    gss_OID_set_desc mechanisms = {.count = 1, .elements = Mechanism()};
    major_ = gss_acquire_cred_from(&minor_, name_.get(), GSS_C_INDEFINITE, &mechanisms,
                                   GSS_C_INITIATE, options_.keytab.empty() ? nullptr : &store,
                                   credential_.out(), nullptr, nullptr);
    return GSS_ERROR(major_) ? Failed(true) : absl::OkStatus();
  }

  // `own`: this side could not make its first token.
  absl::Status Failed(bool own) const {
    const std::string reason = Reason(major_, minor_);
    const auto code = static_cast<krb5_error_code>(minor_);
    if (code == KRB5_KDC_UNREACH || code == KRB5_REALM_CANT_RESOLVE) {
      return absl::UnavailableError(absl::StrCat("Kerberos: ", reason));
    }
    if (own && (code == KRB5KRB_AP_ERR_TKT_EXPIRED ||
                GSS_ROUTINE_ERROR(major_) == GSS_S_CREDENTIALS_EXPIRED)) {
      return ExpiredError(absl::StrCat("Kerberos: ", reason));
    }
    if (!own) return absl::UnauthenticatedError(absl::StrCat("Kerberos: the server: ", reason));
    std::string place = options_.keytab.empty() ? "" : absl::StrCat(options_.keytab, ": ");
    if (!options_.principal.empty()) absl::StrAppend(&place, options_.principal, ": ");
    return absl::FailedPreconditionError(
        absl::StrCat("Kerberos: ", place, reason, "; the server is dafs/", options_.server_host));
  }

  const InitiatorOptions options_;
  GssName target_;
  GssName name_;  // its own; null: the first or default one
  GssCredential credential_;
};

class KerberosInitiator final : public Initiator {
 public:
  explicit KerberosInitiator(InitiatorOptions options) : options_(std::move(options)) {}
  std::unique_ptr<Exchange> Begin(const std::string& channel_binding) override {
    return std::make_unique<InitiatorExchange>(options_, channel_binding);
  }

 private:
  const InitiatorOptions options_;
};

// ---- The server ---------------------------------------------------------------------------------

class AcceptorExchange final : public KerberosExchange {
 public:
  AcceptorExchange(const AcceptorOptions& options, const std::string& channel_binding)
      : KerberosExchange(channel_binding), options_(options) {}

  absl::StatusOr<Progress> Step(std::string_view token, std::string* answer) override {
    answer->clear();
    if (credential_.get() == nullptr) {
      if (absl::Status status = Acquire(); !status.ok()) return status;
    }
    const Bindings bindings(binding_data_);
    gss_buffer_desc in = BufferOf(token);
    GssBuffer out;
    GssName peer;
    gss_OID mechanism = GSS_C_NO_OID;
    OM_uint32 flags = 0, seconds = 0;
    major_ =
        gss_accept_sec_context(&minor_, context_.out(), credential_.get(), &in, bindings.pointer,
                               peer.out(), &mechanism, out.out(), &flags, &seconds, nullptr);
    if (GSS_ERROR(major_)) return absl::UnauthenticatedError(Reason(major_, minor_));
    *answer = out.text();
    if ((major_ & GSS_S_CONTINUE_NEEDED) != 0) return Progress::kContinues;
    if (absl::Status status = Check(mechanism, flags); !status.ok()) return status;
    absl::StatusOr<std::string> name = TextOf(peer.get());
    if (!name.ok()) return name.status();
    peer_name_ = *std::move(name);
    GssBuffer user;
    OM_uint32 minor = 0;  // a principal need not be a user of this machine
    if (!GSS_ERROR(gss_localname(&minor, peer.get(), Mechanism(), user.out()))) user_ = user.text();
    if (user_.find('\0') != std::string::npos) user_.clear();
    SetLifetime(seconds);
    return Progress::kDone;
  }

 private:
  absl::Status Acquire() {
    // Any key dafs/HOST of the keytab: the server may have several names.
    constexpr std::string_view kService = "dafs";
    gss_buffer_desc text = BufferOf(kService);
    GssName name;
    major_ = gss_import_name(&minor_, &text, GSS_C_NT_HOSTBASED_SERVICE, name.out());
    std::array<gss_key_value_element_desc, 2> places = {
        {{"keytab", options_.keytab.c_str()}, {"rcache", options_.replay_cache.c_str()}}};
    const gss_key_value_set_desc store = {
        .count = static_cast<OM_uint32>(options_.replay_cache.empty() ? 1 : 2),
        .elements = places.data()};
    gss_OID_set_desc mechanisms = {.count = 1, .elements = Mechanism()};
    if (!GSS_ERROR(major_)) {
      major_ = gss_acquire_cred_from(&minor_, name.get(), GSS_C_INDEFINITE, &mechanisms,
                                     GSS_C_ACCEPT, &store, credential_.out(), nullptr, nullptr);
    }
    if (!GSS_ERROR(major_)) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(options_.keytab, ": no usable key dafs/HOST: ", Reason(major_, minor_)));
  }

  absl::Status Check(gss_OID mechanism, OM_uint32 flags) const {
    if (mechanism == GSS_C_NO_OID || gss_oid_equal(mechanism, Mechanism()) == 0) {
      return absl::UnauthenticatedError("not Kerberos");
    }
    if ((flags & GSS_C_ANON_FLAG) != 0) return absl::UnauthenticatedError("anonymous");
    if ((flags & GSS_C_MUTUAL_FLAG) == 0) {
      return absl::UnauthenticatedError("the client did not request mutual authentication");
    }
    // The library refuses another binding, but not the absence of one.
    if (!binding_data_.empty() && (flags & GSS_C_CHANNEL_BOUND_FLAG) == 0) {
      return absl::UnauthenticatedError("the token is not bound to its TLS connection");
    }
    return absl::OkStatus();
  }

  const AcceptorOptions options_;
  GssCredential credential_;
};

class KerberosAcceptor final : public Acceptor {
 public:
  explicit KerberosAcceptor(AcceptorOptions options) : options_(std::move(options)) {}
  std::unique_ptr<Exchange> Begin(const std::string& channel_binding) override {
    return std::make_unique<AcceptorExchange>(options_, channel_binding);
  }
  std::string_view mechanism() const override {
    return {static_cast<const char*>(gss_mech_krb5->elements), gss_mech_krb5->length};
  }

 private:
  const AcceptorOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Initiator>> NewKerberosInitiator(const InitiatorOptions& options) {
  if (options.server_host.empty()) {
    return absl::InvalidArgumentError("Kerberos: the server needs a host name");
  }
  return std::make_unique<KerberosInitiator>(options);
}

absl::StatusOr<std::unique_ptr<Acceptor>> NewKerberosAcceptor(const AcceptorOptions& options) {
  if (options.keytab.empty()) return absl::InvalidArgumentError("Kerberos: no keytab is given");
  // A keytab of another type than FILE is checked by the first exchange.
  absl::string_view path = options.keytab;
  if (absl::ConsumePrefix(&path, "FILE:") || path.find(':') == absl::string_view::npos) {
    struct stat info;
    const std::string file(path);
    if (access(file.c_str(), R_OK) != 0 || stat(file.c_str(), &info) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("keytab ", file, ": ", std::strerror(errno),
                       "; make one with the key of dafs/HOST, by kadmin's ktadd"));
    }
    if ((info.st_mode & 07) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("keytab ", file, ": other users can access it; chmod 600 ", file));
    }
  }
  return std::make_unique<KerberosAcceptor>(options);
}

}  // namespace dafs::auth

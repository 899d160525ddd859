#include "client/state/server/password_initiator.h"

#include <string.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/files/secret_file.h"

namespace dafs::client {
namespace {

constexpr size_t kMostBytes = 4096;  // of a credentials file

void Erase(std::string& secret) { explicit_bzero(secret.data(), secret.size()); }

absl::Status BadFile(const std::string& file, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("Password: ", file, ": ", why));
}

class PasswordExchange final : public auth::Exchange {
 public:
  PasswordExchange(bool has_tls, std::function<absl::StatusOr<NameAndPassword>()> source)
      : has_tls_(has_tls), source_(std::move(source)) {}

  absl::StatusOr<Progress> Step(std::string_view token, std::string* answer) override {
    answer->clear();
    if (is_sent_) {
      if (token.empty()) return Progress::kDone;
      return absl::UnauthenticatedError("Password: the server has answered with a token");
    }
    is_sent_ = true;
    if (!has_tls_) {
      return absl::FailedPreconditionError(
          "Password: it is sent over TLS only; mount with xprtsec=tls");
    }
    absl::StatusOr<NameAndPassword> secret = source_();
    if (!secret.ok()) return secret.status();
    if (secret->name.empty() || secret->name.find('\0') != std::string::npos ||
        secret->password.find('\0') != std::string::npos) {
      return absl::FailedPreconditionError(
          "Password: the name is empty, or the name or password contains a NUL byte");
    }
    // Reserved first: no copy of the password is left in memory that is too small.
    answer->reserve(secret->name.size() + 1 + secret->password.size());
    answer->append(secret->name).append(1, '\0').append(secret->password);
    return Progress::kDone;
  }
  const std::string& peer_name() const override { return peer_; }
  const std::string& user() const override { return peer_; }
  absl::Duration lifetime() const override { return absl::InfiniteDuration(); }
  uint32_t major_status() const override { return 0; }
  uint32_t minor_status() const override { return 0; }

 private:
  const bool has_tls_;
  const std::function<absl::StatusOr<NameAndPassword>()> source_;
  const std::string peer_;  // the server proves itself by its certificate
  bool is_sent_ = false;
};

class PasswordInitiator final : public auth::Initiator {
 public:
  explicit PasswordInitiator(std::function<absl::StatusOr<NameAndPassword>()> source)
      : source_(std::move(source)) {}
  std::unique_ptr<auth::Exchange> Begin(const std::string& channel_binding) override {
    return std::make_unique<PasswordExchange>(!channel_binding.empty(), source_);
  }

 private:
  const std::function<absl::StatusOr<NameAndPassword>()> source_;
};

}  // namespace

NameAndPassword::~NameAndPassword() { Erase(password); }

absl::StatusOr<NameAndPassword> ReadCredentialsFile(const std::string& file) {
  absl::StatusOr<std::string> text = ReadSecretFile(file, kMostBytes);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat("Password: ", text.status().message()));
  }
  NameAndPassword secret;
  bool has_password = false;
  std::string_view rest(*text);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    constexpr std::string_view kName = "username=";
    constexpr std::string_view kPassword = "password=";
    if (line.substr(0, kName.size()) == kName) secret.name = line.substr(kName.size());
    if (line.substr(0, kPassword.size()) == kPassword) {
      secret.password.reserve(kMostBytes);  // one place for it
      secret.password = line.substr(kPassword.size());
      has_password = true;
    }
  }
  Erase(*text);
  if (secret.name.empty() || !has_password) {
    return BadFile(file, "a line username=NAME and a line password=PASSWORD are needed");
  }
  return secret;
}

std::shared_ptr<auth::Initiator> NewPasswordInitiator(
    std::function<absl::StatusOr<NameAndPassword>()> source) {
  return std::make_shared<PasswordInitiator>(std::move(source));
}

}  // namespace dafs::client

// The users and groups of this machine that names from the network mean, and the reverse.
//
// OWNER, OWNER_GROUP and the `who` of an access control entry are numbers in decimal by default, or
// "name@domain" where a server has an ID-mapping domain (WIRE R90). Kerberos principals are
// "name@REALM". libnfsidmap maps them by /etc/idmapd.conf and the databases of the name service
// switch. It is not thread-safe, runs plug-ins and may block for as long as a directory server
// takes. So the helper program dafs-idmap calls it, and IdMap asks the helper.
//
// The helper starts with the first question, or with Start. It gets one question at a time. Its
// process with libnfsidmap is killed if it does not answer within kAnswerTime, and replaced for the
// next question.
//
// An answer is due after kKeepTime; that there is no such user, after kKeepNone; that the question
// failed, after kKeepFailure. A due answer is used for another kKeepAfterDue, and is looked up
// again in the background; it stays while that fails. After the helper could not be started, failed
// or did not answer, all questions without a kept answer fail at once for kKeepFailure. The log
// says when lookups fail and when they work again.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dafs::auth {

enum class IdKind : uint8_t { kUser, kGroup };

// A user with the ids that the kernel checks.
struct MappedUser {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;  // may contain `gid`; at most 32768
};

struct IdMapOptions {
  std::string helper = {};  // path of dafs-idmap
  // The ID-mapping domain (IsIdDomain). Empty: `Domain` of the configuration, or else the DNS
  // domain of this machine, or else "localdomain".
  std::string domain = {};
  // An absolute path. Neither it nor the directory of further files, `config`.d, need exist.
  std::string config = "/etc/idmapd.conf";
};

class IdMap {
 public:
  static constexpr absl::Duration kAnswerTime = absl::Seconds(10);
  static constexpr absl::Duration kKeepTime = absl::Minutes(10);
  static constexpr absl::Duration kKeepNone = absl::Minutes(1);
  static constexpr absl::Duration kKeepFailure = absl::Seconds(5);
  static constexpr absl::Duration kKeepAfterDue = absl::Hours(24);
  // The most answers that are kept. Beyond it, the ones that are due first are forgotten.
  static constexpr size_t kMostKept = 65536;

  // Starts nothing yet.
  explicit IdMap(IdMapOptions options);
  // Ends the helper. Questions that have no answer yet get kCancelled. Waits until calls that wait
  // for an answer have returned.
  ~IdMap();
  IdMap(const IdMap&) = delete;
  IdMap& operator=(const IdMap&) = delete;

  // Starts the helper now. A process that will forbid itself to start programs must call this
  // before, as dafsd must before Confine. Errors: kUnavailable: there is no helper, with the
  // reason.
  absl::Status Start();
  // Starts the thread that asks the helper. Otherwise the first question starts it, with the
  // identity of the thread that asks. For a server, whose threads take the identities of users.
  void StartThread();
  // Ends all questions with kCancelled.
  void Stop();
  const std::string& domain() const;  // of the options

  // Whether `text` is a name that has to be looked up: 1 to 1024 bytes, none of them a control
  // character, with an '@' that neither begins nor ends it. A number is none, nor is "OWNER@".
  static bool IsName(std::string_view text);

  // The results that Id and Name return without the helper; nullopt: ask. Such results are kept
  // answers, the error of a helper that has just failed, and kNotFound for a text that is no name.
  // Never block.
  std::optional<absl::StatusOr<uint32_t>> KeptId(IdKind kind, std::string_view name) const;
  std::optional<absl::StatusOr<std::string>> KeptName(IdKind kind, uint32_t id) const;

  // Answers, kept ones or those of the helper. Block for at most kAnswerTime after the questions
  // before this one were answered. Errors: kNotFound: there is no such user or group, or the name
  // is of another domain; kUnavailable: the helper failed or did not answer, with the reason and a
  // remedy; kCancelled. `Nobody-User` and `Nobody-Group` of the configuration have no effect.
  absl::StatusOr<uint32_t> Id(IdKind kind, std::string_view name);
  // "name@domain".
  absl::StatusOr<std::string> Name(IdKind kind, uint32_t id);
  // The user of a Kerberos principal, with all their groups. "root@REALM" of a local realm is uid
  // 0. Not kept. Errors: as above.
  absl::StatusOr<MappedUser> User(std::string_view principal);

  // Likewise without blocking: call `done` when KeptId or KeptName has the result. `done` is called
  // once, on a thread of this, or at once; at the latest by the destructor, where the result is
  // kCancelled. It must not block. There may be no result: after a Forget meanwhile, or because
  // thousands of questions wait. Ask again.
  void AskId(IdKind kind, std::string_view name, std::function<void()> done);
  void AskName(IdKind kind, uint32_t id, std::function<void()> done);

  // Forgets all answers: the configuration or the users may have changed. The next question ends
  // the process with libnfsidmap, so that the next one reads the configuration again.
  void Forget();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace dafs::auth

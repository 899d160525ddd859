// The messages between IdMap and its helper dafs-idmap: one packet each, over a socket of type
// SOCK_SEQPACKET. The helper gets one question at a time. Plug-ins of libnfsidmap and names of the
// network have a part in each message, so both ends check what they receive.
// Values and pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dafs::auth {

inline constexpr size_t kMostIdNameBytes = 1024;
// Half of what Linux permits: a packet with more exceeds the default buffer of a socket.
inline constexpr size_t kMostMappedGroups = 32768;
inline constexpr size_t kMostIdMessageBytes =
    kMostMappedGroups * sizeof(uint32_t) + 2 * kMostIdNameBytes;
// No user and no group has it: (uid_t)-1.
inline constexpr uint32_t kNoId = 0xffffffff;

// Whether `text` has 1 to 1024 bytes, none of them a control character, and an '@' that neither
// begins nor ends it.
bool IsIdName(std::string_view text);

struct IdQuestion {
  enum class Kind : uint32_t { kUserId, kGroupId, kUserName, kGroupName, kPrincipal };

  Kind kind = Kind::kUserId;
  uint32_t number = 0;  // its answer has the same
  // The helper reads its configuration again when this differs from the question before.
  uint32_t generation = 0;
  uint32_t id = 0;        // of kUserName, kGroupName
  std::string name = {};  // of the others
};

struct IdAnswer {
  enum class Outcome : uint32_t {
    kFound,
    kNone,         // no such user or group
    kFailed,       // this question has failed, for the reason `text`
    kUnavailable,  // any question would fail now, for the reason `text`
  };

  Outcome outcome = Outcome::kNone;
  uint32_t number = 0;
  uint32_t id = 0;
  uint32_t gid = 0;                   // of kPrincipal
  std::vector<uint32_t> groups = {};  // of kPrincipal
  std::string text = {};              // the name, or the reason
};

// The number of an encoded question or answer; 0 if it is too short to have one.
uint32_t NumberOf(std::string_view bytes);

std::string Encode(const IdQuestion& question);
// Shortens the reason of a failure to kMostIdNameBytes.
std::string Encode(const IdAnswer& answer);
// nullopt: not such a message. Names have been checked.
std::optional<IdQuestion> DecodeIdQuestion(std::string_view bytes);
// As above, and nullopt if it does not answer `question`. A reason is printable and bounded, since
// logs show it.
std::optional<IdAnswer> DecodeIdAnswer(const IdQuestion& question, std::string_view bytes);

}  // namespace dafs::auth

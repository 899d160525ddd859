// libnfsidmap, as the worker of dafs-idmap uses it. Its state is of the process: one object for a
// process, of one thread. All calls may block for as long as a plug-in does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "wire/auth/idmap/id_message.h"

namespace dafs::auth {

class IdLibrary {
 public:
  // Reads the configuration file `config` (an absolute path) with its further files `config`.d.
  // None of them need exist. `domain`, unless it is empty, is the Domain of [General], whatever
  // they say. kUnavailable: libnfsidmap refuses the configuration, with its reason.
  static absl::StatusOr<std::unique_ptr<IdLibrary>> Open(const std::string& domain,
                                                         const std::string& config);

  // Answers kNone also if the name is of another domain, and whatever `Nobody-User` is.
  IdAnswer Answer(const IdQuestion& question) const;

 private:
  explicit IdLibrary(std::string domain) : domain_(std::move(domain)) {}

  IdAnswer Id(const IdQuestion& question) const;
  IdAnswer Name(const IdQuestion& question) const;
  IdAnswer User(const IdQuestion& question) const;

  const std::string domain_;
};

}  // namespace dafs::auth

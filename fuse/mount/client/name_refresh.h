// Looks up the name of a living mount again and again, so that its addresses are those of the name
// service. While the service is away, the mount keeps those that it has. Spec: A.5-04. Belongs to
// the main thread; nothing blocks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/names/answers.h"
#include "client/names/name_query.h"
#include "fuse/options/options.h"
#include "wire/dat/address.h"

namespace dafs::fuse {

class NameRefresh {
 public:
  // `options`: of OptionsAt, and outlive this. `service`: that had the name; empty: not known.
  // `due`: when to look it up first.
  NameRefresh(const Options& options, std::string service, absl::Time due)
      : options_(options), service_(std::move(service)), due_(due) {}

  // Call Step when this is readable (-1: nothing is under way), and at the latest at `next`.
  int fd() const { return query_ != nullptr ? query_->fd() : -1; }
  absl::Time next() const { return query_ != nullptr ? query_->deadline() : due_; }
  // Returns the addresses that the mount should have, if they are not `current`.
  std::optional<std::vector<dat::Address>> Step(absl::Time now,
                                                const std::vector<dat::Address>& current);

  // The addresses that the mount should have after this answer: as Step. Logs what has changed.
  std::optional<std::vector<dat::Address>> Take(const absl::StatusOr<names::Answers>& answers,
                                                const std::vector<dat::Address>& current);

 private:
  const names::Answer* Choose(const names::Answers& answers, std::string* why) const;
  void Keep(const std::string& why);

  const Options& options_;
  std::string service_;
  absl::Time due_;
  absl::Duration pause_ = absl::Minutes(10);
  std::unique_ptr<names::NameQuery> query_;
  bool keeps_ = false;  // what it had, since the last answer was of no use
};

}  // namespace dafs::fuse

// Runs the helper dafs-names (names_main.cc) for one name. Belongs to one thread; only the
// destructor blocks, until the helper is killed.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/names/answers.h"
#include "runtime/files/unique_fd.h"
#include "runtime/helper_process.h"

namespace dafs::names {

// The helper is killed after this time. Three services and the resolving of hosts take less.
inline constexpr absl::Duration kMostQueryTime = absl::Seconds(40);

struct NameQueryOptions {
  std::string helper;  // the path of dafs-names
  std::string name;
  std::string conf;  // empty: the default
  bool all = false;  // queries all services, not only until one has the name
};

class NameQuery {
 public:
  // `now`: of Loop::Now. kFailedPrecondition: the helper cannot be started.
  static absl::StatusOr<std::unique_ptr<NameQuery>> Start(const NameQueryOptions& options,
                                                          absl::Time now);
  NameQuery(const NameQuery&) = delete;
  NameQuery& operator=(const NameQuery&) = delete;

  // Readable when Poll may return something.
  int fd() const { return output_.get(); }
  absl::Time deadline() const { return deadline_; }
  // nullopt: not finished. kUnavailable: the helper took too long or failed. kInvalidArgument: the
  // name or names.conf is wrong. Call it again only after nullopt.
  std::optional<absl::StatusOr<Answers>> Poll(absl::Time now);

 private:
  NameQuery() = default;
  absl::StatusOr<Answers> Finish();

  HelperProcess helper_;
  UniqueFd output_;
  absl::Time deadline_;
  std::string text_;
};

// Runs the query to its end. Blocks.
absl::StatusOr<Answers> RunNameQuery(const NameQueryOptions& options);

}  // namespace dafs::names

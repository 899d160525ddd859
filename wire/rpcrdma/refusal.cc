#include "wire/rpcrdma/refusal.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace dafs::rpcrdma {
namespace {

std::string Explain(const ErrorBody& error) {
  switch (error.code) {
    case ErrorCode::kVersion:
      return absl::StrCat("it speaks versions ", error.low, " to ", error.high);
    case ErrorCode::kBadXdr:
      return "it cannot decode the transport header, or takes no such chunks";
    case ErrorCode::kInvalidProcedure:
      return "it does not know the procedure of the transport header";
    case ErrorCode::kReadChunks:
      return absl::StrCat("it takes ", error.most, " read chunks");
    case ErrorCode::kWriteChunks:
      return absl::StrCat("it takes ", error.most, " write chunks");
    case ErrorCode::kSegments:
      return absl::StrCat("it takes ", error.most, " segments in a chunk");
    case ErrorCode::kWriteResource:
      return absl::StrCat("write chunk ", error.chunk_index, " needs ", error.length_needed,
                          " bytes");
    case ErrorCode::kReplyResource:
      return absl::StrCat("the reply chunk needs ", error.length_needed, " bytes");
    case ErrorCode::kInvalidOption:
      return "it does not know the optional operation";
    case ErrorCode::kSystem:
      return "a problem of its own";
  }
  return "unknown";
}

}  // namespace

absl::Status RefusalStatus(const ErrorBody& error) {
  return absl::FailedPreconditionError(
      absl::StrCat("the peer refused the call: ", ErrorName(error.code), ", ", Explain(error)));
}

}  // namespace dafs::rpcrdma

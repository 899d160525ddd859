// The tables of the Wireshark dissector: all procedures with the layout of their messages.
#pragma once

#include <string>

namespace dafs::wire::wireshark {

// Returns Lua source with these local variables:
//   statuses         {number = "DAFSERR_NOENT"}
//   lock_conflicts   {number = true}, the statuses with which LOCK and LOCKT describe a lock
//   enums            {"LockType" = {number = "Read"}}
//   file_attributes, fs_attributes    {{b=bit, s=size, a=alignment, f=field}}, ascending
//   procedures       {number = {name=, args_size=, res_size=, args={fields}, res={fields},
//                      carries={claim type of OPEN = {status = true}}}}: the layout of arguments
//                      and results, and the errors that carry a result. Claim 0 is for all others.
// Throws std::logic_error, which ends the step of the build, if a field list cannot be described,
// or contradicts the table of procedures.
std::string Tables();

}  // namespace dafs::wire::wireshark

// The standard streams of a process that has no terminal.
#pragma once

namespace dafs {

// Redirects standard input, output and error to /dev/null. Does nothing if that cannot be opened.
void RedirectStreamsToNull();

}  // namespace dafs

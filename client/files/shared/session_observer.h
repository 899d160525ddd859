// Learns when the session of a worker begins and ends. Files calls it on the thread of its loop.
#pragma once

namespace dafs::client {

class Session;

class SessionObserver {
 public:
  virtual ~SessionObserver() = default;
  // A session is established; its requests may be sent. Must not wait.
  virtual void SessionReady(Session& session) = 0;
  // The session ended by itself. Its outstanding requests have been resumed.
  virtual void SessionLost() = 0;
  // Everything ends now: there is no session any more, and none will follow.
  virtual void Shutdown() = 0;
};

}  // namespace dafs::client

// Messages that open, authenticate and close sessions, and register credentials.
// Spec: WIRE 9.4; draft 6.2.
// Values. Fields carry the specification's names, in its order; each struct lists them once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// DAFS_PROC_CLIENT_AUTH, spec 6.2.2.
struct ClientAuthArgs {
  static constexpr Proc kProc = Proc::kClientAuth;

  AuthReq auth_req;

  static void Fields(auto& m, auto& c) { c.Field("auth_req", m.auth_req); }
  friend bool operator==(const ClientAuthArgs&, const ClientAuthArgs&) = default;
};

struct ClientAuthRes {
  static constexpr Proc kProc = Proc::kClientAuth;

  AuthRes auth_res;
  bool trusted = false;

  static void Fields(auto& m, auto& c) {
    c.Field("auth_res", m.auth_res);
    c.Bool8("trusted", m.trusted);
  }
  friend bool operator==(const ClientAuthRes&, const ClientAuthRes&) = default;
};

// DAFS_PROC_CLIENT_CONNECT, spec 6.2.1.
struct ClientConnectArgs {
  static constexpr Proc kProc = Proc::kClientConnect;

  bool use_checksums = false;
  bool use_response_cache = false;
  uint32_t max_credentials = 0;  // 0: server default; likewise for the next fields
  uint32_t max_request_size = 0;
  uint32_t max_response_size = 0;
  uint32_t max_requests = 0;
  uint32_t inline_write_header_size = 0;
  bool use_back_control_channel = false;
  bool use_rdma_read_channel = false;
  std::string fence_id_string;  // empty: none
  std::string client_id_string;
  Verifier client_verifier;

  static void Fields(auto& m, auto& c) {
    c.Bool32("use_checksums", m.use_checksums);
    c.Bool32("use_response_cache", m.use_response_cache);
    c.Field("max_credentials", m.max_credentials);
    c.Field("max_request_size", m.max_request_size);
    c.Field("max_response_size", m.max_response_size);
    c.Field("max_requests", m.max_requests);
    c.Field("inline_write_header_size", m.inline_write_header_size);
    c.Bool32("use_back_control_channel", m.use_back_control_channel);
    c.Bool32("use_rdma_read_channel", m.use_rdma_read_channel);
    c.String("fence_id_string", m.fence_id_string, kFenceIdBound);
    c.OpaqueBytes("client_id_string", m.client_id_string, kOwnerBound, kRequired);
    c.Field("client_verifier", m.client_verifier);
  }
  friend bool operator==(const ClientConnectArgs&, const ClientConnectArgs&) = default;
};

struct ClientConnectRes {
  static constexpr Proc kProc = Proc::kClientConnect;

  SessionId session_id;
  ClientId client_id;
  bool use_checksums = false;
  bool use_response_cache = false;
  uint32_t max_credentials = 0;
  uint32_t max_request_size = 0;
  uint32_t max_response_size = 0;
  uint32_t max_requests = 0;
  uint32_t inline_write_header_size = 0;
  bool use_back_control_channel = false;
  bool use_rdma_read_channel = false;

  static void Fields(auto& m, auto& c) {
    c.Field("session_id", m.session_id);
    c.Field("client_id", m.client_id);
    c.Bool32("use_checksums", m.use_checksums);
    c.Bool32("use_response_cache", m.use_response_cache);
    c.Field("max_credentials", m.max_credentials);
    c.Field("max_request_size", m.max_request_size);
    c.Field("max_response_size", m.max_response_size);
    c.Field("max_requests", m.max_requests);
    c.Field("inline_write_header_size", m.inline_write_header_size);
    c.Bool32("use_back_control_channel", m.use_back_control_channel);
    c.Bool32("use_rdma_read_channel", m.use_rdma_read_channel);
  }
  friend bool operator==(const ClientConnectRes&, const ClientConnectRes&) = default;
};

// DAFS_PROC_CLIENT_CONNECT_AUTH, spec 6.2.4. CLIENT_CONNECT and CLIENT_AUTH in one.
struct ClientConnectAuthArgs {
  static constexpr Proc kProc = Proc::kClientConnectAuth;

  bool use_checksums = false;
  bool use_response_cache = false;
  uint32_t max_credentials = 0;  // 0: server default; likewise for the next fields
  uint32_t max_request_size = 0;
  uint32_t max_response_size = 0;
  uint32_t max_requests = 0;
  uint32_t inline_write_header_size = 0;
  bool use_back_control_channel = false;
  bool use_rdma_read_channel = false;
  std::string fence_id_string;  // empty: none
  std::string client_id_string;
  Verifier client_verifier;
  AuthReq auth_req;

  static void Fields(auto& m, auto& c) {
    c.Bool32("use_checksums", m.use_checksums);
    c.Bool32("use_response_cache", m.use_response_cache);
    c.Field("max_credentials", m.max_credentials);
    c.Field("max_request_size", m.max_request_size);
    c.Field("max_response_size", m.max_response_size);
    c.Field("max_requests", m.max_requests);
    c.Field("inline_write_header_size", m.inline_write_header_size);
    c.Bool32("use_back_control_channel", m.use_back_control_channel);
    c.Bool32("use_rdma_read_channel", m.use_rdma_read_channel);
    c.String("fence_id_string", m.fence_id_string, kFenceIdBound);
    c.OpaqueBytes("client_id_string", m.client_id_string, kOwnerBound, kRequired);
    c.Field("client_verifier", m.client_verifier);
    c.Field("auth_req", m.auth_req);
  }
  friend bool operator==(const ClientConnectAuthArgs&, const ClientConnectAuthArgs&) = default;
};

struct ClientConnectAuthRes {
  static constexpr Proc kProc = Proc::kClientConnectAuth;

  SessionId session_id;
  ClientId client_id;
  bool use_checksums = false;
  bool use_response_cache = false;
  uint32_t max_credentials = 0;
  uint32_t max_request_size = 0;
  uint32_t max_response_size = 0;
  uint32_t max_requests = 0;
  uint32_t inline_write_header_size = 0;
  bool use_back_control_channel = false;
  bool use_rdma_read_channel = false;
  AuthRes auth_res;
  bool trusted = false;

  static void Fields(auto& m, auto& c) {
    c.Field("session_id", m.session_id);
    c.Field("client_id", m.client_id);
    c.Bool32("use_checksums", m.use_checksums);
    c.Bool32("use_response_cache", m.use_response_cache);
    c.Field("max_credentials", m.max_credentials);
    c.Field("max_request_size", m.max_request_size);
    c.Field("max_response_size", m.max_response_size);
    c.Field("max_requests", m.max_requests);
    c.Field("inline_write_header_size", m.inline_write_header_size);
    c.Bool32("use_back_control_channel", m.use_back_control_channel);
    c.Bool32("use_rdma_read_channel", m.use_rdma_read_channel);
    c.Field("auth_res", m.auth_res);
    c.Bool8("trusted", m.trusted);
  }
  friend bool operator==(const ClientConnectAuthRes&, const ClientConnectAuthRes&) = default;
};

// DAFS_PROC_CONNECT_BIND, spec 6.2.5.
struct ConnectBindArgs {
  static constexpr Proc kProc = Proc::kConnectBind;

  SessionId session_id;
  ChannelUse channel_use = ChannelUse::kBackControl;
  uint32_t max_request_size = 0;
  uint32_t max_response_size = 0;
  uint32_t max_requests = 0;
  AuthReq auth_req;

  static void Fields(auto& m, auto& c) {
    c.Field("session_id", m.session_id);
    c.Field("channel_use", m.channel_use);
    c.Field("max_request_size", m.max_request_size);
    c.Field("max_response_size", m.max_response_size);
    c.Field("max_requests", m.max_requests);
    c.Field("auth_req", m.auth_req);
  }
  friend bool operator==(const ConnectBindArgs&, const ConnectBindArgs&) = default;
};

struct ConnectBindRes {
  static constexpr Proc kProc = Proc::kConnectBind;

  uint32_t max_request_size = 0;
  uint32_t max_response_size = 0;
  uint32_t max_requests = 0;
  AuthRes auth_res;
  bool trusted = false;

  static void Fields(auto& m, auto& c) {
    c.Field("max_request_size", m.max_request_size);
    c.Field("max_response_size", m.max_response_size);
    c.Field("max_requests", m.max_requests);
    c.Field("auth_res", m.auth_res);
    c.Bool8("trusted", m.trusted);
  }
  friend bool operator==(const ConnectBindRes&, const ConnectBindRes&) = default;
};

// DAFS_PROC_DISCONNECT, spec 6.2.6.
struct DisconnectArgs {
  static constexpr Proc kProc = Proc::kDisconnect;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const DisconnectArgs&, const DisconnectArgs&) = default;
};

struct DisconnectRes {
  static constexpr Proc kProc = Proc::kDisconnect;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const DisconnectRes&, const DisconnectRes&) = default;
};

// DAFS_PROC_REGISTER_CRED, spec 6.2.8.
struct RegisterCredArgs {
  static constexpr Proc kProc = Proc::kRegisterCred;

  CredType cred_type = CredType::kDefault;
  std::string name;             // kName: a user name; kGss: a mechanism-specific name
  int32_t uid = 0;              // kId
  int32_t gid = 0;              // kId
  std::vector<int32_t> groups;  // kId

  static void Fields(auto& m, auto& c) {
    c.Field("cred_type", m.cred_type);
    c.Union("cred_data", 12, 4, [&] {
      if (m.cred_type == CredType::kName) {
        c.String("name", m.name, kAuthBound, kRequired);
      } else if (m.cred_type == CredType::kId) {
        c.Field("uid", m.uid);
        c.Field("gid", m.gid);
        c.Array("groups", m.groups, kGroupsMax);
      } else if (m.cred_type == CredType::kGss) {
        c.OpaqueBytes("name", m.name, kGssBound, kRequired);
      }
    });
  }
  friend bool operator==(const RegisterCredArgs&, const RegisterCredArgs&) = default;
};

struct RegisterCredRes {
  static constexpr Proc kProc = Proc::kRegisterCred;

  CredHandle cred_handle;

  static void Fields(auto& m, auto& c) { c.Field("cred_handle", m.cred_handle); }
  friend bool operator==(const RegisterCredRes&, const RegisterCredRes&) = default;
};

// DAFS_PROC_RELEASE_CRED, spec 6.2.9.
struct ReleaseCredArgs {
  static constexpr Proc kProc = Proc::kReleaseCred;

  CredHandle cred_handle;

  static void Fields(auto& m, auto& c) { c.Field("cred_handle", m.cred_handle); }
  friend bool operator==(const ReleaseCredArgs&, const ReleaseCredArgs&) = default;
};

struct ReleaseCredRes {
  static constexpr Proc kProc = Proc::kReleaseCred;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const ReleaseCredRes&, const ReleaseCredRes&) = default;
};

// DAFS_PROC_SECINFO, spec 6.2.7.
struct SecinfoArgs {
  static constexpr Proc kProc = Proc::kSecinfo;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const SecinfoArgs&, const SecinfoArgs&) = default;
};

struct SecinfoRes {
  static constexpr Proc kProc = Proc::kSecinfo;

  std::vector<SecInfo> secinfo;

  static void Fields(auto& m, auto& c) { c.Array("secinfo", m.secinfo, kSecInfoMax); }
  friend bool operator==(const SecinfoRes&, const SecinfoRes&) = default;
};

// DAFS_PROC_SERVER_AUTH, spec 6.2.3.
struct ServerAuthArgs {
  static constexpr Proc kProc = Proc::kServerAuth;

  AuthType auth_type = AuthType::kNone;

  static void Fields(auto& m, auto& c) { c.Field("auth_type", m.auth_type); }
  friend bool operator==(const ServerAuthArgs&, const ServerAuthArgs&) = default;
};

struct ServerAuthRes {
  static constexpr Proc kProc = Proc::kServerAuth;

  AuthType auth_type = AuthType::kNone;
  std::string auth_id;        // kText
  std::string auth_password;  // kText

  static void Fields(auto& m, auto& c) {
    c.Field("auth_type", m.auth_type);
    c.Union("auth_data", 8, 4, [&] {
      if (m.auth_type == AuthType::kText) {
        c.String("auth_id", m.auth_id, kAuthBound);
        c.String("auth_password", m.auth_password, kAuthBound);
      }
    });
  }
  friend bool operator==(const ServerAuthRes&, const ServerAuthRes&) = default;
};

}  // namespace dafs::wire

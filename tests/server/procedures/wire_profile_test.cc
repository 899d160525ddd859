// The responses that WIRE defines. The requests are bytes laid out here by hand, not by our
// encoder, so that encoder and decoder cannot share a mistake.
#include <sys/xattr.h>

#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

constexpr uint32_t kCreate = 117, kLink = 126, kLookup = 130, kNull = 132, kOpen = 134,
                   kOpenattr = 136, kRemove = 143, kRename = 144, kGetattr = 124,
                   kWriteInline = 149, kClose = 115;

// A message: the header, a fixed section, and heap items in the order of the calls.
class Message {
 public:
  Message(wire::ByteOrder order, uint32_t procedure, size_t fixed_bytes) : order_(order) {
    bytes_.resize(40 + fixed_bytes);
    Number<uint32_t>(0, 0x44414653);
    Number<uint32_t>(4, 1);
    Number<uint32_t>(32, procedure);
  }
  template <class T>
  Message& Number(size_t at, T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      const size_t shift = order_ == wire::ByteOrder::kLittle ? i : sizeof(T) - 1 - i;
      bytes_[at + i] = static_cast<std::byte>(value >> (8 * shift));
    }
    return *this;
  }
  // U32, Raw and Handle write to the fixed section; `at` is an offset in it.
  Message& U32(size_t at, uint32_t value) { return Number<uint32_t>(40 + at, value); }
  Message& Raw(size_t at, std::span<const std::byte> raw) {
    std::memcpy(bytes_.data() + 40 + at, raw.data(), raw.size());
    return *this;
  }
  Message& Handle(size_t at, const wire::FileHandle& handle) {
    return Raw(at, std::as_bytes(std::span(handle.fshandle.bytes)))
        .Raw(at + 16, std::as_bytes(std::span(handle.fileid.bytes)));
  }
  // A string in the heap. The offset at `at` refers to it.
  Message& String(size_t at, std::string_view text) {
    U32(at, Item());
    Counted(text);
    return *this;
  }
  // A pathname of one component.
  Message& Path(size_t at, std::string_view component) {
    U32(at, Item());
    Append(1);
    Append(0);
    Counted(component);
    return *this;
  }
  // File attributes: MODE alone, or MODE and OBJECT_SIZE.
  Message& Mode(size_t at, uint32_t mode) {
    U32(at, Item());
    for (int twice = 0; twice < 2; ++twice) {
      const size_t end = bytes_.size();
      bytes_.resize(end + 8);
      Number<uint64_t>(end, 0x20);
    }
    Append(mode);
    Append(0);
    return *this;
  }
  Message& Data(std::string_view data) {
    for (const char c : data) bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  Bytes Finish(RawClient& client, wire::CredHandle credential) {
    while (bytes_.size() % 8 != 0) bytes_.push_back({});
    const wire::RequestHeader header = client.Header();
    Number<uint16_t>(14, header.seq_number);
    std::memcpy(bytes_.data() + 28, credential.bytes.data(), 4);
    Number<uint32_t>(36, static_cast<uint32_t>(bytes_.size()));
    return bytes_;
  }

 private:
  uint32_t Item() {
    while (bytes_.size() % 8 != 0) bytes_.push_back({});
    return static_cast<uint32_t>(bytes_.size() - 40);
  }
  void Append(uint32_t value) {
    const size_t end = bytes_.size();
    bytes_.resize(end + 4);
    Number<uint32_t>(end, value);
  }
  void Counted(std::string_view text) {
    Append(static_cast<uint32_t>(text.size()));
    Data(text);
  }

  wire::ByteOrder order_;
  Bytes bytes_;
};

struct Answer {
  std::string status;
  Bytes body;  // from message offset 40 on
  wire::FileHandle handle() const { return HandleAt(0); }
  wire::FileHandle HandleAt(size_t at) const {
    wire::FileHandle handle;
    std::memcpy(handle.fshandle.bytes.data(), body.data() + at, 16);
    std::memcpy(handle.fileid.bytes.data(), body.data() + at + 16, 48);
    return handle;
  }
};

// Each test runs in both byte orders.
class WireProfileTest : public ServerTest, public testing::WithParamInterface<wire::ByteOrder> {
 protected:
  void Start() {
    WriteFile("a/file", "x");
    StartServer();
    client_ = Session(ConnectArgs("c"), GetParam());
    ASSERT_NE(client_, nullptr);
    ActAsRoot(*client_);
    root_ = Root(*client_);
    a_ = LookUp(*client_, {"a"});
    file_ = LookUp(*client_, {"a", "file"});
  }
  Message Request(uint32_t procedure, size_t fixed_bytes) {
    return Message(GetParam(), procedure, fixed_bytes);
  }
  Answer Ask(Message message) { return Ask(std::move(message), client_->cred_handle); }
  Answer Ask(Message message, wire::CredHandle credential) {
    if (!client_->Send(message.Finish(*client_, credential))) return {"not sent", {}};
    const std::optional<Bytes> answer = client_->Receive();
    if (!answer) return {"closed", {}};
    const auto header = wire::DecodeResponseHeader(*answer, GetParam());
    if (!header.ok()) return {"no header", {}};
    return {std::string(wire::Name(header->header.status)),
            Bytes(answer->begin() + 40, answer->end())};
  }
  // OPEN with CLAIM_NULL and creation. The owner comes before the path.
  Message Create(const wire::FileHandle& directory, std::string_view name, uint32_t createmode,
                 uint32_t access) {
    Message message = Request(kOpen, 144);
    message.Handle(8, directory).U32(88, 1).U32(96, createmode).U32(120, access);
    return message.String(116, "owner").Path(72, name);
  }

  std::unique_ptr<RawClient> client_;
  wire::FileHandle root_, a_, file_;
};

INSTANTIATE_TEST_SUITE_P(Orders, WireProfileTest,
                         testing::Values(wire::ByteOrder::kLittle, wire::ByteOrder::kBig));

// Shows WIRE 2.2, 9.4 CREATE.
TEST_P(WireProfileTest, CreateOfAnUnsupportedTypeReturnsBadType) {
  Start();
  for (const uint32_t type : {0u, 1u, 8u, 9u, 10u, 99u, 0xffffffffu}) {
    SCOPED_TRACE(type);
    const auto create = [&](const wire::FileHandle& directory) {
      return Request(kCreate, 96).Handle(0, directory).U32(68, type).String(64, "new");
    };
    for (const wire::FileHandle& directory : {a_, root_, file_}) {
      EXPECT_EQ(Ask(create(directory)).status, "DAFSERR_BADTYPE");
    }
    EXPECT_EQ(Ask(create(a_).Mode(88, 0600)).status, "DAFSERR_BADTYPE");
    EXPECT_EQ(Ask(create(a_).String(72, "target")).status, "DAFSERR_BADTYPE");
  }
}

// Shows WIRE 7, 9.3, R46, and DAFS-7-11 for names.
TEST_P(WireProfileTest, NameOf1025BytesReturnsNameTooLong) {
  Start();
  for (const size_t size : {1024u, 1025u, 4000u}) {
    SCOPED_TRACE(size);
    const std::string name(size, 'n');
    EXPECT_EQ(Ask(Request(kCreate, 96).Handle(0, a_).U32(68, 2).String(64, name)).status,
              "DAFSERR_NAMETOOLONG");
    EXPECT_EQ(Ask(Request(kRemove, 72).Handle(0, a_).String(64, name)).status,
              "DAFSERR_NAMETOOLONG");
    EXPECT_EQ(Ask(Request(kLink, 136).Handle(0, file_).Handle(64, a_).String(128, name)).status,
              "DAFSERR_NAMETOOLONG");
    EXPECT_EQ(Ask(Request(kRename, 136)
                      .Handle(0, a_)
                      .Handle(64, a_)
                      .String(128, "file")
                      .String(132, name))
                  .status,
              "DAFSERR_NAMETOOLONG");
    const Answer lookup = Ask(Request(kLookup, 72).Handle(0, a_).Path(64, name));
    EXPECT_EQ(lookup.status, "DAFSERR_NAMETOOLONG");
    EXPECT_EQ(lookup.body, Bytes(72));  // component_count 0
    EXPECT_EQ(Ask(Create(a_, name, 0, 3)).status, "DAFSERR_NAMETOOLONG");
  }
}

// Shows WIRE 2.5 (R5): items may come in any order, and two offsets may refer to one item.
TEST_P(WireProfileTest, HeapItemsInAnotherOrderAreAccepted) {
  Start();
  EXPECT_EQ(Ask(Request(kRename, 136)
                    .Handle(0, a_)
                    .Handle(64, a_)
                    .String(132, "moved")
                    .String(128, "file"))
                .status,
            "DAFS_STATUS_OK");
  EXPECT_TRUE(std::filesystem::exists(Path("a/moved")));
  EXPECT_EQ(
      Ask(Request(kCreate, 96).Handle(0, a_).U32(68, 5).String(72, "target").String(64, "link"))
          .status,
      "DAFS_STATUS_OK");
  EXPECT_EQ(std::filesystem::read_symlink(Path("a/link")), "target");
  EXPECT_EQ(Ask(Create(a_, "new", 1, 3)).status, "DAFS_STATUS_OK");
  Message attributes_first = Request(kOpen, 144);
  attributes_first.Handle(8, a_).U32(88, 1).U32(96, 1).U32(120, 3).Mode(104, 0640);
  EXPECT_EQ(Ask(attributes_first.String(116, "owner").Path(72, "other")).status, "DAFS_STATUS_OK");
  struct stat st;
  ASSERT_EQ(stat(Path("a/other").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777u, 0640u);
  Message shared = Request(kRename, 136).Handle(0, a_).Handle(64, a_).String(128, "moved");
  EXPECT_EQ(Ask(shared.U32(132, 136)).status, "DAFS_STATUS_OK");
  EXPECT_TRUE(std::filesystem::exists(Path("a/moved")));
}

// Shows WIRE 3.1, 9.2 step 9.
TEST_P(WireProfileTest, UnknownCredHandleReturnsNoCreds) {
  Start();
  const wire::CredHandle unknown = {{'a', 'b', 'c', 'd'}};
  EXPECT_EQ(Ask(Request(kNull, 0), unknown).status, "DAFSERR_NO_CREDS");
  EXPECT_EQ(Ask(Request(kGetattr, 72).Handle(0, a_), unknown).status, "DAFSERR_NO_CREDS");
  EXPECT_EQ(Ask(Request(kNull, 0)).status, "DAFS_STATUS_OK");
}

// As for files, an existing attribute is opened, and a new one is created.
TEST_P(WireProfileTest, OpenCreatesANamedAttributeUnchecked) {
  Start();
  if (setxattr(Path("a/file").c_str(), "user.color", "green", 5, 0) != 0) {
    GTEST_SKIP() << "the file system has no extended attributes";
  }
  const Answer directory = Ask(Request(kOpenattr, 64).Handle(0, file_));
  ASSERT_EQ(directory.status, "DAFS_STATUS_OK");
  const auto close = [&](const Answer& open) {
    return Ask(Request(kClose, 72).Raw(0, std::span(open.body).first(72))).status;
  };
  // An existing attribute: the server ignores the attributes in the request, as for files.
  const Answer there = Ask(Create(directory.handle(), "user.color", 0, 3).Mode(104, 0600));
  EXPECT_EQ(there.status, "DAFS_STATUS_OK");
  EXPECT_EQ(close(there), "DAFS_STATUS_OK");
  char value[8];
  ASSERT_EQ(getxattr(Path("a/file").c_str(), "user.color", value, sizeof value), 5);
  // A new attribute, by an open for reading only too. It is usable before it is closed.
  const Answer fresh = Ask(Create(directory.handle(), "user.new", 0, 3).Mode(104, 0600));
  EXPECT_EQ(fresh.status, "DAFS_STATUS_OK");
  Message getattr = Request(kGetattr, 72).Handle(0, fresh.handle());
  EXPECT_EQ(Ask(getattr.Number<uint64_t>(40 + 64, 0x110)).status, "DAFS_STATUS_OK");
  EXPECT_EQ(close(fresh), "DAFS_STATUS_OK");
  EXPECT_EQ(getxattr(Path("a/file").c_str(), "user.new", value, sizeof value), 0);
  const Answer empty = Ask(Create(directory.handle(), "user.empty", 0, 1));
  EXPECT_EQ(empty.status, "DAFS_STATUS_OK");
  EXPECT_EQ(close(empty), "DAFS_STATUS_OK");
  EXPECT_EQ(getxattr(Path("a/file").c_str(), "user.empty", value, sizeof value), 0);
}

// Shows DAFS-4.1.4-02 (it is read-only), DAFS-7-11 (ROFS).
TEST_P(WireProfileTest, ChangingThePseudoFileSystemReturnsReadOnly) {
  Start();
  for (const uint32_t createmode : {0u, 1u, 2u}) {
    for (const char* name : {"a", "absent"}) {
      const Answer open = Ask(Create(root_, name, createmode, 3));
      EXPECT_EQ(open.status, "DAFSERR_ROFS") << name << " " << createmode;
    }
  }
  Message write = Request(kWriteInline, 96).Handle(0, root_).U32(80, 4).U32(84, 2).Data("data");
  EXPECT_EQ(Ask(std::move(write)).status, "DAFSERR_ROFS");
  EXPECT_EQ(Ask(Request(kCreate, 96).Handle(0, root_).U32(68, 2).String(64, "a")).status,
            "DAFSERR_ROFS");
  EXPECT_EQ(Ask(Request(kRemove, 72).Handle(0, root_).String(64, "a")).status, "DAFSERR_ROFS");
  for (const auto& [source, target] :
       {std::pair(root_, root_), std::pair(root_, a_), std::pair(a_, root_)}) {
    Message rename = Request(kRename, 136).Handle(0, source).Handle(64, target);
    EXPECT_EQ(Ask(rename.String(128, "a").String(132, "b")).status, "DAFSERR_ROFS");
  }
  EXPECT_EQ(Ask(Request(kLink, 136).Handle(0, file_).Handle(64, root_).String(128, "b")).status,
            "DAFSERR_ROFS");
}

}  // namespace
}  // namespace dafs::server

// The columns of wire/protocol/procedure_table.h against the messages.
#include "wire/protocol/procedure_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "wire/codec/layout.h"
#include "wire/messages/chain.h"
#include "wire/messages/messages.h"
#include "wire/protocol/inline_offset.h"

namespace dafs::wire {
namespace {

// Lays out the fixed section of a message, as the field list says.
struct Layout {
  size_t end = 0;
  size_t alignment = 1;
  std::vector<std::pair<size_t, const void*>> filehandles = {};  // offset and field

  size_t Place(size_t size, size_t align) {
    const size_t start = internal::AlignUp(end, align);
    alignment = std::max(alignment, align);
    end = start + size;
    return start;
  }
  template <class T>
  void Field(const char*, const T& value) {
    if constexpr (std::is_class_v<T>) {
      const size_t at = Place(T::kWireSize, T::kWireAlign);
      if (std::is_same_v<T, FileHandle>) filehandles.emplace_back(at, &value);
    } else {
      Place(sizeof(internal::WireInt<T>), sizeof(internal::WireInt<T>));
    }
  }
  void Bool32(const char*, bool) { Place(4, 4); }
  void Bool8(const char*, bool) { Place(1, 1); }
  void Pad32(const char*) { Place(4, 4); }
  // The arm of a message with default values. It writes into this layout.
  void Union(const char*, size_t size, size_t align, const auto& arm) {
    const size_t start = Place(size, align);
    end = start;
    arm();
    end = start + size;
  }
  void StatusUnion(const char*, size_t size, size_t align, const auto&) { Place(size, align); }
  void WhenOk(size_t size, size_t align, const auto&) { Place(size, align); }
  // Fields of four bytes: the offset of what is in the heap.
  void String(auto&&...) { Place(4, 4); }
  void OpaqueBytes(auto&&...) { Place(4, 4); }
  void Name(auto&&...) { Place(4, 4); }
  void Path(auto&&...) { Place(4, 4); }
  void Fences(auto&&...) { Place(4, 4); }
  void Array(auto&&...) { Place(4, 4); }
  void Attributes(auto&&...) { Place(4, 4); }
};

template <class Message>
Layout LayoutOf(Message& message) {
  Layout layout;
  Message::Fields(message, layout);
  layout.end = internal::AlignUp(layout.end, layout.alignment);
  return layout;
}

TEST(ProcedureTableTest, NumbersAreSortedAndOthersAreNotFound) {
  auto row = kProcedures.begin();
  for (uint32_t number = 0; number < 3000; ++number) {
    const ProcInfo* found = FindProc(static_cast<Proc>(number));
    if (row != kProcedures.end() && static_cast<uint32_t>(row->number) == number) {
      EXPECT_EQ(found, &*row++) << number;
    } else {
      EXPECT_EQ(found, nullptr) << number;
    }
  }
  EXPECT_EQ(row, kProcedures.end());
  for (const uint32_t number : {0x80000000u, ~0u - 99u, ~0u}) {
    EXPECT_EQ(FindProc(static_cast<Proc>(number)), nullptr) << number;
  }
  EXPECT_EQ(Name(Proc::kReadDirect), "READ_DIRECT");
}

TEST(ProcedureTableTest, SizesAreThoseOfTheFields) {
  for (const ProcInfo& info : kProcedures) {
    VisitProc(info.number, [&]<Proc kProc>() {
      typename ProcTraits<kProc>::Args args;
      typename ProcTraits<kProc>::Res res;
      EXPECT_EQ(info.args_size, LayoutOf(args).end) << info.name;
      EXPECT_EQ(info.res_size, LayoutOf(res).end) << info.name;
    });
  }
}

// A server finds the export of a request by these places, before it decodes the request.
TEST(ProcedureTableTest, FileHandlesAreWhereTheTableSays) {
  for (const ProcInfo& info : kProcedures) {
    if (info.filehandles == FileHandles::kNone) continue;
    VisitProc(info.number, [&]<Proc kProc>() {
      typename ProcTraits<kProc>::Args args;
      const auto found = LayoutOf(args).filehandles;
      ASSERT_EQ(found.size(), info.filehandles == FileHandles::kTwo ? 2 : 1) << info.name;
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].first, FileHandleOffset(info.filehandles) + i * FileHandle::kWireSize)
            << info.name;
      }
      const void* chained = ChainFileHandle(args);
      EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&](const auto& each) {
        return each.second == chained;
      })) << info.name;
    });
  }
}

// Some functions name the procedures that concern them, and have a default for all others. A new
// procedure that modifies something is decided in each of them, then added here.
TEST(ProcedureTableTest, EveryChangeHasBeenDecided) {
  const std::set<std::string_view> decided = {
      "ALLOCATE",       "APPEND_DIRECT",  "APPEND_INLINE",  "BATCH_SUBMIT",   "CLOSE",
      "COMMIT",         "COPY_RANGE",     "CREATE",         "DELEGPURGE",     "DELEGRETURN",
      "HURRY_UP",       "LINK",           "LOCK",           "LOCKT",          "LOCKU",
      "MAKE_NODE",      "OPEN",           "OPEN_DELEGATED", "OPEN_DOWNGRADE", "OPEN_EXECUTE",
      "OPEN_HANDLE",    "OPEN_OWNER",     "REMOVE",         "RENAME",         "RENAME2",
      "SETATTR_DIRECT", "SETATTR_INLINE", "WRITE_DIRECT",   "WRITE_INLINE"};
  for (const ProcInfo& row : kProcedures) {
    if (!ModifiesState(row.category)) continue;
    EXPECT_TRUE(decided.contains(row.name))
        << row.name << ": see Executed (server/store/procedures/recheck.cc), MakeAnswer "
        << "(server/clients/recovery.cc), ClassOf (server/session/audited_requests.cc), IsOfData "
        << "(client/recovery/calls/chain_members.cc), IsRecorded (client/exchange/in_flight.cc) "
           "and "
        << "OtherFileHandle (wire/messages/chain.h)";
  }
}

// The offsets that WIRE R12 gives.
TEST(ProcedureTableTest, InlineDataFollowsTheFixedSection) {
  EXPECT_EQ(EndOfRes(Proc::kReadInline), 48u);
  EXPECT_EQ(EndOfArgs(Proc::kWriteInline), 136u);
  EXPECT_EQ(EndOfArgs(Proc::kAppendInline), 128u);
}

}  // namespace
}  // namespace dafs::wire

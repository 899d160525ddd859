// A slot of the journal that a power loss has torn, sector by sector.
#include "server/store/durable/journal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dafs::server {
namespace {

using wire::DafsStatus;
using wire::Proc;

constexpr size_t kSector = 512;
constexpr size_t kSectors = JournalSlot::kBytes / kSector;
using Image = std::array<std::byte, JournalSlot::kBytes>;

class JournalTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/dafs-journal-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    auto file = MappedFile::Create(directory_ + "/slots", JournalSlot::kBytes);
    ASSERT_TRUE(file.ok()) << file.status();
    file_.emplace(*std::move(file));
    slot_ = reinterpret_cast<JournalSlot*>(file_->bytes().data());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // Begin, Execute and Answer run the steps of a REMOVE of `name` by the request `seq`. They add a
  // copy of the slot to `images` whenever it may reach the device: a sync of the page's other slot
  // writes it too.
  void Keep(std::vector<Image>& images) {
    Image& image = images.emplace_back();
    std::memcpy(image.data(), slot_, image.size());
  }
  void Begin(uint16_t seq, const std::string& name, std::vector<Image>& images) {
    operation_.emplace(*slot_, &*file_, /*store=*/nullptr, seq, Proc::kRemove);
    Intent& intent = operation_->Prepare();
    Keep(images);
    Intent::SetName(intent.name, name);
    intent.before = 100u + seq;
    intent.object.fileid.bytes.fill(static_cast<uint8_t>(seq));
    Keep(images);
    operation_->Begin();
    Keep(images);
  }
  void Execute(uint16_t seq, std::vector<Image>& images) {
    operation_->result().after = 200u + seq;
    Keep(images);
    operation_->Done(DafsStatus::kOk, std::span<const int>());
    Keep(images);
  }
  void Answer(uint16_t seq, std::vector<Image>& images) {
    std::array<std::byte, 900> response;
    response.fill(static_cast<std::byte>(seq));
    slot_->Answer(seq, Proc::kRemove, DafsStatus::kOk, response, /*summed=*/true);
    Keep(images);
  }

  // Calls the check for every slot whose sectors each come from one of `images`, after Mend.
  template <class Check>
  static void ForEachTear(const std::vector<Image>& images, Check check) {
    size_t count = 1;
    for (size_t i = 0; i < kSectors; ++i) count *= images.size();
    for (size_t number = 0; number < count; ++number) {
      alignas(JournalSlot) Image torn;
      size_t rest = number;
      for (size_t sector = 0; sector < kSectors; ++sector, rest /= images.size()) {
        std::memcpy(&torn[sector * kSector], &images[rest % images.size()][sector * kSector],
                    kSector);
      }
      auto* slot = reinterpret_cast<JournalSlot*>(torn.data());
      slot->Mend();
      check(*slot);
    }
  }

  // Expects that the slot describes the request `seq` correctly, in any of its steps.
  static void ExpectTrue(const JournalSlot& slot, uint16_t seq, const std::string& name) {
    EXPECT_EQ(slot.seq_number, seq);
    EXPECT_EQ(slot.status, DafsStatus::kOk);
    switch (slot.state.load()) {
      case SlotState::kAnswered:
        EXPECT_EQ(slot.response_bytes, 900u);
        EXPECT_TRUE(std::all_of(slot.response, slot.response + 900,
                                [seq](std::byte b) { return b == static_cast<std::byte>(seq); }));
        break;
      case SlotState::kExecuted:
        EXPECT_EQ(slot.result.after, 200u + seq);
        EXPECT_EQ(slot.result.before, 100u + seq);
        [[fallthrough]];
      case SlotState::kIntent:
        EXPECT_EQ(slot.intent.name, name);
        EXPECT_EQ(slot.intent.before, 100u + seq);
        break;
      default:
        ADD_FAILURE() << "forgotten";
    }
  }

  std::string directory_;
  std::optional<MappedFile> file_;
  JournalSlot* slot_ = nullptr;
  std::optional<Operation> operation_;
};

TEST_F(JournalTest, TornSlotKeepsIntentOfStartedRequest) {
  std::vector<Image> images;
  Begin(7, "old", images);
  Execute(7, images);
  Answer(7, images);
  images.clear();
  Begin(8, "new", images);
  images = {images.back()};  // stable after Begin
  Execute(8, images);
  Answer(8, images);
  ForEachTear(images, [](const JournalSlot& slot) { ExpectTrue(slot, 8, "new"); });
}

// Shows DAFS-5.2.4-01, DAFS-5.2.4-03.
TEST_F(JournalTest, TornSlotKeepsExecutedRequest) {
  std::vector<Image> images;
  Begin(8, "new", images);
  Execute(8, images);
  images = {images.back()};
  Answer(8, images);
  ForEachTear(images, [](const JournalSlot& slot) { ExpectTrue(slot, 8, "new"); });
}

// The stream is used again, so the client has the answer to 7. 8 does not begin before its intent
// is stable.
TEST_F(JournalTest, TornSlotDoesNotShowUnstartedRequestAsStarted) {
  for (const bool answer_is_stable : {false, true}) {
    std::vector<Image> images;
    Begin(7, "old", images);
    Execute(7, images);
    if (!answer_is_stable) images = {images.back()};
    Answer(7, images);
    if (answer_is_stable) images = {images.back()};
    Begin(8, "new", images);
    ForEachTear(images, [](const JournalSlot& slot) {
      if (slot.state.load() == SlotState::kEmpty) return;
      ExpectTrue(slot, slot.seq_number, slot.seq_number == 7 ? "old" : "new");
    });
  }
}

}  // namespace
}  // namespace dafs::server

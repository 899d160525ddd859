// The exports of a server. A reload changes them while requests run. An export has the same index
// as long as the server runs, also after it was removed, because handles, objects and locks refer
// to it. Options that a reload replaces are kept until the end: a request may still read them.
//
// Reads are thread-safe and cost one atomic load. A request that runs during a reload may see the
// options before and after it, in this order. Set and Add: one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "server/store/objects/export.h"

namespace dafs::server {

// The present options of one export. A value; refers to the ExportSet.
class ExportRef {
 public:
  ExportRef() = default;
  explicit ExportRef(const std::atomic<const Export*>& slot) : slot_(&slot) {}

  const Export* operator->() const { return slot_->load(std::memory_order_acquire); }
  const Export& operator*() const { return *slot_->load(std::memory_order_acquire); }

 private:
  const std::atomic<const Export*>* slot_ = nullptr;  // publishes what it points to
};

class ExportSet {
 public:
  // How many different exports reloads may add.
  static constexpr size_t kRoom = 1024;

  explicit ExportSet(std::vector<Export> exports);

  // Indices are below this; tables by export have as many entries.
  size_t capacity() const { return slots_.size(); }
  // The indices in use: 0 to size() - 1. They include removed exports.
  size_t size() const { return size_.load(std::memory_order_acquire); }

  ExportRef At(size_t index) const { return ExportRef(slots_[index]); }
  const Export& operator[](size_t index) const { return *At(index); }
  // The exports that are not removed. Each stays valid as long as the set.
  std::vector<const Export*> Served() const;

  // The index that an export with this name and directory has, or had.
  std::optional<size_t> Find(std::string_view name, std::string_view directory) const;
  // Replaces the options of an export.
  void Set(size_t index, Export options);
  // Returns the index of a new export; nullopt if there is no room.
  std::optional<size_t> Add(Export options);

 private:
  const Export* Keep(Export options);

  std::vector<std::atomic<const Export*>> slots_;
  std::atomic<size_t> size_;  // publishes the slots below it
  std::vector<std::unique_ptr<const Export>> all_;
};

// Returns a function of the index of an export: the value of its attribute 30 now. Borrows
// `exports`.
inline auto LocationsNow(const ExportSet& exports) {
  return [&exports](size_t index) {
    const Export& now = exports[index];
    return AttributeOf(now.name, now.failover);
  };
}

}  // namespace dafs::server

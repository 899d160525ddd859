#include "server/store/objects/export_set.h"

#include <utility>

namespace dafs::server {

ExportSet::ExportSet(std::vector<Export> exports)
    : slots_(exports.size() + kRoom), size_(exports.size()) {
  for (size_t i = 0; i < exports.size(); ++i) slots_[i] = Keep(std::move(exports[i]));
}

const Export* ExportSet::Keep(Export options) {
  all_.push_back(std::make_unique<const Export>(std::move(options)));
  return all_.back().get();
}

std::vector<const Export*> ExportSet::Served() const {
  std::vector<const Export*> served;
  for (size_t i = 0; i < size(); ++i) {
    const Export& each = (*this)[i];
    if (!each.removed) served.push_back(&each);
  }
  return served;
}

std::optional<size_t> ExportSet::Find(std::string_view name, std::string_view directory) const {
  for (size_t i = 0; i < size(); ++i) {
    const Export& each = (*this)[i];
    if (each.name == name && each.directory == directory) return i;
  }
  return std::nullopt;
}

void ExportSet::Set(size_t index, Export options) {
  slots_[index].store(Keep(std::move(options)), std::memory_order_release);
}

std::optional<size_t> ExportSet::Add(Export options) {
  const size_t index = size();
  if (index == capacity()) return std::nullopt;
  Set(index, std::move(options));
  size_.store(index + 1, std::memory_order_release);
  return index;
}

}  // namespace dafs::server

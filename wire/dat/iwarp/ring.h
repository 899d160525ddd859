// A first-in first-out queue of fixed capacity, allocated once, so that the data path does not call
// the allocator. Not thread-safe.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace dafs::dat::iwarp {

template <typename T>
class Ring {
 public:
  explicit Ring(size_t capacity) : items_(capacity) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == items_.size(); }

  // The caller must check full() before push_back, and empty() before the others.
  void push_back(T item) {
    items_[Wrap(first_ + size_)] = std::move(item);
    ++size_;
  }
  T& front() { return items_[first_]; }
  const T& front() const { return items_[first_]; }
  T& operator[](size_t i) { return items_[Wrap(first_ + i)]; }
  const T& operator[](size_t i) const { return items_[Wrap(first_ + i)]; }
  T pop_front() {
    T item = std::move(items_[first_]);
    first_ = Wrap(first_ + 1);
    --size_;
    return item;
  }
  void clear() {
    while (!empty()) pop_front();
  }

 private:
  size_t Wrap(size_t i) const { return i < items_.size() ? i : i - items_.size(); }
  std::vector<T> items_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace dafs::dat::iwarp

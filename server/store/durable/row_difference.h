// Which rows of a table must be deleted and inserted so that a set of rows is stored: a change of
// one costs a write of one, however many there are. Computes only. Values; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace dafs::server {

// `Row` has the values of a row, and an order.
template <class Row>
struct RowDifference {
  std::vector<int64_t> gone;  // rowid of each stored row that is not wanted
  std::vector<Row> added;     // wanted rows that are not stored
};

// `stored`: the rows of the table with their rowid. Equal rows count one by one.
template <class Row>
RowDifference<Row> DifferenceOf(std::vector<std::pair<Row, int64_t>> stored,
                                std::vector<Row> wanted) {
  RowDifference<Row> difference;
  std::sort(stored.begin(), stored.end());
  std::sort(wanted.begin(), wanted.end());
  size_t at = 0;
  for (Row& row : wanted) {
    for (; at < stored.size() && stored[at].first < row; ++at) {
      difference.gone.push_back(stored[at].second);
    }
    if (at < stored.size() && stored[at].first == row) {
      ++at;
    } else {
      difference.added.push_back(std::move(row));
    }
  }
  for (; at < stored.size(); ++at) difference.gone.push_back(stored[at].second);
  return difference;
}

}  // namespace dafs::server

#include "common/table.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "common/measure.h"
#include "common/wrap.h"

namespace examples {
namespace {

// "12", "+1.5", "1,024", "3.2 ms": a number, and at most one word after it.
bool is_number(const std::string& cell) {
  const std::string first = cell.substr(0, cell.find(' '));
  return std::ranges::count(cell, ' ') <= 1 &&
         first.find_first_of("0123456789") != std::string::npos &&
         first.find_first_not_of("0123456789.,e+-") == std::string::npos;
}

}  // namespace

Cell time_cell(double seconds) { return {time_text(seconds), fmt::format("{:.6g}", seconds)}; }
Cell count_cell(double n) { return {count_text(n), fmt::format("{:.0f}", n)}; }
Cell number_cell(double value, const char* as_people) {
  return {fmt::format(fmt::runtime(as_people), value), fmt::format("{:.6g}", value)};
}
Cell yes_no(bool yes) { return yes ? "yes" : "no"; }

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  columns_.push_back({"", "emulated"});
  columns_.push_back({"", "modelled"});
}

void Table::add(std::vector<Cell> row, const std::vector<locus::Context>& measured_on) {
  if (row.size() + 2 != columns_.size())
    throw std::invalid_argument(
        fmt::format("a row of {} cells in a table of {}", row.size(), columns_.size() - 2));
  bool is_emulated = false, modelled = false;
  for (const locus::Context c : measured_on) {
    is_emulated = is_emulated || emulated(c);
    modelled = modelled || locus::context_info(c).modelled;
  }
  rows_.push_back(std::move(row));
  rows_.back().push_back(yes_no(is_emulated));
  rows_.back().push_back(yes_no(modelled));
}

std::vector<Table::Row> Table::rows_of(std::string Column::*title, std::string Cell::*cell) const {
  std::vector<Row> rows(rows_.size() + 1);
  for (size_t i = 0; i < columns_.size(); ++i) {
    if ((columns_[i].*title).empty()) continue;
    rows[0].push_back(columns_[i].*title);
    for (size_t r = 0; r < rows_.size(); ++r) rows[r + 1].push_back(rows_[r][i].*cell);
  }
  return rows;
}

std::string Table::aligned() const {
  const std::vector<Row> rows = rows_of(&Column::title, &Cell::text);
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], characters(row[i]));
  const auto number = [&](size_t column) {
    return std::any_of(rows.begin() + 1, rows.end(),
                       [column](const Row& row) { return is_number(row[column]); });
  };
  std::string s;
  const auto add_row = [&](const Row& row) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - characters(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (number(i) ? space + row[i] : row[i] + space);
    }
    s += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  };
  add_row(rows[0]);
  for (size_t i = 0; i < widths.size(); ++i)
    s += (i == 0 ? "" : "  ") + std::string(widths[i], '-');
  s += '\n';
  for (size_t r = 1; r < rows.size(); ++r) add_row(rows[r]);
  return s;
}

std::string Table::csv() const {
  std::string s;
  for (const Row& row : rows_of(&Column::name, &Cell::exact)) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool quote = row[i].find_first_of(",\"\n") != std::string::npos;
      std::string cell = row[i];
      for (size_t at = 0; quote && (at = cell.find('"', at)) != std::string::npos; at += 2) {
        cell.insert(at, 1, '"');
      }
      s += (i == 0 ? "" : ",") + (quote ? '"' + cell + '"' : cell);
    }
    s += '\n';
  }
  return s;
}

}  // namespace examples

// Tables of results, printed for people and as CSV.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <locus/core/context.h>

namespace examples {

// A value as printed and in CSV.
struct Cell {
  std::string text, exact;

  Cell(const char* both) : text(both), exact(both) {}
  Cell(const std::string& both) : text(both), exact(both) {}
  Cell(std::string for_people, std::string for_programs)
      : text(std::move(for_people)), exact(std::move(for_programs)) {}
};
Cell time_cell(double seconds);                         // "3.21 ms" and 0.00321
Cell count_cell(double n);                              // "1,048,576" and 1048576
Cell number_cell(double value, const char* as_people);  // fmt's format; CSV: six digits
Cell yes_no(bool yes);

struct Column {
  std::string title;  // in print; empty: not printed
  std::string name;   // in CSV; empty: not in CSV

  Column(const char* both) : title(both), name(both) {}
  Column(const std::string& both) : title(both), name(both) {}
  Column(std::string for_people, std::string for_programs)
      : title(std::move(for_people)), name(std::move(for_programs)) {}
};

// Results in columns: aligned in print, comma-separated in CSV. Columns with numbers are
// right-aligned. CSV has two more columns, `emulated` and `modelled`: whether any context of the
// row is.
class Table {
 public:
  explicit Table(std::vector<Column> columns);
  // std::invalid_argument for a wrong number of cells.
  void add(std::vector<Cell> row, const std::vector<locus::Context>& measured_on);
  void add(std::vector<Cell> row, locus::Context measured_on) {
    add(std::move(row), std::vector{measured_on});
  }
  std::string aligned() const;
  std::string csv() const;

 private:
  using Row = std::vector<std::string>;
  // The header and the rows of the columns that have such a title.
  std::vector<Row> rows_of(std::string Column::*title, std::string Cell::*cell) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace examples

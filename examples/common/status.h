// Shows a program's progress.
#pragma once

#include <string>

namespace examples {

// Whether the file is a terminal and this process draws there alone. False under an MPI or Slurm
// launcher, whose ranks share a terminal.
bool draws_on(int file);

// A status line on stderr that is erased later. If draws_on(stderr) is false, only stages are
// printed, one line each.
class Status {
 public:
  Status();
  ~Status() { clear(); }
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;

  void stage(const std::string& text);  // a long step, also printed to logs
  void show(const std::string& text);   // replaces the line
  void clear();                         // call it before other output

 private:
  bool draws_, drawn_ = false;
};

}  // namespace examples

// What a program is at, for who waits.
#pragma once

#include <string>

namespace examples {

// Whether a person watches what is written to that file, and this process alone draws there: ranks
// that a launcher started share one terminal, and what they have looks like one of their own.
bool draws_on(int file);

// A line on stderr that is wiped when its time is over; where draws_on(stderr) is false, one that
// stays for each stage.
class Status {
 public:
  Status();
  ~Status() { clear(); }
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;

  void stage(const std::string& text);  // what takes long enough to be told of in a log, too
  void show(const std::string& text);   // in place of what was shown before
  void clear();                         // before anything else is printed

 private:
  bool draws_, drawn_ = false;
};

}  // namespace examples

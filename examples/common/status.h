// What a program is at, for who waits.
#pragma once

#include <string>

namespace examples {

// Whether a person watches what is written to that file, and this process alone draws there: ranks
// that a launcher started share one terminal, and what they have looks like one of their own.
bool draws_on(int file);

// A line on stderr that is wiped when its time is over; none where draws_on(stderr) is false.
class Status {
 public:
  Status();
  ~Status() { clear(); }
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;

  void show(const std::string& text);  // in place of what was shown before
  void clear();                        // before anything else is printed

 private:
  bool draws_, drawn_ = false;
};

}  // namespace examples

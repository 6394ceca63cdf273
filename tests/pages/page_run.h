// What the tests of pages share: the folder that code of a page runs in, and checks of what the
// page shows. tests/pages/pages.awk writes the tests.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>

#include "tests/support/contexts.h"
#include "tests/support/folder.h"

namespace locus::test {

// While it lives, the current folder is a new one, which holds a small data/mnist, and std::cout is
// captured.
class PageRun : NonCopyable {
 public:
  PageRun();
  ~PageRun();

  // Compares what was printed since the last call with the page's text: word by word, numbers up to
  // 5 % or 0.02. Places in a file may differ. With `vary`, for reports of times on emulated GPUs:
  // whether what was printed has the page's words, whatever their numbers and order.
  void expect(const std::string& text, bool vary);

 private:
  const Folder folder_;
  const std::filesystem::path before_;
  std::ostringstream printed_;
  std::streambuf* const out_;
};

// Whether the file has the text's lines, in this order: comments and blank lines apart.
void expect_excerpt(const std::string& file, const std::string& text);
// Whether this file or folder of the project exists; whether there is a program of this name.
void expect_path(const std::string& path);
void expect_program(const std::string& name);

}  // namespace locus::test

// What tests of pages compare, and the pages themselves: their tests are made by pages.awk.
#include "tests/pages/page_run.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <regex>
#include <vector>

#include <gtest/gtest-spi.h>

namespace locus::test {
namespace {

namespace fs = std::filesystem;

std::string project(const std::string& path) { return LOCUS_TEST_DATA "/../../" + path; }

std::string big_endian(uint32_t v) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(v >> shift);
  return bytes;
}

// A class has one bright row, so that a network learns it in a few steps.
void write_digits(const std::string& name, uint32_t n) {
  fs::create_directories("data/mnist");
  std::ofstream images("data/mnist/" + name + "-images-idx3-ubyte", std::ios::binary);
  std::ofstream labels("data/mnist/" + name + "-labels-idx1-ubyte", std::ios::binary);
  images << big_endian(0x803) << big_endian(n) << big_endian(28) << big_endian(28);
  labels << big_endian(0x801) << big_endian(n);
  for (uint32_t i = 0; i < n; ++i) {
    std::string image(784, '\0');
    for (size_t k = 0; k < 28; ++k) image[i % 10 * 56 + k] = static_cast<char>(200);
    images << image;
    labels << static_cast<char>(i % 10);
  }
}

std::vector<std::string> words(std::string text, bool vary) {
  text = std::regex_replace(text, std::regex(R"([\w./]+\.(cc|md):\d+)"), "PLACE");
  if (vary) {
    text = std::regex_replace(text, std::regex(R"(\d+(\.\d+)?(e[-+]?\d+)?)"), "N");
    text = std::regex_replace(text, std::regex(R"(N (ms|µs|s)\b)"), "N time");
  }
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// A number, and what stands around it.
bool equal_words(const std::string& a, const std::string& b) {
  static const std::regex number(R"(-?\d+(\.\d*)?(e[-+]?\d+)?)");
  if (std::regex_replace(a, number, "#") != std::regex_replace(b, number, "#")) return false;
  const std::sregex_iterator end;
  for (std::sregex_iterator i(a.begin(), a.end(), number), j(b.begin(), b.end(), number); i != end;
       ++i, ++j) {
    const double x = std::stod(i->str()), y = std::stod(j->str());
    if (std::fabs(x - y) > std::max(.02, .05 * std::fabs(x))) return false;
  }
  return true;
}

std::vector<std::string> lines_of_code(std::istream& in) {
  std::vector<std::string> all;
  for (std::string line; std::getline(in, line);) {
    line = std::regex_replace(line, std::regex(R"(^//.*|\s//.*)"), "");
    line = std::regex_replace(line, std::regex(R"(^\s+|\s+$)"), "");
    if (!line.empty()) all.push_back(line);
  }
  return all;
}

// Whether `line` is the other's text, where "..." in it stands for any.
bool fits(const std::string& line, const std::string& other) {
  const size_t at = line.find("...");
  if (at == std::string::npos || other.size() < line.size() - 3) return line == other;
  return other.starts_with(line.substr(0, at)) && other.ends_with(line.substr(at + 3));
}

}  // namespace

PageRun::PageRun() : before_(fs::current_path()), out_(std::cout.rdbuf(printed_.rdbuf())) {
  fs::current_path(folder_.path);
  write_digits("train", 640);
  write_digits("t10k", 100);
}
PageRun::~PageRun() {
  std::cout.rdbuf(out_);
  fs::current_path(before_);
}

void PageRun::expect(const std::string& text, bool vary) {
  const std::string got = printed_.str();
  printed_.str("");
  std::vector<std::string> found = words(got, vary), wanted = words(text, vary);
  if (vary) {
    std::erase(wanted, "...");
    std::ranges::sort(found);
    std::ranges::sort(wanted);
    EXPECT_TRUE(!emulated_gpus() || std::ranges::includes(found, wanted))
        << "the page shows\n"
        << text << "and its code prints\n"
        << got;
    return;
  }
  bool same = found.size() == wanted.size();
  for (size_t i = 0; same && i < found.size(); ++i) same = equal_words(found[i], wanted[i]);
  EXPECT_TRUE(same) << "the page shows\n" << text << "and its code prints\n" << got;
}

void expect_excerpt(const std::string& file, const std::string& text) {
  std::ifstream source(project(file));
  ASSERT_TRUE(source) << file;
  std::istringstream page(text);
  const std::vector<std::string> have = lines_of_code(source);
  size_t at = 0;
  for (const std::string& line : lines_of_code(page)) {
    if (line == "...") continue;
    const size_t from = at;
    while (at < have.size() && !fits(line, have[at])) ++at;
    ASSERT_LT(at, have.size()) << file << " does not have, after line of code " << from << ": "
                               << line;
    ++at;
  }
}

void expect_path(const std::string& path) {
  EXPECT_TRUE(fs::exists(project(path))) << "there is no " << path;
}

void expect_program(const std::string& name) {
  for (const char* folder : {"examples/", "examples/exercises/", "examples/seeds/"})
    if (fs::exists(project(folder + name + ".cc"))) return;
  ADD_FAILURE() << "there is no program " << name;
}

namespace {

TEST(Pages, OutputsDifferByNumbersAndPlacesOnly) {
  {
    PageRun page;
    std::cout << "loss 0.501 (at a.cc:7)\n";
    page.expect("loss 0.5 (at main.cc:12)\n", false);
    std::cout << "b 1.5 ms\na 2 µs";
    page.expect("a 700 µs\n...\n", true);
  }
  EXPECT_TRUE(equal_words("98.0%", "98.1%"));
  EXPECT_FALSE(equal_words("0.5", "0.6"));
  EXPECT_FALSE(equal_words("gpu(0)", "cpu(0)"));
}

TEST(Pages, ExcerptsSkipComments) {
  expect_excerpt("tests/pages/page_run.h", "#pragma once  // once\n...\nclass PageRun : ... {\n");
  EXPECT_FATAL_FAILURE(expect_excerpt("tests/pages/page_run.h", "class PageRun;\n"),
                       "does not have");
}

}  // namespace
}  // namespace locus::test

// Wraps text into lines, on the terminal and in pictures.
#pragma once

#include <string>
#include <vector>

namespace examples {

// The characters of UTF-8 text.
size_t characters(const std::string& text);

// Lines of at most `width` characters. A longer word has a line of its own. Line ends in the text
// stay, and all lines have the indent of their first line.
std::vector<std::string> wrapped(const std::string& text, size_t width);

// The columns of the terminal on standard output; 80 if it is not a terminal.
size_t terminal_width();

// Prints the text, wrapped at terminal_width(), and ends the last line.
void print_text(const std::string& text);

}  // namespace examples

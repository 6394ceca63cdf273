// The command line of a program: what its options take, what is wrong with what was given, and what
// --help says. Definitions of options include <CLI/CLI.hpp>.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <locus/core/context.h>

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace examples {

// What an option takes, for its check(). Refusals say what was expected and what was given.
constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
CLI::Validator whole(int64_t least, int64_t most = kAny);
CLI::Validator number(double least, double most = std::numeric_limits<double>::infinity());
CLI::Validator above_zero();
CLI::Validator one_of(const std::vector<std::string>& names);

// The exit status if the program ends here: 0 after --help, 2 after an error, which is printed with
// the program's name. A flag takes no value.
std::optional<int> parse(CLI::App& app, int argc, char** argv);
// The same for a program without options.
std::optional<int> parse(const std::string& purpose, int argc, char** argv);

// Call it last. Throws Error if text that the program printed was lost, as on a full disk.
void check_printed();

// What `f` throws, with the option that led to it.
void of_option(const std::string& option, const std::function<void()>& f);

// The context that the option names. Error for a text that names none, and for one that is not
// there.
locus::Context context_of(const std::string& option, const std::string& text);

// Throws where a folder of that name could not be made, or files not be written in it; makes
// nothing.
void check_folder(const std::string& option, const std::string& folder);

}  // namespace examples

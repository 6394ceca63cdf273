// Parses a program's command line: checks option values, reports errors, prints --help. Files that
// define options include <CLI/CLI.hpp>.
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

// Validators for CLI::Option::check(). Errors say the expected and the given value.
constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
CLI::Validator whole(int64_t least, int64_t most = kAny);
CLI::Validator number(double least, double most = std::numeric_limits<double>::infinity());
CLI::Validator above_zero();
CLI::Validator one_of(const std::vector<std::string>& names);

// Returns the exit status if the program ends here: 0 after --help, 2 after an error, which is
// printed with the program's name. Flags take no value.
std::optional<int> parse(CLI::App& app, int argc, char** argv);
// For a program without options.
std::optional<int> parse(const std::string& purpose, int argc, char** argv);

// Call it last. Throws Error if printed text was lost, for example on a full disk.
void check_printed();

// Runs f. Rethrows an exception as Error with the option in front.
void of_option(const std::string& option, const std::function<void()>& f);

// Parses the option's context. Error if the text is no context, or the context does not exist.
locus::Context context_of(const std::string& option, const std::string& text);

// Throws Error if the folder could not be created or written. Leaves no folder behind.
void check_folder(const std::string& option, const std::string& folder);

}  // namespace examples

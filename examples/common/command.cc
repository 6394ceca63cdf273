#include "common/command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <sstream>

#include <fmt/format.h>
#include <locus/core/base/text.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <CLI/CLI.hpp>

namespace examples {

namespace {

// `range` is printed by --help, `expected` in errors.
CLI::Validator validator(const std::string& range, const std::string& expected,
                         const std::function<bool(const std::string&)>& holds) {
  return {[=](const std::string& text) {
            return holds(text) ? "" : fmt::format("expected {}, got \"{}\"", expected, text);
          },
          range};
}

std::string listed(const std::vector<std::string>& names) {
  std::string s;
  for (size_t i = 0; i < names.size(); ++i)
    s += (i == 0 ? "" : i + 1 < names.size() ? ", " : " or ") + names[i];
  return s;
}

bool is_flag(const CLI::Option* o) { return o->get_items_expected_max() == 0; }

class Help : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* o) const override {
    if (is_flag(o)) return "";
    const std::string type = o->get_type_name(), kind = type.substr(0, type.find(':'));
    const std::string value = kind == "TEXT" ? kind : kind == "FLOAT" ? "X" : "N";
    return " " + value + (takes_many(o) ? "," + value + ",..." : "");
  }
  std::string make_option_desc(const CLI::Option* o) const override {
    std::string text = o->get_description(), value_if_none;
    constexpr std::string_view kDefault = " (default: ";
    if (const size_t at = text.rfind(kDefault); at != text.npos && text.ends_with(')')) {
      value_if_none = text.substr(at + kDefault.size(), text.size() - at - kDefault.size() - 1);
      text.erase(at);
    }
    const std::string type = o->get_type_name(), value = o->get_default_str();
    if (const size_t colon = type.find(':'); colon != type.npos)
      text += ", " + type.substr(colon + 1);
    std::vector<std::string> notes;
    if (o->get_required()) notes.emplace_back("required");
    if (!value_if_none.empty()) notes.push_back("default: " + value_if_none);
    if (!value.empty() && !is_flag(o))
      notes.push_back("default: " +
                      (value.front() == '[' ? value.substr(1, value.size() - 2) : value));
    for (const CLI::Option* other : o->get_needs()) notes.push_back("needs " + other->get_name());
    for (const CLI::Option* other : o->get_excludes())
      notes.push_back("not with " + other->get_name());
    if (!notes.empty()) text += fmt::format(" ({})", fmt::join(notes, "; "));
    return wrapped(text);
  }

 private:
  static bool takes_many(const CLI::Option* o) { return o->get_expected_max() > 1; }
  std::string wrapped(const std::string& text) const {
    constexpr size_t kWidth = 100;
    std::istringstream words(text);
    std::string lines;
    size_t length = 0;
    for (std::string w; words >> w; length += w.size() + 1) {
      const bool fits = length + w.size() + get_column_width() <= kWidth;
      lines += (lines.empty() ? "" : fits ? " " : "\n") + w;
      if (!fits) length = 0;
    }
    return lines;
  }
};

std::string unknown(const CLI::App& app, const std::string& program, const std::string& given) {
  const size_t dashes = (" " + given).find(" -");  // stray values come first
  const size_t begin = dashes == std::string::npos ? 0 : dashes;
  const std::string name = given.substr(begin, given.find_first_of("= ", begin) - begin);
  std::string text =
      fmt::format("{}: {} has no such {}", name, program, name[0] == '-' ? "option" : "argument");
  for (const CLI::Option* o : app.get_options()) {
    const std::string& other = o->get_name();
    if (name.size() > 3 && (other.starts_with(name) || name.starts_with(other)))
      return text + "; did you mean " + other + "?";
  }
  return text;
}

// Translates CLI11's errors.
std::string refusal(const CLI::App& app, const std::string& program, const CLI::Error& e) {
  const std::string what = e.what(), option = what.substr(0, what.find_first_of(": "));
  const std::string last = what.substr(what.rfind(' ') + 1);
  const CLI::Option* const o = app.get_option_no_throw(option);
  if (dynamic_cast<const CLI::ExtrasError*>(&e))
    return unknown(app, program, what.substr(what.find(": ") + 2));
  // A misspelled option explains a missing one.
  if (const auto rest = app.remaining();
      !rest.empty() && dynamic_cast<const CLI::RequiredError*>(&e))
    return unknown(app, program, fmt::format("{}", fmt::join(rest, " ")));
  if (dynamic_cast<const CLI::RequiredError*>(&e) && o)
    return option + ": it is missing; expected the " + o->get_description();
  if (dynamic_cast<const CLI::RequiresError*>(&e))
    return fmt::format("{0}: {1} is missing; expected {0} together with {1}", option, last);
  if (dynamic_cast<const CLI::ExcludesError*>(&e))
    return fmt::format("{} and {}: expected one of the two, got both", option, last);
  if (what.find("flag override") != what.npos)
    return fmt::format("--{}: a flag; expected no value after it", option);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&e) && o) {
    if (o->count() > 1) return fmt::format("{}: expected once, got {} times", option, o->count());
    return fmt::format("{}: no value follows; expected {}", option, o->get_description());
  }
  return what;
}

// CLI11 drops empty items of a list.
void check_lists(const CLI::App& app, int argc, char** argv) {
  const CLI::Option* option = nullptr;
  for (int i = 1; i < argc; ++i) {
    std::string text = argv[i];
    if (text.starts_with("--")) {
      const size_t equals = text.find('=');
      option = app.get_option_no_throw(text.substr(0, equals));
      if (equals == text.npos) continue;
      text.erase(0, equals + 1);
    }
    if (!option || option->get_delimiter() == '\0') continue;
    const std::string between(1, option->get_delimiter());
    if ((between + text + between).find(between + between) != std::string::npos)
      throw CLI::ValidationError(
          option->get_name(),
          fmt::format("an item of \"{}\" is empty; expected items with a \"{}\" between them", text,
                      between));
  }
}

// Programs read an empty text as an option that was not given.
void check_texts(const CLI::App& app) {
  for (const CLI::Option* o : app.get_options())
    if (!is_flag(o) && o->count() > 0 && std::ranges::find(o->results(), "") != o->results().end())
      throw CLI::ValidationError(o->get_name(),
                                 "given but empty; expected a value, or no " + o->get_name());
}

}  // namespace

CLI::Validator whole(int64_t least, int64_t most) {
  const std::string range =
      most == kAny ? fmt::format("at least {}", least) : fmt::format("from {} to {}", least, most);
  return validator(range, "a whole number " + (most == kAny ? "of " + range : range),
                   [=](const std::string& text) {
                     const auto v = locus::number_in<int64_t>(text);
                     return v && *v >= least && *v <= most;
                   });
}

CLI::Validator number(double least, double most) {
  const bool any = std::isinf(most);
  const std::string range =
      any ? fmt::format("at least {:g}", least) : fmt::format("from {:g} to {:g}", least, most);
  return validator(range, "a number " + (any ? "of " + range : range),
                   [=](const std::string& text) {
                     const auto v = locus::number_in<double>(text);
                     return v && std::isfinite(*v) && *v >= least && *v <= most;
                   });
}

CLI::Validator above_zero() {
  return validator("above 0", "a number above 0", [](const std::string& text) {
    const auto v = locus::number_in<double>(text);
    return v && std::isfinite(*v) && *v > 0;
  });
}

CLI::Validator one_of(const std::vector<std::string>& names) {
  return validator("", listed(names), [=](const std::string& text) {
    return std::find(names.begin(), names.end(), text) != names.end();
  });
}

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  const std::string program = std::filesystem::path(argv[0]).filename();
  app.name(program);
  app.formatter(std::make_shared<Help>());
  if (CLI::Option* const help = app.get_help_ptr()) help->description("print this help and exit");
  for (CLI::Option* o : app.get_options())
    if (is_flag(o)) o->disable_flag_override();
  app.failure_message([&](const CLI::App*, const CLI::Error& e) {
    return fmt::format("{0}: {1}\n{0} --help lists the options.\n", program,
                       refusal(app, program, e));
  });
  try {
    check_lists(app, argc, argv);
    app.parse(argc, argv);
    check_texts(app);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return {};
}

std::optional<int> parse(const std::string& purpose, int argc, char** argv) {
  CLI::App app(purpose);
  return parse(app, argc, argv);
}

void check_printed() {
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout)
    throw locus::Error("standard output could not be written: ", std::strerror(errno));
}

void of_option(const std::string& option, const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& e) {
    throw locus::Error(option, ": ", e.what());
  }
}

locus::Context context_of(const std::string& option, const std::string& text) {
  locus::Context c;
  of_option(option, [&] {
    try {
      c = locus::Context::parse(text);
    } catch (const locus::Error&) {
      throw locus::Error("expected a context, such as cpu(0) or gpu(1), got \"", text, "\"");
    }
    locus::context_info(c);  // throws if c does not exist
  });
  return c;
}

void check_folder(const std::string& option, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path there = folder;
  while (!there.empty() && !fs::exists(there, error)) there = there.parent_path();
  if (there.empty()) there = ".";
  const bool whole = there == fs::path(folder);
  const auto refuse = [&](const std::string& why) {
    throw locus::Error(option, " ", folder, ": cannot be ", whole ? "written" : "created", ": ",
                       whole ? "" : there.string() + ": ", why);
  };
  if (!fs::is_directory(there, error)) refuse("it is not a folder");
  if (::access(there.c_str(), W_OK | X_OK) != 0) refuse(std::strerror(errno));
  if (whole) return;
  // Some writable folders refuse new folders, such as /proc.
  fs::create_directories(folder, error);
  if (error) refuse(error.message());
  for (fs::path made = folder; made != there && !made.empty(); made = made.parent_path())
    fs::remove(made, error);
}

}  // namespace examples

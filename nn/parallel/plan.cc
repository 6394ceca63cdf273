#include <locus/nn/plan.h>

#include <algorithm>
#include <limits>

#include <locus/core/error.h>
#include <locus/core/group.h>
#include <locus/core/io/atomic_file.h>
#include <locus/nn/options.h>

namespace locus::nn {
namespace {

constexpr std::string_view kVersion = "plan-1", kBlank = " \t\r";

// Removes and returns the first word.
std::string_view word(std::string_view& s) {
  s = trimmed(s);
  const std::string_view w = s.substr(0, s.find_first_of(kBlank));
  s = trimmed(s.substr(w.size()));
  return w;
}

// One line of a plan.
struct Reader {
  const Plan& plan;
  const int line;
  std::string_view rest;

  [[noreturn]] void refuse(const auto&... what) const {
    throw FormatError(plan.where(line), what...);
  }
  int number(std::string_view text, int least, int most = std::numeric_limits<int>::max()) const {
    const auto n = number_in<int>(text);
    if (!n || *n < least || *n > most)
      refuse("\"", text, "\"; expected a whole number from ", least, " to ", most);
    return *n;
  }
  // Returns the rest: one word.
  std::string_view last(const char* expected) {
    const std::string_view w = word(rest);
    if (w.empty() || !rest.empty())
      refuse("\"", w, rest.empty() ? "" : " ", rest, "\"; ", expected);
    return w;
  }

  Plan::Stage stage() {
    Plan::Stage s{.line = line};
    const std::string_view range = word(rest);
    const size_t dash = range.find('-');
    s.first = s.last = number(range.substr(0, dash), 0);
    if (dash != range.npos) s.last = number(range.substr(dash + 1), s.first);
    const std::string_view how = word(rest);
    s.cut = how == "cut";
    if (s.cut ? word(rest) != "over" : how != "on")
      refuse("layers ", range, " ", how, "; expected \"on\" or \"cut over\", and contexts");
    for (bool more = true; more;) {
      const size_t comma = rest.find(',');
      more = comma != rest.npos;
      try {
        s.contexts.push_back(Context::parse(trimmed(rest.substr(0, comma))));
      } catch (const Error& e) {
        refuse(e.what());
      }
      if (more) rest.remove_prefix(comma + 1);
    }
    return s;
  }
};

const char* name(Schedule s) {
  options::expect_enumerator("Plan", "schedule", s, Schedule::one_f1b,
                             "Schedule::gpipe or one_f1b");
  return s == Schedule::gpipe ? "gpipe" : "1F1B";
}

}  // namespace

std::string Plan::where(int line) const {
  return line == 0 ? source + ": " : text_of(source, ":", line, ": ");
}

Plan Plan::parse(std::string_view text, const std::string& source) {
  Plan plan;
  plan.source = source;
  bool begun = false;
  int number = 0, schedule_line = 0;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    Reader reader{plan, ++number, trimmed(line.substr(0, line.find('#')))};
    if (reader.rest.empty()) continue;
    const std::string_view begin = reader.rest, first = word(reader.rest);
    const auto once = [&](int& seen) {
      if (seen > 0) reader.refuse("\"", begin, "\" again; \"", first, "\" is on line ", seen);
      seen = number;
    };
    if (!begun) {
      if (begin != kVersion) reader.refuse("\"", begin, "\"; expected ", kVersion, ", the version");
      begun = true;
    } else if (first == "layers") {
      plan.stages.push_back(reader.stage());
    } else if (first == "microbatches") {
      once(plan.microbatches_line);
      plan.microbatches =
          reader.number(reader.last("expected how many microbatches"), 1, kMostMicrobatches);
    } else if (first == "schedule") {
      once(schedule_line);
      const std::string_view s = reader.last("expected 1F1B or gpipe");
      if (s != "gpipe" && s != "1F1B") reader.refuse("schedule ", s, "; expected 1F1B or gpipe");
      plan.schedule = s == "gpipe" ? Schedule::gpipe : Schedule::one_f1b;
    } else {
      reader.refuse("\"", begin, "\"; expected layers, microbatches or schedule");
    }
  }
  const Reader last{plan, number, {}};
  if (!begun) last.refuse("it is empty; expected ", kVersion, " and stages");
  if (plan.stages.empty())
    last.refuse("it has no stage; expected \"layers 0-3 on gpu(0)\" and such");
  return plan;
}

Plan Plan::load(const std::string& path) { return parse(read_file(path, "a plan"), path); }

void Plan::save(const std::string& path) const {
  const std::string all = text();
  AtomicFile file("Plan::save", path);
  file.write(all.data(), all.size());
  file.commit();
}

std::string Plan::Stage::text() const {
  return text_of("layers ", first, last > first ? text_of("-", last) : "",
                 cut ? " cut over " : " on ", listed(contexts));
}

std::string Plan::text() const {
  std::string s(kVersion);
  if (microbatches > 1) s += text_of("\nmicrobatches ", microbatches);
  if (schedule != Schedule::one_f1b) s += text_of("\nschedule ", name(schedule));
  for (const Stage& stage : stages) s += "\n" + stage.text();
  return s + "\n";
}

bool Plan::cut() const { return std::ranges::any_of(stages, &Stage::cut); }
int Plan::replicas() const {
  return cut() || stages.empty() ? 1 : static_cast<int>(stages[0].contexts.size());
}
std::vector<Context> Plan::contexts() const {
  std::vector<Context> all;
  for (const Stage& s : stages)
    for (const Context c : s.contexts)
      if (std::ranges::find(all, c) == all.end()) all.push_back(c);
  return all;
}

std::string Plan::summary() const {
  std::string s;
  if (cut()) return text_of("cut over ", contexts().size());
  if (stages.size() > 1) s = text_of(stages.size(), " stages");
  if (replicas() > 1)
    s = s.empty() ? text_of("data over ", replicas())
                  : text_of(s, " over ", replicas(), " replicas");
  if (s.empty()) s = "on " + listed(contexts());
  if (microbatches > 1) s += text_of(", ", microbatches, " microbatches");
  if (stages.size() > 1) s += text_of(", ", name(schedule));
  return s;
}

void Plan::check(int layers) const {
  static_cast<void>(name(schedule));
  const bool is_cut = cut();
  std::vector<Context> seen;
  int next = 0;
  for (const Stage& s : stages) {
    const auto refuse = [&](const auto&... what) {
      throw ValueError(where(s.line), s.text(), ": ", what...);
    };
    if (s.last >= layers || s.last < s.first)
      refuse("there are layers 0 to ", layers - 1,
             "; expected a plan for these, or the network that it was made for");
    if (s.first < next) refuse("layer ", s.first, " is in the stage before; expected it once");
    if (s.first > next) refuse("layer ", next, " is in no stage; expected the stages in order");
    next = s.last + 1;
    if (s.contexts.empty()) refuse("expected a context");
    if (is_cut && !s.cut && s.contexts.size() > 1)
      refuse("beside a stage that is cut; expected one context");
    if (!is_cut && s.contexts.size() != stages[0].contexts.size())
      refuse("expected as many contexts as in the first stage, ", stages[0].contexts.size(),
             ", one per replica");
    if (is_cut) seen.clear();  // stages take turns
    for (const Context c : s.contexts) {
      if (c.type == DeviceType::cpu_pinned)
        refuse(c, " is memory for copies; expected GPUs, or contexts of the CPU such as cpu(1)");
      if (std::ranges::find(seen, c) != seen.end())
        refuse(c, " is named twice; expected each context once");
      seen.push_back(c);
    }
    try {
      for (const Context c : s.contexts) context_info(c);
      static_cast<void>(Group(s.contexts));
    } catch (const Error&) {
      std::rethrow_exception(reworded(
          [&](const std::string& text) { return where(s.line) + s.text() + ": " + text; }));
    }
  }
  if (next < layers)
    throw ValueError(where(stages.empty() ? 0 : stages.back().line), "layer ", next,
                     " is in no stage; expected layers 0 to ", layers - 1);
  if (microbatches < 1 || (is_cut && microbatches > 1))
    throw ValueError(where(microbatches_line), "microbatches ", microbatches, "; expected ",
                     is_cut ? "none where a stage is cut" : "at least one");
}

void Plan::check_batch(int64_t samples) const {
  const int64_t parts = int64_t{replicas()} * microbatches;
  if (samples >= parts) return;
  const int line = microbatches > 1 || stages.empty() ? microbatches_line : stages[0].line;
  std::string of = replicas() > 1 ? text_of(" for ", replicas(), " replicas") : "";
  if (microbatches > 1)
    of += text_of(replicas() > 1 ? " of " : " in ", microbatches, " microbatches");
  throw ValueError(where(line), "a batch of ", samples, " samples", of, "; expected at least ",
                   parts, ", one each");
}

}  // namespace locus::nn

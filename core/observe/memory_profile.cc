// MemoryProfile, and LOCUS_MEMORY.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <locus/core/base/environment.h>
#include <locus/core/base/mutex.h>
#include <locus/core/base/table.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/observe/red_zones.h>
#include <locus/core/observe/register.h>

namespace locus {
namespace {

// '/' is before all other characters, so that inner scopes follow their scope.
struct PathLess {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const {
    const auto rank = [](char c) { return c == '/' ? 0 : 1 + static_cast<unsigned char>(c); };
    return std::ranges::lexicographical_compare(a, b, {}, rank, rank);
  }
};
using Entries = std::map<std::string, MemoryEntry, PathLess>;

MemoryEntry& entry(Entries& of, Context c, std::string_view name) {
  auto at = of.find(name);
  if (at == of.end())
    at = of.try_emplace(std::string(name), MemoryEntry{.context = c, .name = std::string(name)})
             .first;
  return at->second;
}

std::vector<std::string> header(const char* what) {
  return {"context", what, "current", "peak", "total", "from driver", "blocks"};
}

std::vector<std::string> row(const MemoryEntry& e, const std::string& shown) {
  return {to_string(e.context),    e.name.empty() ? "all" : shown, memory_text(e.current),
          memory_text(e.peak),     memory_text(e.total),           memory_text(e.upstream),
          std::to_string(e.blocks)};
}

// "  conv1" for "step/conv1"
std::string indented(const std::string& scope) {
  const auto depth = static_cast<size_t>(std::ranges::count(scope, '/'));
  const size_t last = scope.rfind('/');
  return std::string(2 * depth + 2, ' ') + scope.substr(last == scope.npos ? 0 : last + 1);
}

}  // namespace

struct MemoryProfile::Records final : MemoryHook {
  struct Block {
    size_t size;
    const char *op, *scope;
    Caller caller;
    std::vector<MemoryEntry*> counted;
  };
  struct PerContext {
    Entries scopes, lines;
    std::map<const void*, Block> live;
  };

  void on(const MemoryEvent& e) noexcept override {
    const MutexLock lock(mutex);
    PerContext& c = contexts[e.context];
    if (e.kind == MemoryEventKind::served) {
      drop(c, e.data);
      Block block{e.block, e.op, e.scope, e.caller, entries_of(c, e)};
      for (MemoryEntry* one : block.counted) {
        one->current += e.block;
        one->peak = std::max(one->peak, one->current);
        one->total += e.block;
        ++one->blocks;
      }
      c.live.emplace(e.data, std::move(block));
    } else if (e.kind == MemoryEventKind::upstream) {
      for (MemoryEntry* one : entries_of(c, e)) one->upstream += e.bytes;
    } else if (e.kind == MemoryEventKind::freed) {
      drop(c, e.data);
    }
  }

  // Everything, each scope around the event, and its line.
  static std::vector<MemoryEntry*> entries_of(PerContext& c, const MemoryEvent& e) {
    std::vector<MemoryEntry*> list{&entry(c.scopes, e.context, "")};
    const std::string_view scope = e.scope;
    for (size_t end = 0; end < scope.size();) {
      end = std::min(scope.find('/', end + 1), scope.size());
      list.push_back(&entry(c.scopes, e.context, scope.substr(0, end)));
    }
    list.push_back(&entry(c.lines, e.context, to_string(e.caller)));
    return list;
  }

  static void drop(PerContext& c, const void* data) {
    const auto at = c.live.find(data);
    if (at == c.live.end()) return;
    for (MemoryEntry* one : at->second.counted) one->current -= at->second.size;
    c.live.erase(at);
  }

  Mutex mutex;
  std::map<Context, PerContext> contexts LOCUS_GUARDED_BY(mutex);
};

MemoryProfile::MemoryProfile() : records_(std::make_unique<Records>()), hook_(*records_) {}
MemoryProfile::~MemoryProfile() = default;

std::vector<MemoryEntry> MemoryProfile::by_scope() const {
  std::vector<MemoryEntry> list;
  const MutexLock lock(records_->mutex);
  for (const auto& [c, of] : records_->contexts)
    for (const auto& [name, e] : of.scopes) list.push_back(e);
  return list;
}

std::vector<MemoryEntry> MemoryProfile::by_line() const {
  std::vector<MemoryEntry> list;
  const MutexLock lock(records_->mutex);
  for (const auto& [c, of] : records_->contexts) {
    if (const auto all = of.scopes.find(std::string()); all != of.scopes.end())
      list.push_back(all->second);
    const auto first = static_cast<std::ptrdiff_t>(list.size());
    for (const auto& [name, e] : of.lines) list.push_back(e);
    std::stable_sort(list.begin() + first, list.end(),
                     [](const MemoryEntry& a, const MemoryEntry& b) { return a.peak > b.peak; });
  }
  return list;
}

std::string MemoryProfile::table() const {
  std::vector<std::vector<std::string>> scopes{header("scope")}, lines{header("line")};
  for (const MemoryEntry& e : by_scope()) scopes.push_back(row(e, indented(e.name)));
  for (const MemoryEntry& e : by_line()) lines.push_back(row(e, e.name));
  std::string text;
  for (const auto& rows : {scopes, lines})
    for (const std::string& line : table_lines(rows, "llrrrrr")) text += line + '\n';
  return text;
}

std::string MemoryProfile::live_blocks() const {
  struct Sum {
    size_t blocks = 0, bytes = 0;
  };
  using Key = std::tuple<Context, std::string_view, std::string_view, std::string>;
  std::map<Key, Sum> sums;
  Sum all;
  {
    const MutexLock lock(records_->mutex);
    for (const auto& [c, of] : records_->contexts)
      for (const auto& [data, block] : of.live)
        for (Sum* sum : {&all, &sums[{c, block.op, block.scope, to_string(block.caller)}]}) {
          ++sum->blocks;
          sum->bytes += block.size;
        }
  }
  if (all.blocks == 0) return "no live blocks\n";
  std::vector<std::pair<Key, Sum>> sorted(sums.begin(), sums.end());
  std::ranges::stable_sort(
      sorted, [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::vector<std::vector<std::string>> rows{{"context", "blocks", "bytes", "op", "scope", "line"}};
  for (const auto& [key, sum] : sorted) {
    const auto& [c, op, scope, line] = key;
    rows.push_back({to_string(c), std::to_string(sum.blocks), memory_text(sum.bytes),
                    op.empty() ? "-" : std::string(op), scope.empty() ? "-" : std::string(scope),
                    line});
  }
  std::string text = text_of(all.blocks, " live block", all.blocks == 1 ? "" : "s", ", ",
                             memory_text(all.bytes), '\n');
  for (const std::string& line : table_lines(rows, "lrrlll")) text += line + '\n';
  return text;
}

namespace {

// Of LOCUS_MEMORY. Never destroyed: they are read after the program's statics are destroyed.
std::atomic<const MemoryProfile*> leaks{nullptr};
std::atomic<std::ofstream*> events_file{nullptr};

void at_exit() {
  if (const MemoryProfile* const profile = leaks)
    std::fprintf(stderr, "LOCUS_MEMORY=leaks: %s", profile->live_blocks().c_str());
  if (std::ofstream* const file = events_file; file && !file->flush())
    std::fputs("LOCUS_MEMORY: the file of events could not be written; is the disk full?\n",
               stderr);
  if (memory_events::red_zones()) red_zones::check_at_exit();
}

void open_file(const std::string& path) {
  if (path.find_first_of("./") == path.npos)
    throw Error("LOCUS_MEMORY=", path,
                ": expected leaks, redzones, or a file such as memory.jsonl");
  auto file = std::make_unique<std::ofstream>(path);
  if (!*file) throw Error("LOCUS_MEMORY=", path, ": the file cannot be written; name another file");
  static_cast<void>(new MemoryHookScope(*new JsonLines(*file)));
  events_file = file.release();
}

}  // namespace

void memory_events::read_environment() {
  if (!(hooks.load(std::memory_order_acquire) & kUnread)) return;
  static Mutex mutex;
  const MutexLock lock(mutex);
  if (!(hooks.load() & kUnread)) return;
  const char* const value = std::getenv("LOCUS_MEMORY");
  if (const std::string text = value ? value : ""; text == "leaks")
    leaks = new MemoryProfile;
  else if (text == "redzones")
    hooks.fetch_or(kRedZones);
  else if (!text.empty())
    open_file(text);
  hooks.fetch_and(~kUnread);
}

void register_memory_tools() { static_cast<void>(std::atexit(&at_exit)); }

std::string live_blocks() {
  memory_events::read_environment();
  if (const MemoryProfile* const profile = leaks) return profile->live_blocks();
  throw Error(
      "live_blocks: the blocks were not recorded; run the program with LOCUS_MEMORY=leaks, or call "
      "MemoryProfile::live_blocks()");
}

}  // namespace locus

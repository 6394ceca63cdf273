// A recording in Chrome's trace event format: one JSON object per line.
#include <map>
#include <ostream>
#include <set>

#include <locus/core/dtype.h>
#include <locus/core/observe/profiler_record.h>
#include <locus/core/shape.h>
#include <nlohmann/json.hpp>

namespace locus::profiler {
namespace {

using nlohmann::json;

std::vector<std::string> texts(const std::vector<Meta>& metas) {
  std::vector<std::string> list;
  for (const Meta& m : metas) list.push_back(to_string(Shape(m)) + " " + name(m.dtype));
  return list;
}

std::string lane_name(RowId row) {
  Device& d = device(row.context);
  for (int i = 0; i < kNumLanes; ++i)
    if (const auto lane = static_cast<Lane>(i); d.stream(lane).id == row.id) return name(lane);
  return "stream " + std::to_string(row.id);
}
std::string row_name(RowId row) {
  return is_host(row.context) ? "thread " + std::to_string(row.id) : lane_name(row);
}

class Writer {
 public:
  Writer(std::ostream& os, double start) : os_(os), start_(start) {
    os_ << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  }
  void finish() { os_ << "\n]}\n"; }

  void row(RowId row, const std::string& name) {
    if (!named_.insert(row).second) return;
    const int pid = process(row.context);
    for (const auto& [key, args] : {std::pair{"thread_name", json{{"name", name}}},
                                    std::pair{"thread_sort_index", json{{"sort_index", row.id}}}})
      write({{"ph", "M"}, {"name", key}, {"pid", pid}, {"tid", row.id}, {"args", args}});
  }

  void bar(RowId row, const Bar& b) {
    json event{{"ph", "X"}, {"name", b.name}, {"ts", micros(b.start)}};
    event["dur"] = (b.end - b.start) * 1e6;
    json& args = event["args"];
    if (b.caller.file) args["line"] = to_string(b.caller);
    switch (b.kind) {
      case Bar::Kind::op:
        event["cat"] = "op";
        args["in"] = texts(b.in);
        args["out"] = texts(b.out);
        return write_on(row, event);
      case Bar::Kind::range:
        event["cat"] = "range";
        return write_on(row, event);
      case Bar::Kind::wait:
        event["cat"] = "wait";
        event["name"] = "wait: " + std::string(b.name);
        args["for"] = to_string(b.from);
        return write_on(row, event);
      case Bar::Kind::copy:
        event["cat"] = "copy";
        event["name"] = "copy " + to_string(b.from) + " to " + to_string(b.to);
        args["bytes"] = b.bytes;
        args["from"] = to_string(b.from);
        args["to"] = to_string(b.to);
        write_on(row, event);
        return mirror(row, b, event);
    }
  }

  void memory(const MemorySample& m) {
    write({{"ph", "C"},
           {"name", "memory"},
           {"pid", process(m.context)},
           {"ts", micros(m.time)},
           {"args", {{"in_use", m.in_use}, {"reserved", m.reserved}}}});
  }

 private:
  double micros(double time) const { return (time - start_) * 1e6; }

  // The other end, and the arrow.
  void mirror(RowId at, const Bar& b, json& event) {
    const bool runs_on_target = at.context == b.to;
    const RowId other{runs_on_target ? b.from : b.to, b.mirror};
    row(other, "copies of " + to_string(at.context) + " " + row_name(at));
    write_on(other, event);
    const int64_t id = ++arrows_;
    const double length = b.end - b.start;
    json s{{"ph", "s"}, {"name", "copy"}, {"cat", "copy"}, {"id", id}, {"ts", micros(b.start)}};
    json f{{"ph", "f"}, {"name", "copy"}, {"cat", "copy"},
           {"id", id},  {"bp", "e"},      {"ts", micros(b.start + length / 2)}};
    write_on(runs_on_target ? other : at, s);
    write_on(runs_on_target ? at : other, f);
  }

  // A process for each context, numbered from 1 as they appear.
  int process(Context c) {
    const auto [found, fresh] = processes_.try_emplace(c, static_cast<int>(processes_.size()) + 1);
    const int pid = found->second;
    if (!fresh) return pid;
    const ContextInfo info = context_info(c);
    const std::string times = info.times.empty() ? "" : ", " + info.times;
    const int place = static_cast<int>(c.type) * kMaxDevices + c.index;
    for (const auto& [key, args] :
         {std::pair{"process_name", json{{"name", to_string(c)}}},
          std::pair{"process_labels", json{{"labels", info.name + times}}},
          std::pair{"process_sort_index", json{{"sort_index", place}}}})
      write({{"ph", "M"}, {"name", key}, {"pid", pid}, {"args", args}});
    return pid;
  }

  void write_on(RowId row, json& event) {
    event["pid"] = process(row.context);
    event["tid"] = row.id;
    write(event);
  }
  void write(const json& event) {
    os_ << (first_ ? "\n" : ",\n") << event.dump(-1, ' ', false, json::error_handler_t::replace);
    first_ = false;
  }

  std::ostream& os_;
  const double start_;
  bool first_ = true;
  int64_t arrows_ = 0;
  std::map<Context, int> processes_;
  std::set<RowId> named_;
};

}  // namespace

void write_trace(std::ostream& os, const Profile& profile) {
  Writer writer(os, profile.start);
  for (const auto& [id, row] : profile.rows) {
    writer.row(id, row_name(id));
    for (const Bar& bar : row.bars) writer.bar(id, bar);
  }
  for (const MemorySample& m : profile.memory) writer.memory(m);
  writer.finish();
}

}  // namespace locus::profiler

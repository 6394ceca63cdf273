#include <locus/ops/fuse/graph.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include <locus/core/base/layout.h>
#include <locus/core/base/text.h>
#include <locus/ops/fuse/row_reduction.h>
#include <locus/ops/fuse/space.h>

namespace locus::fusion {
namespace {

class Builder {
 public:
  Builder(const capture::CallTrace& trace, const Tensors& in) : trace_(trace) {
    for (const Tensor& t : in) {
      Value v;
      v.view = t.impl().view;
      v.number = static_cast<int>(graph_.values.size());
      // Tensors that share memory: each reads the elements that the first has, if it has them.
      inputs_.emplace(t.impl().storage.get(), v.number);
      graph_.values.push_back(std::move(v));
    }
  }

  void add(const capture::TracedCall& call) {
    const size_t n_in = static_cast<size_t>(call.n_in);
    check(call);
    Value v;
    v.op = call.op;
    v.attrs = call.attrs;
    for (size_t i = 0; i < n_in; ++i)
      v.from.push_back(read(call.op->name, *call.memory[i], call.views[i]));
    const View& out = call.views[n_in];
    if (call.op->name == "copy" || call.op->name == "contiguous") {
      v.kind = Value::Kind::cast;
    } else if (call.op->name == "fill") {
      v.kind = Value::Kind::number;
      v.from.push_back({-1, {}, call.attrs.as<FillAttrs>().value, out.meta.dtype});
    } else if (const formula::Info* const info = formula::info_of(*call.op)) {
      v.kind = Value::Kind::formula;
      v.formula = info;
      add_numbers(call, out.meta.dtype, v);
    } else if (!reduces_rows(call, v)) {
      v.kind = Value::Kind::other;
    }
    for (size_t k = n_in; k < call.views.size(); ++k) {
      v.view = call.views[k];
      v.number = static_cast<int>(k - n_in);
      write(call, *call.memory[k], v);
    }
  }

  Graph finish(const Tensors& out, bool arguments) {
    for (size_t i = 0; i < out.size(); ++i) {
      Result r;
      if (out[i].defined()) {
        const Read found = read(text_of("result ", i), *out[i].impl().storage, out[i].impl().view);
        if (!arguments &&
            graph_.values[static_cast<size_t>(found.value)].kind == Value::Kind::input)
          throw Unfused{text_of("result ", i, " is an argument, or a view of one")};
        r = {found.value, found.view};
      }
      graph_.results.push_back(r);
    }
    return std::move(graph_);
  }

 private:
  static void check(const capture::TracedCall& call) {
    const Op& op = *call.op;
    if (op.random || op.needs_peers || op.no_capture || call.attrs.owner.memory)
      throw Unfused{text_of(op.name, " cannot be repeated")};
    if (op.in_place) throw Unfused{text_of(op.name, " writes in place")};
  }

  // Whether the call reduces rows that are short enough for one team or thread. Sets the reduction.
  static bool reduces_rows(const capture::TracedCall& call, Value& v) {
    if (call.n_in != 1) return false;
    const Meta &in = call.views[0].meta, &out = call.views[1].meta;
    const std::optional<RowReduction> r = row_reduction(call, in);
    if (!r || r->axes == 0) return false;
    const int row_axes = std::popcount(r->axes);
    if (r->axes >> (in.rank - row_axes) != (1u << row_axes) - 1) return false;  // not the last axes
    const Space space{in, row_axes};
    if (in.size() == 0 || space.row_length() > kLongestRow || !space.form_of(out)) return false;
    v.kind = Value::Kind::reduction;
    v.reduction = r->text;
    v.axes = r->axes;
    return true;
  }

  // Numbers among the operands of a formula.
  static void add_numbers(const capture::TracedCall& call, DType out, Value& v) {
    const Call numbered{.in = nullptr,
                        .out = nullptr,
                        .n_in = call.n_in,
                        .n_out = 1,
                        .attrs = call.attrs.bytes,
                        .attrs_size = call.attrs.size,
                        .stream = {}};
    const formula::Scalars numbers = v.formula->numbers(numbered);
    const DType dtype = v.formula->predicate ? call.views[0].meta.dtype : out;
    for (int i = 0; i < v.formula->arity; ++i)
      if (numbers.scalar[i]) v.from.insert(v.from.begin() + i, {-1, {}, *numbers.scalar[i], dtype});
  }

  Read read(const std::string& who, const Storage& memory, const View& view) const {
    int value = -1;
    if (const auto made = made_.find(&memory); made != made_.end())
      value = made->second;
    else if (const auto input = inputs_.find(&memory); input != inputs_.end())
      value = input->second;
    else if (trace_.owns(memory))
      throw Unfused{text_of(who, " reads memory that no op has written")};
    else
      throw Unfused{text_of(who, " reads a tensor that is not an argument; pass it as one")};
    return {value, view, 0, view.meta.dtype};
  }

  void write(const capture::TracedCall& call, const Storage& memory, const Value& v) {
    const auto made = made_.find(&memory);
    if (made != made_.end()) {
      const View& before = graph_.values[static_cast<size_t>(made->second)].view;
      if (before.data != v.view.data || !same_layout(before, v.view))
        throw Unfused{text_of(call.op->name, " writes a part of a tensor")};
    }
    made_[&memory] = static_cast<int>(graph_.values.size());
    graph_.values.push_back(v);
  }

  const capture::CallTrace& trace_;
  Graph graph_;
  std::map<const Storage*, int> inputs_, made_;
};

}  // namespace

Graph Graph::of(const capture::CallTrace& trace, const Tensors& in, const Tensors& out,
                bool arguments) {
  Builder builder(trace, in);
  for (const capture::TracedCall& call : trace.calls()) builder.add(call);
  return builder.finish(out, arguments);
}

bool is_broadcast(const View& view, const View& base) {
  if (view.data != base.data || view.meta.rank < base.meta.rank) return false;
  const int more = view.meta.rank - base.meta.rank;
  for (int a = 0; a < view.meta.rank; ++a) {
    const int own = a - more;
    const int64_t length = view.meta.shape[a];
    if (own < 0 || (base.meta.shape[own] == 1 && length != 1)) {
      if (view.stride[a] != 0 && length != 1) return false;
    } else if (base.meta.shape[own] != length ||
               (length != 1 && view.stride[a] != base.stride[own])) {
      return false;
    }
  }
  return true;
}

}  // namespace locus::fusion

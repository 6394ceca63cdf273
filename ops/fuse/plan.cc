#include <locus/ops/fuse/plan.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <locus/core/base/layout.h>
#include <locus/core/base/text.h>
#include <locus/core/dtype.h>
#include <locus/core/stream.h>
#include <locus/ops/fuse/space.h>
#include <locus/ops/jit/element.h>
#include <locus/ops/jit/parameters.h>

namespace locus::fusion {
namespace {

using Kind = Value::Kind;
using Form = Space::Form;

constexpr size_t kMostLines = 400;
constexpr size_t kMostReductions = 24;  // of a kernel; the host's stack holds a block of each
constexpr int kMostPasses = 8;          // over a row
constexpr size_t kMostBytes = 4096 - sizeof(jit::Loop);

// The number as an element of dtype d, for the argument of a kernel.
uint64_t bits_of(const Scalar& s, DType d) {
  return dispatch(d, [&]<class T>(std::type_identity<T>) {
    return jit::bits_of(convert<Compute<T>>(formula::number<T>(s)));
  });
}

bool same_view(const View& a, const View& b) { return a.data == b.data && same_layout(a, b); }

// Thrown if no kernel can compute the rows. The plan is made again, with these reductions as ops.
struct NoRows {
  std::vector<size_t> reductions;
};

}  // namespace

// Which values become tensors, and which kernel computes each.
class Plan::Planner {
 public:
  Planner(Plan& plan, const std::string& name, const Graph& graph)
      : plan_(plan),
        name_(name),
        values_(graph.values),
        spaces_(values_),
        live_(values_.size()),
        made_(values_.size()),
        level_(values_.size()),
        place_(values_.size(), -1) {
    for (const Result& r : graph.results)
      if (r.value >= 0) need(r.value);
    // Operands come before what is computed from them.
    for (size_t i = values_.size(); i-- > 0;)
      if (live_[i]) need_operands(static_cast<int>(i));
    for (size_t i = 0; i < values_.size(); ++i)
      if (live_[i]) level_[i] = level_of(static_cast<int>(i));
    need_shared_reductions();
    for (size_t i = 0; i < values_.size() && values_[i].kind == Kind::input; ++i)
      place_[i] = static_cast<int>(plan_.places_++);
    plan_.inputs_ = plan_.places_;
    const int last = level_.empty() ? 0 : *std::ranges::max_element(level_);
    for (int level = 0; level <= last; ++level)
      level % 2 == 0 ? add_kernels(level) : add_others(level);
    for (const Result& r : graph.results)
      plan_.results_.push_back(r.value < 0 ? Operand{-1, 0, {}, false} : operand(r.value, r.view));
    find_last_uses();
  }

 private:
  const Value& at(int i) const { return values_[static_cast<size_t>(i)]; }

  // Value i is read from memory.
  void need(int i) { live_[static_cast<size_t>(i)] = made_[static_cast<size_t>(i)] = true; }
  void need_operands(int i) {
    const Value& v = at(i);
    for (const Read& r : v.from) {
      if (r.value < 0) continue;
      if (spaces_.inlined(i, r))
        live_[static_cast<size_t>(r.value)] = true;
      else
        need(r.value);
    }
    // All results of a call come together.
    if (v.kind != Kind::other) return;
    const int first = i - v.number;
    for (int k = first; k < static_cast<int>(values_.size()) && is_result(k, first); ++k) need(k);
  }
  bool is_result(int k, int first) const {
    return at(k).kind == Kind::other && at(k).op == at(first).op && at(k).number == k - first;
  }
  // Kernels have even levels, other calls odd ones.
  int level_of(int i) const {
    const Value& v = at(i);
    int level = v.kind == Kind::other ? 1 : 0;
    for (const Read& r : v.from) {
      if (r.value < 0 || at(r.value).kind == Kind::input) continue;
      const int from = level_[static_cast<size_t>(r.value)];
      level = std::max(level, spaces_.inlined(i, r) ? from : from + 1);
    }
    return level + (level % 2 == (v.computed() ? 1 : 0) && v.kind != Kind::input ? 1 : 0);
  }

  // A reduction that kernels of several levels use is computed once: on GPUs another kernel could
  // add in another order, and a value would not equal the greatest of its row.
  void need_shared_reductions() {
    std::vector<std::set<int>> users(values_.size());  // levels
    for (size_t i = values_.size(); i-- > 0;) {
      if (!live_[i]) continue;
      if (made_[i]) users[i] = {level_[i]};
      if (at(static_cast<int>(i)).kind == Kind::reduction && users[i].size() > 1) {
        made_[i] = true;
        users[i] = {level_[i]};
      }
      for (const Read& r : at(static_cast<int>(i)).from)
        if (r.value >= 0 && spaces_.inlined(static_cast<int>(i), r))
          users[static_cast<size_t>(r.value)].insert(users[i].begin(), users[i].end());
    }
  }

  Operand operand(int value, const View& view) const {
    const View& base = at(value).view;
    return {place_[static_cast<size_t>(value)],
            static_cast<const std::byte*>(view.data) - static_cast<const std::byte*>(base.data),
            view, same_view(view, base)};
  }

  void add_others(int level) {
    for (size_t i = 0; i < values_.size(); ++i) {
      const Value& v = values_[i];
      if (!live_[i] || v.kind != Kind::other || level_[i] != level || v.number != 0) continue;
      Step step;
      step.op = v.op;
      step.attrs = v.attrs;
      step.text = v.op->name;
      for (const Read& r : v.from) step.in.push_back(operand(r.value, r.view));
      const int first = static_cast<int>(i);
      for (int k = first; k < static_cast<int>(values_.size()) && is_result(k, first); ++k)
        step.out.push_back(place_[static_cast<size_t>(k)] = static_cast<int>(plan_.places_++));
      plan_.steps_.push_back(std::move(step));
    }
  }

  // One kernel for the values of each space, then one for the values of each shape.
  void add_kernels(int level) {
    for (const bool rows : {true, false})
      for (size_t i = 0; i < values_.size(); ++i) {
        const Space* const space = spaces_.of(static_cast<int>(i));
        if (!waits(i, level) || rows != (space != nullptr)) continue;
        const Meta& shape = space ? space->shape : values_[i].view.meta;
        std::vector<int> group, of_space;
        for (size_t k = 0; k < values_.size(); ++k) {
          if (!waits(k, level)) continue;
          const Space* const other = spaces_.of(static_cast<int>(k));
          if (other && other == space) of_space.push_back(static_cast<int>(k));
          if (other ? other == space : same_shape(values_[k].view.meta, shape))
            group.push_back(static_cast<int>(k));
        }
        try {
          add_kernel(group, shape, space);
        } catch (const NoRows&) {
          if (group.size() == of_space.size()) throw;
          add_kernel(of_space, shape, space);  // the others get a kernel of their own
        }
      }
  }
  bool waits(size_t i, int level) const {
    return live_[i] && made_[i] && place_[i] < 0 && values_[i].computed() && level_[i] == level;
  }

  void add_kernel(const std::vector<int>& group, const Meta& loop, const Space* space) {
    step_ = Step();
    body_ = KernelBody();
    names_.clear();
    begun_ = 0;
    rest_numbers_.clear();
    attributes_.clear();
    lines_.clear();
    loop_ = loop;
    space_ = space;
    std::vector<Meta> outputs;
    for (const int i : group) {
      const Meta& m = at(i).view.meta;
      const auto form = space ? *space->form_of(m) : Form::whole;
      if (space && !row_stride(*space, space->place(at(i).view, form)))
        throw NoRows{reductions_in(space)};
      body_.outputs.push_back({line_of(i, form), m.dtype, form != Form::whole});
      outputs.push_back(m);
    }
    const size_t arrays = body_.arrays.size() + body_.outputs.size();
    if (space && (arrays > jit::kMostOperands || body_.argument_bytes() > kMostBytes ||
                  passes_of(body_) > kMostPasses))
      throw NoRows{reductions_in(space)};
    if (arrays > jit::kMostOperands)
      throw Unfused{text_of("a kernel reads and writes ", arrays, " tensors; at most ",
                            jit::kMostOperands, " are fused")};
    if (body_.argument_bytes() > kMostBytes)
      throw Unfused{"a kernel has more numbers than fit into its arguments"};
    for (const int i : group) {
      place_[static_cast<size_t>(i)] = static_cast<int>(plan_.places_++);
      step_.out.push_back(place_[static_cast<size_t>(i)]);
      step_.out_views.push_back(at(i).view);
    }
    const Kernel& kernel = Kernel::of(name_, body_);
    std::vector<unsigned char> rest(8 * rest_numbers_.size());
    if (!rest.empty()) std::memcpy(rest.data(), rest_numbers_.data(), rest.size());
    rest.insert(rest.end(), attributes_.begin(), attributes_.end());
    step_.kernel = std::make_shared<const KernelCall>(KernelCall{
        &kernel, loop_, std::move(rest), space ? space->row_axes : 0, std::move(outputs)});
    step_.text = listed(names_);
    if (names_.empty()) step_.text = "fill";
    plan_.steps_.push_back(std::move(step_));
    ++plan_.kernels_;
  }

  // What computes value i in this kernel. `form`: of the values that read it, in a space.
  KernelBody::Operand line_of(int i, Form form) {
    using From = KernelBody::Operand::Kind;
    const Value& v = at(i);
    if (spaces_.of(i)) form = *space_->form_of(v.view.meta);
    const std::pair key(i, form == Form::squeezed);
    if (const auto found = lines_.find(key); found != lines_.end()) return found->second;
    if (++begun_ > kMostLines) {
      if (space_) throw NoRows{reductions_in(space_)};
      throw Unfused{text_of("a kernel has more than ", kMostLines, " formulas")};
    }
    if (v.kind == Kind::number) return lines_[key] = number(v.from[0]);
    if (v.kind == Kind::reduction) form = Form::whole;
    KernelBody::Line line;
    line.dtype = v.view.meta.dtype;
    for (const Read& r : v.from)
      line.from.push_back(r.value < 0                                      ? number(r)
                          : spaces_.inlined(i, r) && place_of(r.value) < 0 ? line_of(r.value, form)
                                                                           : array(r, form));
    if (v.kind == Kind::cast && v.attrs.as<CopyAttrs>().dtype == v.from[0].dtype)
      return lines_[key] = line.from[0];
    if (v.kind == Kind::reduction) {
      if (body_.reductions.size() == kMostReductions) throw NoRows{reductions_in(space_)};
      names_.push_back(v.op->name);
      body_.reductions.push_back({v.reduction, line.dtype, line.from[0]});
      return lines_[key] = {From::reduction, static_cast<int>(body_.reductions.size()) - 1};
    }
    names_.push_back(v.formula ? v.formula->type.substr(v.formula->type.rfind(':') + 1)
                               : text_of("to ", locus::name(line.dtype)));
    if (v.kind == Kind::formula) {
      line.formula = v.formula;
      if (v.formula->bytes > 0) {
        line.attributes = static_cast<int>(body_.attributes.size());
        body_.attributes.push_back(v.formula);
        const unsigned char* const bytes = v.attrs.bytes + v.formula->offset;
        attributes_.insert(attributes_.end(), bytes, bytes + v.formula->bytes);
      }
    }
    body_.lines.push_back(std::move(line));
    return lines_[key] = {From::line, static_cast<int>(body_.lines.size()) - 1};
  }
  int place_of(int value) const { return place_[static_cast<size_t>(value)]; }

  KernelBody::Operand number(const Read& r) {
    rest_numbers_.push_back(bits_of(r.number, r.dtype));
    body_.numbers.push_back(r.dtype);
    return {KernelBody::Operand::Kind::number, static_cast<int>(body_.numbers.size()) - 1};
  }
  KernelBody::Operand array(const Read& r, Form form) {
    Operand o = operand(r.value, r.view);
    const View wide = space_ ? space_->place(o.view, form) : broadcast_to(o.view, loop_);
    std::optional<int64_t> along = 1;
    if (space_ && !(along = row_stride(*space_, wide))) throw NoRows{reductions_in(space_)};
    const View& base = at(r.value).view;
    o.whole = o.bytes == 0 && same_layout(broadcast_to(base, loop_), wide) &&
              same_shape(base.meta, loop_);
    o.view = o.whole ? base : wide;
    for (size_t k = 0; k < step_.in.size(); ++k)
      if (step_.in[k].place == o.place && same_view(step_.in[k].view, o.view))
        return {KernelBody::Operand::Kind::array, static_cast<int>(k)};
    step_.in.push_back(o);
    body_.arrays.push_back(r.dtype);
    body_.of_row.push_back(along == 0);
    return {KernelBody::Operand::Kind::array, static_cast<int>(body_.arrays.size()) - 1};
  }

  std::vector<size_t> reductions_in(const Space* space) const {
    std::vector<size_t> all;
    for (size_t i = 0; i < values_.size(); ++i)
      if (values_[i].kind == Kind::reduction && spaces_.of(static_cast<int>(i)) == space)
        all.push_back(i);
    return all;
  }

  void find_last_uses() {
    std::set<int> later;
    for (const Operand& r : plan_.results_) later.insert(r.place);
    for (size_t i = plan_.steps_.size(); i-- > 0;) {
      Step& step = plan_.steps_[i];
      const auto use = [&](int place) {
        if (place >= static_cast<int>(plan_.inputs_) && later.insert(place).second)
          step.last.push_back(place);
      };
      for (const int place : step.out) use(place);
      for (const Operand& o : step.in) use(o.place);
    }
  }

  Plan& plan_;
  const std::string& name_;
  const std::vector<Value>& values_;
  const Spaces spaces_;
  std::vector<bool> live_, made_;  // made: becomes a tensor
  std::vector<int> level_, place_;
  // Of the kernel that is being made.
  Step step_;
  KernelBody body_;
  Meta loop_;
  const Space* space_ = nullptr;
  std::vector<std::string> names_;
  size_t begun_ = 0;  // lines and reductions
  std::vector<uint64_t> rest_numbers_;
  std::vector<unsigned char> attributes_;
  std::map<std::pair<int, bool>, KernelBody::Operand> lines_;
};

Plan::Plan(const std::string& name, Graph graph, Context c) : context_(c) {
  for (bool planned = false; !planned;) try {
      const Planner planner(*this, name, graph);
      planned = true;
    } catch (const NoRows& no) {
      for (const size_t i : no.reductions) graph.values[i].kind = Kind::other;
      inputs_ = places_ = kernels_ = 0;
      steps_.clear();
      results_.clear();
    }
  for (const Step& s : steps_)
    if (s.kernel) s.kernel->kernel->functions(c);
}

Tensor Plan::view_of(const Operand& o, const Tensors& places) {
  const Tensor& whole = places[static_cast<size_t>(o.place)];
  View view = o.view;
  view.data = static_cast<std::byte*>(whole.impl().view.data) + o.bytes;
  return alias(whole, view);
}

Tensors Plan::run(const Tensors& in) const {
  Tensors places(in);
  places.resize(places_);
  Tensors views;
  std::vector<Ref> refs;
  const StreamView stream = current_stream(context_);
  for (const Step& step : steps_) {
    views.clear();
    refs.clear();
    views.reserve(step.in.size());  // none moves
    for (const Operand& o : step.in) {
      if (!o.whole) views.push_back(view_of(o, places));
      refs.emplace_back(o.whole ? places[static_cast<size_t>(o.place)] : views.back());
    }
    Tensors out(step.out.size());
    if (step.kernel) {
      for (size_t k = 0; k < out.size(); ++k)
        out[k] = make_tensor(context_, step.out_views[k], stream);
      const KernelAttrs attrs{step.kernel.get()};
      const AttrsOwner owner{step.kernel};
      detail::invoke(step.kernel->kernel->op, refs, AttrsView::of(attrs, owner), &context_, out);
    } else {
      detail::invoke(*step.op, refs, step.attrs.view(), &context_, out);
    }
    for (size_t k = 0; k < out.size(); ++k)
      places[static_cast<size_t>(step.out[k])] = std::move(out[k]);
    for (const int place : step.last) places[static_cast<size_t>(place)] = Tensor();
  }
  Tensors results;
  for (const Operand& r : results_) results.push_back(r.place < 0 ? Tensor() : view_of(r, places));
  return results;
}

std::string Plan::text() const {
  return listed(
      steps_,
      [](const Step& s) {
        return s.kernel ? text_of("kernel (", s.text, ")") : text_of("op ", s.text, ", not fused");
      },
      "; ");
}

}  // namespace locus::fusion

// The generated text of fused kernels that reduce rows, for both back ends. A row is walked in
// passes: each computes the reductions whose operands need only those of earlier passes, and the
// last one the outputs. `_rows`, for rows that a team or a thread of the host holds, keeps some
// values for later passes. `_any` computes them again.
#include <algorithm>

#include <locus/core/base/text.h>
#include <locus/core/dtype.h>
#include <locus/ops/fuse/text.h>

namespace locus::fusion {
namespace {

class RowWriter {
 public:
  RowWriter(const std::string& name, const KernelBody& body, bool gpu)
      : name_(name), b_(body), gpu_(gpu), inputs_(body.arrays.size()), lines_(body.lines.size()) {
    // A reduction's operand comes before what reads the reduction, and each line after its
    // operands.
    for (size_t k = 0; k < lines_.size(); ++k) lines_[k] = facts_of(b_.lines[k].from);
    for (const KernelBody::Reduction& r : b_.reductions)
      last_ = std::max(last_, pass_of(r.from) + 1);
  }

  std::string text() {
    text_ = headers_of("locus/ops/fuse/rows.h", gpu_);
    line("namespace kernel {\nusing namespace locus;");
    text_ +=
        text_of_arguments(b_, "Args",
                          text_of("jit::Loop loop;\n  jit::Array array[", arrays(),
                                  "];\n  fusion::Rows rows;\n  int64_t stride[", arrays(), "]"));
    function("_rows", true);
    function("_any", false);
    line("}  // namespace kernel");
    return text_;
  }

 private:
  using Kind = KernelBody::Operand::Kind;
  // Of a line: the first pass that can compute it; whether it is the same for all of a row.
  struct Facts {
    int pass = 0;
    bool of_row = true;
  };

  void function(const char* suffix, bool keeps) {
    keeps_ = keeps;
    plan_passes();
    line("extern \"C\" ",
         gpu_ ? "__global__ void __launch_bounds__(fusion::kTeam) "
              : "__attribute__((visibility(\"default\"))) void ",
         name_, suffix,
         gpu_ ? "(const __grid_constant__ Args a) {"
              : "(const Args& a, int64_t first, int64_t end) {");
    text_ += constants_of(b_);
    for (size_t k = 0; k < b_.reductions.size(); ++k)
      line("  const auto g", k, " = reduction::", b_.reductions[k].text, ";");
    gpu_ ? begin_gpu() : begin_host();
    for (int pass = 0; pass <= last_; ++pass) {
      row_lines(pass);
      walk(pass);
    }
    outputs_of_row();
    if (!gpu_) line("  }");
    line("}");
  }

  void line(const auto&... parts) { text_ += text_of(parts..., '\n'); }
  size_t arrays() const { return inputs_ + b_.outputs.size(); }
  DType dtype(size_t array) const {
    return array < inputs_ ? b_.arrays[array] : b_.outputs[array - inputs_].dtype;
  }
  int pass_of(const KernelBody::Operand& o) const {
    const auto at = static_cast<size_t>(o.index);
    return o.kind == Kind::line        ? lines_[at].pass
           : o.kind == Kind::reduction ? pass_of(b_.reductions[at].from) + 1
                                       : 0;
  }
  Facts facts_of(const std::vector<KernelBody::Operand>& from) const {
    Facts f;
    for (const KernelBody::Operand& o : from) {
      f.pass = std::max(f.pass, pass_of(o));
      f.of_row = f.of_row && is_of_row(o);
    }
    return f;
  }
  bool is_of_row(const KernelBody::Operand& o) const {
    const auto at = static_cast<size_t>(o.index);
    return o.kind == Kind::line ? lines_[at].of_row : o.kind == Kind::array ? b_.of_row[at] : true;
  }

  // What a pass does with elements.
  struct Pass {
    std::vector<size_t> makes;      // reductions; outputs in the last pass
    std::vector<bool> array, line;  // that it reads, that it computes
    std::vector<bool> kept;         // lines of earlier passes that it reads
  };
  // Whether one more line may keep its values for later passes: on GPUs, in registers.
  bool may_keep() const {
    return std::count(kept_.begin(), kept_.end(), true) < (gpu_ ? 32 / pack_of(b_) : 8);
  }
  KernelBody::Operand made(int pass, size_t k) const {
    return pass == last_ ? b_.outputs[k].from : b_.reductions[k].from;
  }
  void plan_passes() {
    passes_.clear();
    kept_.assign(lines_.size(), false);
    std::vector<bool> before(lines_.size());  // computed by an earlier pass
    for (int pass = 0; pass <= last_; ++pass) {
      Pass p{{},
             std::vector<bool>(inputs_),
             std::vector<bool>(lines_.size()),
             std::vector<bool>(lines_.size())};
      for (size_t k = 0; pass == last_ && k < b_.outputs.size(); ++k)
        if (!b_.outputs[k].of_row) p.makes.push_back(k);
      for (size_t k = 0; pass < last_ && k < b_.reductions.size(); ++k)
        if (pass_of(b_.reductions[k].from) == pass) p.makes.push_back(k);
      const auto need = [&](const KernelBody::Operand& o) {
        const auto at = static_cast<size_t>(o.index);
        if (o.kind == Kind::array && !b_.of_row[at]) p.array[at] = true;
        if (o.kind != Kind::line || lines_[at].of_row) return;
        if (before[at] && (kept_[at] || may_keep()))
          p.kept[at] = kept_[at] = true;
        else
          p.line[at] = true;
      };
      for (const size_t k : p.makes) need(made(pass, k));
      for (size_t k = lines_.size(); k-- > 0;)
        if (p.line[k])
          for (const KernelBody::Operand& o : b_.lines[k].from) need(o);
      for (size_t k = 0; keeps_ && k < lines_.size(); ++k) before[k] = before[k] || p.line[k];
      passes_.push_back(std::move(p));
    }
  }

  // --- Both back ends.

  void rows() {
    line("  int64_t at[", arrays(), "];\n  fusion::find_row(a.loop, a.array, row, at);");
    for (size_t k = 0; k < arrays(); ++k) {
      const std::string type = (k < inputs_ ? "const " : "") + storage(dtype(k));
      line("  const fusion::Row<", type, "> r", k, "{static_cast<", type, "*>(a.array[", k,
           "].data) + at[", k, "], a.stride[", k, "]};");
    }
    for (size_t k = 0; k < inputs_; ++k)
      if (b_.of_row[k])
        line("  const ", compute(b_.arrays[k]), " x", k, " = jit::get<", storage(b_.arrays[k]),
             ">(r", k, ".data, 0);");
  }
  void row_lines(int pass) {
    for (size_t k = 0; k < lines_.size(); ++k)
      if (lines_[k].of_row && lines_[k].pass == pass) line("  ", text_of_line(b_, k));
  }
  // The reductions of a pass, or the outputs.
  void walk(int pass) {
    const Pass& p = passes_[static_cast<size_t>(pass)];
    if (p.makes.empty()) return;
    const bool outputs = pass == last_;
    for (const size_t k : p.makes)
      if (!outputs)
        line("  auto t", k, " = fusion::start<", value_type(k), gpu_ ? ", E" : "", ">(g", k, ");");
    gpu_ ? walk_gpu(outputs, p) : walk_host(outputs, p);
    for (const size_t k : p.makes) {
      if (outputs) break;
      const DType d = b_.reductions[k].dtype;
      const std::string all =
          gpu_ ? text_of("fusion::combine_team<", k, ">(g", k, ", t", k, ", m.threads)")
               : text_of('t', k);
      line("  const ", compute(d), " s", k, " = fusion::finish<", storage(d), ">(g", k, ", ", all,
           ", n);");
    }
  }
  std::string value_type(size_t reduction) const {
    return text_of("Promoted<", storage(b_.dtype_of(b_.reductions[reduction].from)), '>');
  }
  // Lines of an element; `element`: its number among those that the thread or the block holds.
  void element_lines(const Pass& p, const char* element) {
    for (size_t k = 0; k < lines_.size(); ++k) {
      if (p.kept[k])
        line("      const ", compute(b_.lines[k].dtype), " v", k, " = q", k, '[', element, "];");
      if (!p.line[k]) continue;
      line("      ", text_of_line(b_, k));
      if (kept_[k]) line("      q", k, '[', element, "] = v", k, ';');
    }
  }
  void outputs_of_row() {
    for (size_t k = 0; k < b_.outputs.size(); ++k) {
      if (!b_.outputs[k].of_row) continue;
      const size_t array = inputs_ + k;
      line("  ", gpu_ ? "if (m.stores && m.lane == 0) " : "", "jit::set<", storage(dtype(array)),
           ">(r", array, ".data, 0, ", word(b_.outputs[k].from), ");");
    }
  }

  // --- GPUs. A thread holds packs of each array: all of its elements, if the row is short enough.

  void begin_gpu() {
    line("  enum { E = ", pack_of(b_), ", K = ", keeps_ ? "fusion::kPacks" : "1",
         " };\n  const fusion::Member m(a.rows, a.loop.n);\n  const int64_t row = m.row;\n"
         "  const int n = static_cast<int>(a.rows.n);");
    rows();
    for (size_t k = 0; k < inputs_; ++k)
      if (!b_.of_row[k]) line("  fusion::Held<", storage(b_.arrays[k]), ", E, K> h", k, ";");
    for (size_t k = 0; k < lines_.size(); ++k)
      if (kept_[k]) line("  ", compute(b_.lines[k].dtype), " q", k, "[K * E];");
    for (size_t k = 0; k < inputs_; ++k)
      if (keeps_ && !b_.of_row[k]) line("  h", k, ".load(r", k, ", m, n);");
  }
  void walk_gpu(bool outputs, const Pass& p) {
    if (keeps_) {
      line(
          "#pragma unroll\n    for (int k = 0; k < K; ++k) {\n"
          "      const int i = m.first<E>(0, k);");
    } else {
      line(
          "#pragma unroll 1\n    for (int begin = 0; begin < n; begin += m.threads * E) {\n"
          "      enum { k = 0 };\n      const int i = m.first<E>(begin, 0);");
      for (size_t k = 0; k < inputs_; ++k)
        if (p.array[k]) line("      h", k, ".gather(r", k, ", a.rows.packed, i, n);");
    }
    for (const size_t k : p.makes)
      if (outputs) line("      jit::Pack<", storage(b_.outputs[k].dtype), ", E> y", k, ";");
    line("#pragma unroll\n      for (int e = 0; e < E; ++e) {");
    for (size_t k = 0; k < inputs_; ++k)
      if (p.array[k])
        line("      const ", compute(b_.arrays[k]), " x", k, " = jit::get<", storage(b_.arrays[k]),
             ">(h", k, ".pack[k].v, e);");
    element_lines(p, "k * E + e");
    for (const size_t k : p.makes) {
      if (outputs)
        line("      jit::set<", storage(b_.outputs[k].dtype), ">(y", k, ".v, e, ",
             word(b_.outputs[k].from), ");");
      else
        line("      fusion::add(g", k, ", t", k, ".of[e], static_cast<", value_type(k), ">(",
             word(b_.reductions[k].from), "), i", keeps_ ? "" : " + e", ", n);");
    }
    line("      }");
    for (const size_t k : p.makes)
      if (outputs)
        line("      if (m.stores) fusion::", keeps_ ? "store" : "scatter", "(r", inputs_ + k,
             keeps_ ? "" : ", a.rows.packed", ", i, n, y", k, ");");
    line("    }");
  }

  // --- The host. A part of a row goes through blocks that stay in the cache.

  void begin_host() {
    const auto block = [&](const std::string& type, char letter, size_t k) {
      line("  alignas(64) ", type, ' ', letter, k, "[fusion::kHostPart];");
    };
    for (size_t k = 0; k < inputs_; ++k)
      if (!b_.of_row[k]) block(compute(b_.arrays[k]), 'b', k);
    for (size_t k = 0; k < b_.outputs.size(); ++k)
      if (!b_.outputs[k].of_row) block(compute(b_.outputs[k].dtype), 'c', k);
    for (size_t k = 0; k < lines_.size(); ++k)
      if (kept_[k]) block(compute(b_.lines[k].dtype), 'q', k);
    line("  const int64_t n = a.rows.n;\n  for (int64_t row = first; row < end; ++row) {");
    rows();
  }
  void walk_host(bool outputs, const Pass& p) {
    line(
        "  for (int64_t k = 0; k < n; k += fusion::kHostPart) {\n"
        "    const int64_t m = n - k < fusion::kHostPart ? n - k : fusion::kHostPart;");
    for (const size_t k : p.makes)
      if (!outputs) line("    alignas(64) ", value_type(k), " w", k, "[fusion::kHostPart];");
    for (size_t k = 0; k < inputs_; ++k)
      if (p.array[k])
        line("    const ", compute(b_.arrays[k]), "* const p", k, " = fusion::fetch(r", k,
             ", k, m, b", k, ");");
    for (const size_t k : p.makes)
      if (outputs)
        line("    ", compute(b_.outputs[k].dtype), "* const y", k, " = fusion::place(r",
             inputs_ + k, ", k, c", k, ");");
    line(
        "#ifdef __clang__\n#pragma clang loop vectorize(assume_safety)\n#else\n"
        "#pragma GCC ivdep\n#endif\n    for (int64_t e = 0; e < m; ++e) {");
    for (size_t k = 0; k < inputs_; ++k)
      if (p.array[k]) line("      const ", compute(b_.arrays[k]), " x", k, " = p", k, "[e];");
    element_lines(p, "e");
    for (const size_t k : p.makes) {
      if (outputs)
        line("      y", k, "[e] = ", word(b_.outputs[k].from), ";");
      else
        line("      w", k, "[e] = static_cast<", value_type(k), ">(", word(b_.reductions[k].from),
             ");");
    }
    line("    }");
    for (const size_t k : p.makes) {
      if (outputs)
        line("    fusion::put(r", inputs_ + k, ", k, m, y", k, ");");
      else
        line("    fusion::add<", value_type(k), ">(g", k, ", t", k, ", w", k, ", m, k);");
    }
    line("  }");
  }

  const std::string& name_;
  const KernelBody& b_;
  const bool gpu_;
  const size_t inputs_;
  std::vector<Facts> lines_;
  int last_ = 0;  // the pass of the outputs
  // Of the function that is being written.
  bool keeps_ = false;
  std::vector<Pass> passes_;
  std::vector<bool> kept_;
  std::string text_;
};

}  // namespace

std::string text_of_row_kernel(const std::string& name, const KernelBody& body, bool gpu) {
  return RowWriter(name, body, gpu).text();
}

}  // namespace locus::fusion

// The generated text of reduction kernels, for both back ends.
#include <locus/ops/jit/reduction_definition.h>
#include <locus/ops/jit/text_writer.h>

namespace locus::jit {
namespace {

class Writer : TextWriter {
 public:
  Writer(const Specialization& s, bool gpu) : TextWriter(s, gpu), r_(reduction_of(s)) {}

  std::string text() {
    head("reduction.h");
    reduce_type();
    users_functions();
    arguments();
    kernel();
    if (gpu_)
      line("extern \"C\" __global__ void __launch_bounds__(jit::kBlockThreads) ", d_.name,
           "_reduce(const __grid_constant__ _Args a) { jit::reduce<_Kernel>(a); }");
    else
      host_functions();
    return text_ + "}  // namespace kernel\n";
  }

 private:
  bool input(size_t k) const { return k < d_.inputs; }
  bool has_identity() const { return !tokens_of(r_.texts.identity).empty(); }

  void reduce_type() {
    const std::string& type = d_.options.reduce_type;
    if (type.empty())
      line("using _R = ", compute(d_.inputs), ";");
    else if (const auto known = dtype_named(type))
      line("using _R = ", compute_type(*known), ";");
    else
      line("using _R =\n", quoted("reduce_type", type), "\n;");
  }

  void expression(const std::string& list, const std::string& title, const std::string& users) {
    line("LOCUS_HD _R _", title, "(", list, ") { return static_cast<_R>(\n", quoted(title, users),
         "\n); }");
  }
  void users_functions() {
    std::string map = d_.ordered ? "const int64_t i, const int64_t n" : "int64_t, const int64_t n";
    std::string post = "const int64_t n, const _R& a";
    for (size_t k = 0; k < d_.parameters.size(); ++k) {
      const std::string parameter = text_of(", _t", k, " ", d_.parameters[k].name);
      if (input(k)) map += parameter;
      if (!input(k) || kind_[k] != 'a') post += parameter;
    }
    expression(map, "map", r_.texts.map);
    expression("const _R& a, const _R& b", "reduce", r_.texts.reduce);
    if (has_identity()) expression("", "identity", r_.texts.identity);
    line("LOCUS_HD void _post(", post, ") {\n", quoted("post_map", r_.texts.post_map), "\n;}");
  }

  void arguments() {
    line("struct _Args {\n  jit::Reduction r;\n  jit::Array array[", arrays_,
         "];\n  jit::Steps down[", arrays_in(), "];");
    rest_of_args();
  }
  size_t arrays_in() const { return arrays_ - (d_.parameters.size() - d_.inputs); }

  // A call of _map. `value(k, at)` is that of input array `at`.
  std::string map(const auto& value) const {
    std::string list = "i, a.r.reduce.n";
    for (size_t k = 0; k < d_.inputs; ++k)
      list += ", " + (kind_[k] == 'a' ? value(k, place_[k]) : argument(k));
    return "_map(" + list + ")";
  }
  void each_input(const auto& f) const {
    each('a', [&](size_t k, size_t at) {
      if (input(k)) f(k, at);
    });
  }

  void kernel() {
    line("struct _Kernel {\n  using Args = _Args;\n  using R = _R;\n  enum { kIn = ", arrays_in(),
         ", kArrays = ", arrays_, ", kIdentity = ", has_identity() ? 1 : 0, " };");
    line("  LOCUS_HD static R join(const R& a, const R& b) { return _reduce(a, b); }");
    if (has_identity()) line("  LOCUS_HD static R identity() { return _identity(); }");
    post();
    if (gpu_)
      line("  LOCUS_HD static R map(const Args& a, const int64_t (&at)[kIn], int64_t i) {\n",
           "    return ", map([&](size_t k, size_t at) {
             return text_of("jit::get<", storage(k), ">(a.array[", at, "].data, at[", at, "])");
           }),
           ";\n  }");
    else
      staged();
    line("};");
  }
  void post() {
    line("  LOCUS_HD static void post(const Args& a, const int64_t (&at)[kArrays], const R& r) {");
    std::string list = "a.r.reduce.n, r";
    for (size_t k = 0; k < d_.parameters.size(); ++k) {
      const size_t at = place_[k];
      if (input(k)) {
        if (kind_[k] != 'a') list += ", " + argument(k);
        continue;
      }
      list += text_of(", v", at);
      line("    ", compute(k), " v", at,
           r_.sets_first[k]
               ? ""
               : text_of(" = jit::get<", storage(k), ">(a.array[", at, "].data, at[", at, "])"),
           ";");
    }
    line("    _post(", list, ");");
    each('a', [&](size_t k, size_t at) {
      if (!input(k))
        line("    jit::set<", storage(k), ">(a.array[", at, "].data, at[", at, "], v", at, ");");
    });
    line("  }");
  }
  // Elements of rows on the host: where they lie, or converted in buffers.
  void staged() {
    line("  struct Buffers {");
    each_input([&](size_t k, size_t at) {
      line("    alignas(64) ", compute(k), " b", at, "[jit::kStaged];");
    });
    line("  };\n  struct Pointers {");
    each_input([&](size_t k, size_t at) { line("    const ", compute(k), "* p", at, ";"); });
    line("  };\n  LOCUS_HD static Pointers fetch(Buffers& b, const jit::Loop& l, ",
         "const jit::Array (&array)[kIn], int64_t begin, int64_t n) {\n    return {");
    each_input([&](size_t k, size_t at) {
      line("        jit::fetch<", storage(k), ">(l, array[", at, "], begin, n, b.b", at, "),");
    });
    line("    };\n  }");
    line("  LOCUS_HD static R map(const Args& a, const Pointers& p, int64_t e, int64_t i) {\n",
         "    return ", map([](size_t, size_t at) { return text_of("p.p", at, "[e]"); }), ";\n  }");
    line("  static int64_t size(int k) {\n    constexpr int64_t sizes[] = {");
    each_input([&](size_t k, size_t) { line("        sizeof(", storage(k), "),"); });
    line("    };\n    return sizes[k];\n  }");
  }

  void host_functions() {
    const auto function = [&](const char* returns, const char* suffix, const char* list,
                              const char* body) {
      line("extern \"C\" __attribute__((visibility(\"default\"))) ", returns, ' ', d_.name, suffix,
           '(', list, ") { ", body, " }");
    };
    function("void", "_units", "const _Args& a, int64_t begin, int64_t end",
             "jit::HostReduction<_Kernel>(a).units(begin, end);");
    function("void", "_parts", "const _Args& a, int64_t u, int64_t begin, int64_t end, void* parts",
             "jit::HostReduction<_Kernel>(a).parts(u, begin, end, static_cast<_R*>(parts));");
    function("void", "_join", "const _Args& a, int64_t u, const void* parts",
             "jit::HostReduction<_Kernel>(a).join_parts(u, static_cast<const _R*>(parts));");
    function("int64_t", "_part_bytes", "", "return sizeof(_R);");
  }

  const ReductionDefinition& r_;
};

}  // namespace

std::string ReductionDefinition::text(const Specialization& s, bool gpu) const {
  return Writer(s, gpu).text();
}

}  // namespace locus::jit

// The generated text of elementwise kernels, for both back ends. It differs by dtypes, not by
// shapes, so a program compiles once for all shapes.
#include <algorithm>

#include <locus/ops/jit/element_definition.h>
#include <locus/ops/jit/text_writer.h>

namespace locus::jit {
namespace {

class Writer : TextWriter {
 public:
  Writer(const Specialization& s, bool gpu) : TextWriter(s, gpu), e_(definition_of(s)) {}

  std::string text() {
    head("element.h");
    body();
    if (gpu_) {
      if (!e_.indexed) flat();
      strided();
    } else {
      loop();
    }
    return text_ + "}  // namespace kernel\n";
  }

 private:
  void body() {
    // Without row-major order there is no i: a macro that uses it does not compile.
    std::string list = d_.ordered ? "const int64_t i, const int64_t n" : "int64_t, const int64_t n";
    if (e_.indexed) list += ", const jit::Index& _ind";
    for (size_t k = 0; k < d_.parameters.size(); ++k)
      list += text_of(", _t", k, " ", d_.parameters[k].name);
    line("LOCUS_HD void _body(", list, ") {\n", quoted("", e_.body), "\n;}");
    line("struct _Args {\n  jit::Loop loop;");
    if (arrays_ > 0) line("  jit::Array array[", arrays_, "];");
    rest_of_args();
    if (gpu_ && !e_.indexed) {
      line("struct _Flat {\n  int64_t n, packed;");
      if (arrays_ > 0) line("  jit::Line array[", arrays_, "];");
      rest_of_args();
    }
  }
  // A call of the body. `array(k, at)` is the value of array `at`, parameter k.
  std::string call(const std::string& i, const std::string& n, const std::string& index,
                   const auto& array) const {
    std::string list = i + ", " + n;
    if (e_.indexed) list += ", " + index;
    for (size_t k = 0; k < kind_.size(); ++k)
      list += ", " + (kind_[k] == 'a' ? array(k, place_[k]) : argument(k));
    return "_body(" + list + ");";
  }
  static std::string value(size_t, size_t at) { return text_of("v", at); }

  void loop() {
    line("extern \"C\" __attribute__((visibility(\"default\"))) void ", d_.name,
         "_loop(const _Args& a, int64_t begin, int64_t end, int64_t step) {");
    each('a', [&](size_t k, size_t at) {
      line("  alignas(64) ", compute(k), " b", at, "[jit::kStaged];");
    });
    line(
        "  for (int64_t at = begin; at < end; at += step) {\n"
        "    const int64_t m = end - at < step ? end - at : step;");
    each('a', [&](size_t k, size_t at) {
      const char* const constant = written(k) ? "" : "const ";
      if (e_.sets_first[k])
        line("    ", compute(k), "* const p", at, " = jit::place<", storage(k), ">(a.array[", at,
             "], at, b", at, ");");
      else
        line("    ", constant, compute(k), "* const p", at, " = jit::fetch<", storage(k),
             ">(a.loop, a.array[", at, "], at, m, b", at, ");");
    });
    // An iteration reads and writes only index e, so an output may be an input.
    if (!e_.scatters)
      line(
          "#ifdef __clang__\n#pragma clang loop vectorize(assume_safety)\n#else\n"
          "#pragma GCC ivdep\n#endif");
    line("    for (int64_t e = 0; e < m; ++e) {");
    each('a', [&](size_t k, size_t at) {
      if (written(k))
        line("      ", compute(k), " v", at,
             e_.sets_first[k] ? "" : text_of(" = jit::read(p", at, " + e)"), ";");
    });
    line("      ",
         call("at + e", "a.loop.n", "jit::Index(a.loop, at + e)", [&](size_t k, size_t at) {
           return written(k) ? value(k, at) : text_of("p", at, "[e]");
         }));
    each('a', [&](size_t k, size_t at) {
      if (written(k)) line("      p", at, "[e] = v", at, ";");
    });
    line("    }");
    each('a', [&](size_t k, size_t at) {
      if (written(k))
        line("    jit::put<", storage(k), ">(a.loop, a.array[", at, "], at, m, p", at, ");");
    });
    line("  }\n}");
  }

  void begin_gpu(const char* suffix, const char* args) {
    line("extern \"C\" __global__ void ", d_.name, suffix, "(const __grid_constant__ ", args,
         " a) {\n  const int64_t thread = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;");
  }

  // A loop over one axis. A thread computes a pack: 16 bytes of the widest array. One thread
  // computes the elements behind the last pack.
  void flat() {
    begin_gpu("_flat", "_Flat");
    line("  enum { E = ", pack_of(s_), " };\n  if (thread * E + E <= a.n) {");
    each('a', [&](size_t k, size_t at) { line("    jit::Pack<", storage(k), ", E> p", at, ";"); });
    const auto loads = [&](const char* load) {
      each('a', [&](size_t k, size_t at) {
        line("      p", at, " = jit::", load, "<", storage(k), ", E>(a.array[", at, "], thread);");
      });
    };
    const auto stores = [&](const char* store) {
      each('a', [&](size_t k, size_t at) {
        if (written(k)) line("      jit::", store, "(a.array[", at, "], thread, p", at, ");");
      });
    };
    line("    if (a.packed) {");
    loads("load");
    line("    } else {");
    loads("gather");
    line("    }");
    line("#pragma unroll\n    for (int e = 0; e < E; ++e) {");
    one([](size_t at) { return text_of("p", at, ".v"); }, [](size_t) { return "e"; },
        "thread * E + e", "a.n", "");
    line("    }");
    line("    if (a.packed) {");
    stores("store");
    line("    } else {");
    stores("scatter");
    line("    }");
    line("    return;\n  }\n#pragma unroll 1\n  for (int64_t i = thread * E; i < a.n; ++i) {");
    one([](size_t at) { return text_of("a.array[", at, "].data"); },
        [](size_t at) { return text_of("i * a.array[", at, "].stride"); }, "i", "a.n", "");
    line("  }\n}");
  }

  void strided() {
    begin_gpu("_strided", "_Args");
    line("  if (thread >= a.loop.n) return;");
    if (arrays_ > 0)
      line("  int64_t at[", arrays_, "] = {};\n  jit::locate(a.loop, a.array, thread, at);");
    one([](size_t at) { return text_of("a.array[", at, "].data"); },
        [](size_t at) { return text_of("at[", at, "]"); }, "thread", "a.loop.n",
        "jit::Index(a.loop, thread)");
    line("}");
  }
  // One element, at data(k) + offset(k).
  void one(const auto& data, const auto& offset, const char* i, const char* n, const char* index) {
    each('a', [&](size_t k, size_t at) {
      line("    ", compute(k), " v", at, " = jit::get<", storage(k), ">(", data(at), ", ",
           offset(at), ");");
    });
    line("    ", call(i, n, index, &Writer::value));
    each('a', [&](size_t k, size_t at) {
      if (written(k))
        line("    jit::set<", storage(k), ">(", data(at), ", ", offset(at), ", v", at, ");");
    });
  }

  const ElementDefinition& e_;
};

}  // namespace

std::string ElementDefinition::text(const Specialization& s, bool gpu) const {
  return Writer(s, gpu).text();
}

int pack_of(const Specialization& s) {
  int widest = 0;
  for (size_t k = 0; k < s.types.size(); ++k)
    if (!s.definition.parameters[k].raw && !s.types[k].number)
      widest = std::max(widest, size_of(s.types[k].dtype));
  return widest == 0 ? 1 : 16 / widest;
}

}  // namespace locus::jit

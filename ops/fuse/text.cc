// The generated text of fused kernels, for both back ends.
#include <algorithm>

#include <locus/core/base/text.h>
#include <locus/core/dtype.h>
#include <locus/ops/fuse/text.h>
#include <locus/ops/kernel/source.h>

namespace locus::fusion {

std::string storage(DType d) {
  static constexpr const char* kStorage[] = {"float",   "double",  "Half",   "BFloat16", "int32_t",
                                             "int64_t", "uint8_t", "int8_t", "bool"};
  return kStorage[static_cast<int>(d)];
}
std::string compute(DType d) { return d == f16 || d == bf16 ? "float" : storage(d); }

std::string word(const KernelBody::Operand& o) {
  return text_of("xnvs"[static_cast<int>(o.kind)], o.index);
}

std::string text_of_line(const KernelBody& body, size_t line) {
  const KernelBody::Line& l = body.lines[line];
  const std::string from = listed(l.from, &word),
                    left = text_of("const ", compute(l.dtype), " v", line, " = fusion::");
  if (!l.formula) return text_of(left, "stored<", storage(l.dtype), ">(", from, ");");
  const std::string formula =
      l.attributes < 0 ? text_of(l.formula->type, "()") : text_of('f', l.attributes);
  return text_of(left, "apply<", storage(l.dtype), ">(", formula, ", ", from, ");");
}

std::string headers_of(const char* first, bool gpu) {
  std::string text;
  if (!gpu)
    for (const char* word : {"__device__", "__host__", "__forceinline__", "__noinline__",
                             "LOCUS_ISA_NAMESPACE generated"})
      text += text_of("#define ", word, '\n');
  text += text_of("#include <", first, ">\n");
  for (const SourceFile& file : formula_source())
    if (std::string_view(file.name).ends_with("_kernel.h"))
      text += text_of("#include <", file.name, ">\n");
  return text;
}

std::string text_of_arguments(const KernelBody& body, const char* type, const std::string& first) {
  std::string text = text_of("struct ", type, " {\n  ", first, ";\n");
  if (!body.numbers.empty()) text += text_of("  uint64_t number[", body.numbers.size(), "];\n");
  for (size_t k = 0; k < body.attributes.size(); ++k)
    text += text_of("  ", body.attributes[k]->type, " f", k, ";\n");
  return text + "};\n";
}

std::string constants_of(const KernelBody& body) {
  std::string text;
  for (size_t k = 0; k < body.numbers.size(); ++k) {
    const std::string type = compute(body.numbers[k]);
    text += text_of("  const ", type, " n", k, " = jit::number<", type, ">(a.number[", k, "]);\n");
  }
  for (size_t k = 0; k < body.attributes.size(); ++k)
    text += text_of("  const ", body.attributes[k]->type, " f", k, " = a.f", k, ";\n");
  return text;
}

namespace {

class Writer {
 public:
  Writer(const std::string& name, const KernelBody& body, bool gpu)
      : name_(name), b_(body), gpu_(gpu), inputs_(body.arrays.size()) {}

  std::string text() {
    text_ = headers_of("locus/ops/fuse/body.h", gpu_);
    line("namespace kernel {\nusing namespace locus;");
    arguments("Args", "jit::Loop loop", "jit::Array");
    if (gpu_) arguments("Flat", "int64_t n, packed", "jit::Line");
    body();
    if (gpu_) {
      flat();
      strided();
    } else {
      loop();
    }
    return text_ + "}  // namespace kernel\n";
  }

 private:
  void line(const auto&... parts) { text_ += text_of(parts..., '\n'); }
  size_t arrays() const { return inputs_ + b_.outputs.size(); }
  DType dtype(size_t array) const {
    return array < inputs_ ? b_.arrays[array] : b_.outputs[array - inputs_].dtype;
  }

  void arguments(const char* type, const char* first, const char* array) {
    text_ += text_of_arguments(b_, type, text_of(first, ";\n  ", array, " array[", arrays(), "]"));
  }

  // Computes one element of each output.
  void body() {
    std::string list;
    const auto add = [&](const auto&... parts) {
      list += text_of(list.empty() ? "" : ", ", parts...);
    };
    for (size_t k = 0; k < inputs_; ++k) add("const ", compute(b_.arrays[k]), " x", k);
    for (size_t k = 0; k < b_.numbers.size(); ++k) add("const ", compute(b_.numbers[k]), " n", k);
    for (size_t k = 0; k < b_.attributes.size(); ++k)
      add("const ", b_.attributes[k]->type, "& f", k);
    for (size_t k = 0; k < b_.outputs.size(); ++k) add(compute(b_.outputs[k].dtype), "& y", k);
    line("LOCUS_HD void body(", list, ") {");
    for (size_t k = 0; k < b_.lines.size(); ++k) line("  ", text_of_line(b_, k));
    for (size_t k = 0; k < b_.outputs.size(); ++k)
      line("  y", k, " = ", word(b_.outputs[k].from), ";");
    line("}");
  }

  // A call of the body. `element`: follows the names of arrays.
  std::string call(const char* element) const {
    std::string list;
    const auto add = [&](const auto&... parts) {
      list += text_of(list.empty() ? "" : ", ", parts...);
    };
    for (size_t k = 0; k < inputs_; ++k) add("x", k, element);
    for (size_t k = 0; k < b_.numbers.size(); ++k) add("n", k);
    for (size_t k = 0; k < b_.attributes.size(); ++k) add("f", k);
    for (size_t k = 0; k < b_.outputs.size(); ++k) add("y", k, element);
    return "body(" + list + ");";
  }

  void loop() {
    line("extern \"C\" __attribute__((visibility(\"default\"))) void ", name_,
         "_loop(const Args& a, int64_t begin, int64_t end, int64_t step) {");
    text_ += constants_of(b_);
    for (size_t k = 0; k < inputs_; ++k)
      line("  alignas(64) ", compute(b_.arrays[k]), " b", k, "[jit::kStaged];");
    for (size_t k = 0; k < b_.outputs.size(); ++k)
      line("  alignas(64) ", compute(b_.outputs[k].dtype), " c", k, "[jit::kStaged];");
    line(
        "  for (int64_t at = begin; at < end; at += step) {\n"
        "    const int64_t m = end - at < step ? end - at : step;");
    for (size_t k = 0; k < inputs_; ++k)
      line("    const ", compute(b_.arrays[k]), "* const x", k, " = jit::fetch<",
           storage(b_.arrays[k]), ">(a.loop, a.array[", k, "], at, m, b", k, ");");
    for (size_t k = 0; k < b_.outputs.size(); ++k) {
      const DType d = b_.outputs[k].dtype;
      line("    ", compute(d), "* const y", k, " = jit::place<", storage(d), ">(a.array[",
           inputs_ + k, "], at, c", k, ");");
    }
    line(
        "#ifdef __clang__\n#pragma clang loop vectorize(assume_safety)\n#else\n"
        "#pragma GCC ivdep\n#endif\n    for (int64_t e = 0; e < m; ++e) ",
        call("[e]"));
    for (size_t k = 0; k < b_.outputs.size(); ++k)
      line("    jit::put<", storage(b_.outputs[k].dtype), ">(a.loop, a.array[", inputs_ + k,
           "], at, m, y", k, ");");
    line("  }\n}");
  }

  void begin_gpu(const char* suffix, const char* args) {
    line("extern \"C\" __global__ void ", name_, suffix, "(const __grid_constant__ ", args,
         " a) {\n  const int64_t thread = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;");
    text_ += constants_of(b_);
  }

  // A loop over one axis. A thread computes a pack: 16 bytes of the widest array. One thread
  // computes the elements behind the last pack.
  void flat() {
    begin_gpu("_flat", "Flat");
    line("  enum { E = ", pack_of(b_), " };\n  if (thread * E + E <= a.n) {");
    for (size_t k = 0; k < arrays(); ++k)
      line("    jit::Pack<", storage(dtype(k)), ", E> p", k, ";");
    const auto loads = [&](const char* load) {
      for (size_t k = 0; k < inputs_; ++k)
        line("      p", k, " = jit::", load, "<", storage(dtype(k)), ", E>(a.array[", k,
             "], thread);");
    };
    const auto stores = [&](const char* store) {
      for (size_t k = inputs_; k < arrays(); ++k)
        line("      jit::", store, "(a.array[", k, "], thread, p", k, ");");
    };
    line("    if (a.packed) {");
    loads("load");
    line("    } else {");
    loads("gather");
    line("    }\n#pragma unroll\n    for (int e = 0; e < E; ++e) {");
    one([](size_t k) { return text_of("p", k, ".v"); }, [](size_t) { return "e"; });
    line("    }\n    if (a.packed) {");
    stores("store");
    line("    } else {");
    stores("scatter");
    line(
        "    }\n    return;\n  }\n#pragma unroll 1\n  for (int64_t i = thread * E; i < a.n; ++i) "
        "{");
    one([](size_t k) { return text_of("a.array[", k, "].data"); },
        [](size_t k) { return text_of("i * a.array[", k, "].stride"); });
    line("  }\n}");
  }
  void strided() {
    begin_gpu("_strided", "Args");
    line("  if (thread >= a.loop.n) return;\n  int64_t at[", arrays(),
         "] = {};\n  jit::locate(a.loop, a.array, thread, at);");
    one([](size_t k) { return text_of("a.array[", k, "].data"); },
        [](size_t k) { return text_of("at[", k, "]"); });
    line("}");
  }
  // One element, at data(k) + offset(k).
  void one(const auto& data, const auto& offset) {
    for (size_t k = 0; k < inputs_; ++k)
      line("    const ", compute(b_.arrays[k]), " x", k, " = jit::get<", storage(b_.arrays[k]),
           ">(", data(k), ", ", offset(k), ");");
    for (size_t k = 0; k < b_.outputs.size(); ++k)
      line("    ", compute(b_.outputs[k].dtype), " y", k, ";");
    line("    ", call(""));
    for (size_t k = 0; k < b_.outputs.size(); ++k)
      line("    jit::set<", storage(b_.outputs[k].dtype), ">(", data(inputs_ + k), ", ",
           offset(inputs_ + k), ", y", k, ");");
  }

  const std::string& name_;
  const KernelBody& b_;
  const bool gpu_;
  const size_t inputs_;
  std::string text_;
};

// The constants of formulas (form.h) that no formula computes with.
constexpr const char* kConstants[] = {"unsigned kInRange", "double kLow", "double kHigh", "bool k",
                                      "const char* k"};

std::string without_constants(std::string_view text) {
  std::string rest;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    const bool constant = std::ranges::any_of(kConstants, [&](const char* c) {
      return line.starts_with(text_of("  static constexpr ", c));
    });
    if (!constant) rest += line;
    text.remove_prefix(end);
  }
  return rest;
}

}  // namespace

std::span<const SourceFile> gpu_headers() {
  static const std::vector<SourceFile>& headers = *[] {
    auto* const all = new std::vector<SourceFile>;
    for (const SourceFile& file : formula_source()) {
      const std::string_view name = file.name;
      const bool constants = name.ends_with("_kernel.h") || name.starts_with("locus/ops/reduce/");
      all->push_back({file.name, constants
                                     ? (new std::string(without_constants(file.text)))->c_str()
                                     : file.text});
    }
    return all;
  }();
  return headers;
}

std::string text_of_kernel(const std::string& name, const KernelBody& body, bool gpu) {
  return Writer(name, body, gpu).text();
}

}  // namespace locus::fusion

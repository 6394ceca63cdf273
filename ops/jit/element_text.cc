// The generated text of elementwise kernels, for both back ends. It differs by dtypes, not by
// shapes, so a program compiles once for all shapes.
#include <algorithm>

#include <locus/core/base/text.h>
#include <locus/ops/jit/definition.h>

namespace locus::jit {
namespace {

constexpr const char* kStorage[] = {"float",   "double",  "Half",   "BFloat16", "int32_t",
                                    "int64_t", "uint8_t", "int8_t", "bool"};

// The preamble: #include lines go to the front of the text, and leave empty lines behind.
struct Preamble {
  std::string includes, rest;

  explicit Preamble(const std::string& text) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string line = text.substr(begin, end - begin);
      const std::string_view word = trimmed(line);
      const bool include = word.starts_with("#") && trimmed(word.substr(1)).starts_with("include");
      (include ? includes : rest) += line + '\n';
      if (include) rest += '\n';
      begin = end + 1;
    }
  }
};

class Writer {
 public:
  Writer(const Specialization& s, bool gpu) : s_(s), d_(s.definition), gpu_(gpu) {
    for (size_t k = 0; k < d_.parameters.size(); ++k) {
      const bool number = s.types[k].number || (d_.pointers && !d_.parameters[k].raw);
      const bool raw = d_.parameters[k].raw;
      place_.push_back(raw ? raws_++ : number ? numbers_++ : arrays_++);
      kind_.push_back(raw ? 'r' : number ? 'n' : 'a');
    }
  }

  std::string text() {
    head();
    if (gpu_) {
      if (!d_.indexed) flat();
      strided();
    } else {
      loop();
    }
    return text_ + "}  // namespace kernel\n";
  }

 private:
  void line(const auto&... parts) { text_ += text_of(parts..., '\n'); }

  std::string storage(size_t k) const { return kStorage[static_cast<int>(s_.types[k].dtype)]; }
  std::string compute(size_t k) const {
    const DType d = s_.types[k].dtype;
    return d == f16 || d == bf16 ? "float" : storage(k);
  }
  bool written(size_t k) const { return d_.parameters[k].written; }
  bool half(size_t k) const { return s_.types[k].dtype == f16 || s_.types[k].dtype == bf16; }
  // Whether the body gets the address itself.
  bool address(size_t k) const { return d_.parameters[k].pointer && !half(k); }
  std::string raw_type(size_t k) const {
    return text_of("jit::Raw<", written(k) ? "" : "const ", storage(k), ">");
  }
  // f(k, number among them) for parameters of a kind.
  void each(char kind, const auto& f) const {
    for (size_t k = 0; k < kind_.size(); ++k)
      if (kind_[k] == kind) f(k, place_[k]);
  }

  void head() {
    const Preamble preamble(d_.options.preamble);
    if (!gpu_)
      for (const char* word : {"__device__", "__host__", "__forceinline__", "__noinline__"})
        line("#define ", word);
    line("#include <locus/ops/jit/element.h>\n#include <locus/ops/jit/names.h>");
    text_ += preamble.includes;
    line("namespace kernel {");
    std::string known;
    for (size_t k = 0; k < d_.parameters.size(); ++k) {
      const std::string& letter = d_.parameters[k].letter;
      if (letter.empty() || known.find(letter) != known.npos) continue;
      known += letter;
      line("using ", letter, " = ", compute(k), ";");
    }
    if (!d_.options.preamble.empty())
      line("#line 1 \"", d_.name, ": preamble\"\n", preamble.rest, "\n#line 1 \"(generated)\"");
    // Aliases: a parameter's name may hide what a later type is made of.
    // Without row-major order there is no i: a macro that uses it does not compile.
    std::string list = d_.ordered ? "const int64_t i, const int64_t n" : "int64_t, const int64_t n";
    if (d_.indexed) list += ", const jit::Index& _ind";
    for (size_t k = 0; k < d_.parameters.size(); ++k) {
      const char* const constant = written(k) ? "" : "const ";
      line("using _t", k, " = ",
           kind_[k] != 'r' ? text_of(constant, compute(k), written(k) ? "&" : "")
           : address(k)    ? text_of(constant, storage(k), "*")
                           : text_of("const ", raw_type(k), "&"),
           ";");
      list += text_of(", _t", k, " ", d_.parameters[k].name);
    }
    line("LOCUS_HD void _body(", list, ") {\n#line 1 \"", d_.name, "\"\n", d_.body,
         "\n#line 100 \"(generated)\"\n}");
    line("struct _Args {\n  jit::Loop loop;");
    if (arrays_ > 0) line("  jit::Array array[", arrays_, "];");
    rest_of_args();
    if (gpu_ && !d_.indexed) {
      line("struct _Flat {\n  int64_t n, packed;");
      if (arrays_ > 0) line("  jit::Line array[", arrays_, "];");
      rest_of_args();
    }
  }
  void rest_of_args() {
    if (numbers_ > 0) line("  uint64_t number[", numbers_, "];");
    each('r', [&](size_t k, size_t at) { line("  ", raw_type(k), " raw", at, ";"); });
    line("};");
  }

  // A call of the body. `array(k, at)` is the value of array `at`, parameter k.
  std::string call(const std::string& i, const std::string& n, const std::string& index,
                   const auto& array) const {
    std::string list = i + ", " + n;
    if (d_.indexed) list += ", " + index;
    for (size_t k = 0; k < kind_.size(); ++k) {
      const size_t at = place_[k];
      list += ", ";
      if (kind_[k] == 'a')
        list += array(k, at);
      else if (kind_[k] == 'n')
        list += text_of("jit::number<", compute(k), ">(a.number[", at, "])");
      else
        list += text_of("a.raw", at, address(k) ? ".data" : "");
    }
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
      if (d_.sets_first[k])
        line("    ", compute(k), "* const p", at, " = jit::place<", storage(k), ">(a.array[", at,
             "], at, b", at, ");");
      else
        line("    ", constant, compute(k), "* const p", at, " = jit::fetch<", storage(k),
             ">(a.loop, a.array[", at, "], at, m, b", at, ");");
    });
    // An iteration reads and writes only index e, so an output may be an input.
    if (!d_.raw_outputs)
      line(
          "#ifdef __clang__\n#pragma clang loop vectorize(assume_safety)\n#else\n"
          "#pragma GCC ivdep\n#endif");
    line("    for (int64_t e = 0; e < m; ++e) {");
    each('a', [&](size_t k, size_t at) {
      if (written(k))
        line("      ", compute(k), " v", at,
             d_.sets_first[k] ? "" : text_of(" = jit::read(p", at, " + e)"), ";");
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
    line("  enum { E = ", s_.pack(), " };\n  if (thread * E + E <= a.n) {");
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

  const Specialization& s_;
  const Definition& d_;
  const bool gpu_;
  std::string text_;
  std::vector<char> kind_;     // by parameter: array, number or raw
  std::vector<size_t> place_;  // among those of its kind
  size_t arrays_ = 0, numbers_ = 0, raws_ = 0;
};

}  // namespace

std::string Specialization::text(bool gpu) const { return Writer(*this, gpu).text(); }

int Specialization::pack() const {
  int widest = 0;
  for (size_t k = 0; k < types.size(); ++k)
    if (!definition.parameters[k].raw && !types[k].number)
      widest = std::max(widest, size_of(types[k].dtype));
  return widest == 0 ? 1 : 16 / widest;
}

}  // namespace locus::jit

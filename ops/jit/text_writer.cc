#include <locus/ops/jit/text_writer.h>

#include <algorithm>

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

}  // namespace

std::string compute_type(DType d) {
  return kStorage[static_cast<int>(d == f16 || d == bf16 ? f32 : d)];
}

TextWriter::TextWriter(const Specialization& s, bool gpu) : s_(s), d_(s.definition), gpu_(gpu) {
  for (size_t k = 0; k < d_.parameters.size(); ++k) {
    const bool number = s.types[k].number || (d_.pointers && !d_.parameters[k].raw);
    const bool raw = d_.parameters[k].raw;
    place_.push_back(raw ? raws_++ : number ? numbers_++ : arrays_++);
    kind_.push_back(raw ? 'r' : number ? 'n' : 'a');
  }
}

std::string TextWriter::storage(size_t k) const {
  return kStorage[static_cast<int>(s_.types[k].dtype)];
}
std::string TextWriter::compute(size_t k) const { return compute_type(s_.types[k].dtype); }

std::string TextWriter::raw_type(size_t k) const {
  return text_of("jit::Raw<", written(k) ? "" : "const ", storage(k), ">");
}

void TextWriter::head(std::string_view header) {
  const Preamble preamble(d_.options.preamble);
  if (!gpu_)
    for (const char* word : {"__device__", "__host__", "__forceinline__", "__noinline__"})
      line("#define ", word);
  line("#include <locus/ops/jit/", header, ">\n#include <locus/ops/jit/names.h>");
  text_ += preamble.includes;
  line("namespace kernel {");
  std::string known;
  for (size_t k = 0; k < d_.parameters.size(); ++k) {
    const std::string& letter = d_.parameters[k].letter;
    if (letter.empty() || known.find(letter) != known.npos) continue;
    known += letter;
    line("using ", letter, " = ", compute(k), ";");
  }
  if (!d_.options.preamble.empty()) line(quoted("preamble", preamble.rest));
  for (size_t k = 0; k < d_.parameters.size(); ++k) {
    const char* const constant = written(k) ? "" : "const ";
    line("using _t", k, " = ",
         kind_[k] != 'r' ? text_of(constant, compute(k), written(k) ? "&" : "")
         : address(k)    ? text_of(constant, storage(k), "*")
                         : text_of("const ", raw_type(k), "&"),
         ";");
  }
}

std::string TextWriter::quoted(const std::string& title, std::string_view users) const {
  return text_of("#line 1 \"", d_.name, title.empty() ? "" : ": ", title, "\"\n", users,
                 "\n#line 100 \"(generated)\"");
}

void TextWriter::rest_of_args() {
  if (numbers_ > 0) line("  uint64_t number[", numbers_, "];");
  each('r', [&](size_t k, size_t at) { line("  ", raw_type(k), " raw", at, ";"); });
  line("};");
}

std::string TextWriter::argument(size_t k) const {
  if (kind_[k] == 'n') return text_of("jit::number<", compute(k), ">(a.number[", place_[k], "])");
  return text_of("a.raw", place_[k], address(k) ? ".data" : "");
}

}  // namespace locus::jit

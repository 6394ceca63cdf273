#include <locus/ops/raw/signature.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include <locus/core/error.h>

namespace locus::raw {
namespace {

// A type and its other names.
struct Type {
  std::string_view name, others;
};
constexpr Type kTypes[] = {
    {"f32", "float32, float"},
    {"f64", "float64, double"},
    {"f16", "float16, half, __half"},
    {"bf16", "bfloat16, __nv_bfloat16"},
    {"i8", "int8, int8_t, char, signed char"},
    {"i16", "int16, int16_t, short, short int"},
    {"i32", "int32, int32_t, int"},
    {"i64", "int64, int64_t, long, long int, long long, long long int"},
    {"u8", "uint8, uint8_t, unsigned char"},
    {"u16", "uint16, uint16_t, unsigned short, unsigned short int"},
    {"u32", "uint32, uint32_t, unsigned, unsigned int"},
    {"u64",
     "uint64, uint64_t, size_t, unsigned long, unsigned long int, unsigned long long, "
     "unsigned long long int"},
    {"bool", "bool_"}};

// "f32" for each name of a type, or "".
std::string type_of(std::string_view name) {
  for (const Type& t : kTypes)
    if (name == t.name ||
        text_of(", ", t.others, ", ").find(text_of(", ", name, ", ")) != std::string::npos)
      return std::string(t.name);
  return "";
}

// Words, and * ? and commas alone.
std::vector<std::string> tokens(std::string_view text) {
  std::vector<std::string> all;
  bool word = false;  // the last token goes on
  for (const char c : text) {
    const bool blank = std::isspace(static_cast<unsigned char>(c));
    const bool mark = c == '*' || c == '?' || c == ',';
    if (!blank && word && !mark)
      all.back() += c;
    else if (!blank)
      all.emplace_back(1, c);
    word = !blank && !mark;
  }
  return all;
}

// Words that are one type become one token, with single blanks: "unsigned long long".
std::vector<std::string> joined(const std::vector<std::string>& words) {
  constexpr size_t kMostWords = 4;
  std::vector<std::string> all;
  for (size_t at = 0; at < words.size();) {
    size_t taken = 1;
    std::string type = words[at], longer = type;
    for (size_t n = 1; n < kMostWords && at + n < words.size(); ++n) {
      longer += ' ' + words[at + n];
      if (type_of(longer).empty()) continue;
      type = longer;
      taken = n + 1;
    }
    all.push_back(type);
    at += taken;
  }
  return all;
}

std::string count(size_t n, const char* what) { return text_of(n, ' ', what, n == 1 ? "" : "s"); }

std::string shown(const Dim3& d) { return text_of('(', d.x, ", ", d.y, ", ", d.z, ')'); }

int64_t threads(const LaunchShape& shape) { return shape.block.x * shape.block.y * shape.block.z; }

// The type of argument i as a signature names it.
std::string type_of(const RawArg& a) {
  if (a.tensor()) return text_of(locus::name(a.tensor()->dtype()), '*');
  return *a.type() ? a.type() : text_of(a.bytes(), " bytes");
}

bool suits(const Parameter& p, const RawArg& a) {
  if (p.any) return true;
  if (a.tensor())
    return p.pointer && (p.type.empty() || p.type == locus::name(a.tensor()->dtype()));
  const std::string_view type = a.type();
  return p.pointer ? type == "*" : type == p.type;
}

}  // namespace

std::vector<Parameter> parse_signature(std::string_view who, std::string_view text) {
  std::vector<Parameter> all;
  bool constant = false;
  bool open = false;  // a star makes the last type a pointer
  const auto refuse = [&](const std::string& word) {
    throw ValueError(who, ": the signature \"", text, "\" has \"", word, "\"; expected ",
                     listed(kTypes, &Type::name, " "),
                     " or a name of C++ such as unsigned int, a pointer such as \"f32*\" or "
                     "\"const f32*\", \"*\" for any pointer, or \"?\" for any argument");
  };
  for (const std::string& token : joined(tokens(text))) {
    if (token == "const") {
      if (constant) refuse("const const");
      constant = true;
    } else if (token == ",") {
      open = false;
    } else if (token == "*") {
      if (!open) all.push_back({.text = constant ? "const " : "", .constant = constant});
      all.back().pointer = true;
      all.back().text += '*';
      constant = open = false;
    } else {
      const std::string type = type_of(token);
      if (type.empty() && token != "?") refuse(token);
      all.push_back({.text = (constant ? "const " : "") + token,
                     .any = token == "?",
                     .constant = constant,
                     .type = type});
      constant = false;
      open = token != "?";
    }
  }
  if (constant) refuse("const");
  return all;
}

std::string described(std::span<const RawArg> args, size_t i) {
  const RawArg& a = args[i];
  if (a.tensor()) return text_of(i, " (", describe(*a.tensor()), ')');
  return text_of(i, " (", *a.type() ? text_of(a.type(), ", ") : "", count(a.bytes(), "byte"), ')');
}

void check_signature(std::string_view who, std::span<const Parameter> signature,
                     std::span<const RawArg> args) {
  const auto listed_types = [&] { return listed(signature, &Parameter::text); };
  if (args.size() != signature.size())
    throw ValueError(who, ": ", count(args.size(), "argument"), "; expected ", signature.size(),
                     " by the signature (", listed_types(), ')');
  for (size_t i = 0; i < args.size(); ++i)
    if (!suits(signature[i], args[i]))
      throw DTypeError(who, ": argument ", described(args, i), " is ", type_of(args[i]),
                       "; expected ", signature[i].text, " by the signature (", listed_types(),
                       "); convert it: a tensor with astype(), a number with a cast");
}

void check_shape(std::string_view who, const LaunchShape& shape) {
  constexpr int64_t kMostX = (int64_t{1} << 31) - 1, kMostYZ = 65535;
  const Dim3 &g = shape.grid, &b = shape.block;
  if (g.x < 1 || g.x > kMostX || g.y < 1 || g.y > kMostYZ || g.z < 1 || g.z > kMostYZ)
    throw ValueError(who, ": the grid is ", shown(g),
                     "; expected 1 to 2147483647 blocks in x, and 1 to 65535 in y and z");
  if (b.x < 1 || b.x > 1024 || b.y < 1 || b.y > 1024 || b.z < 1 || b.z > 64 ||
      threads(shape) > 1024)
    throw ValueError(who, ": the block is ", shown(b),
                     b.x > 0 && b.x <= 1024 && b.y > 0 && b.y <= 1024 && b.z > 0 && b.z <= 64
                         ? text_of(", ", threads(shape), " threads")
                         : "",
                     "; expected 1 to 1024 threads in x and y, 1 to 64 in z, and at most 1024 in "
                     "all");
  if (shape.shared < 0)
    throw ValueError(who, ": ", shape.shared, " bytes of shared memory; expected 0 or more");
}

void check_shape(std::string_view who, const LaunchShape& shape, const KernelFunction& f,
                 Context c) {
  const KernelAttributes& a = f.attributes();
  if (threads(shape) > a.max_threads)
    throw ValueError(who, ": blocks of ", threads(shape), " threads; on ", c,
                     " the kernel runs with at most ", a.max_threads, ", for it needs ",
                     count(static_cast<size_t>(a.registers), "register"),
                     " a thread; use smaller blocks, or declare __launch_bounds__");
  if (shape.shared > a.max_shared)
    throw ValueError(who, ": ", shape.shared, " bytes of dynamic shared memory; ", c, " has ",
                     a.max_shared, " a block, besides ", a.shared_bytes,
                     " that the kernel declares; use less");
  if (!shape.cooperative) return;
  if (!a.cooperative)
    throw UnsupportedOnContext(who, ": ", c,
                               " has no cooperative launches; use several launches, "
                               "which run one after the other");
  const int64_t most = f.max_active_blocks(shape);
  // No overflow: the grid was checked, and y * z < 2^32.
  if (shape.grid.x > most || shape.grid.y * shape.grid.z > most ||
      shape.grid.x * shape.grid.y * shape.grid.z > most)
    throw ValueError(who, ": the grid is ", shown(shape.grid), " in a cooperative launch; ", c,
                     " runs at most ", most,
                     " such blocks at a time; use fewer, each for more "
                     "elements");
}

void check_sizes(std::string_view who, std::span<const RawArg> args,
                 std::span<const size_t> parameters) {
  const auto all = [&] {
    std::string text;
    for (size_t i = 0; i < args.size(); ++i)
      text += text_of(i == 0 ? ": " : ", ", described(args, i));
    return text;
  };
  if (args.size() != parameters.size())
    throw ValueError(who, ": ", count(args.size(), "argument"), all(), "; the kernel has ",
                     count(parameters.size(), "parameter"), parameters.empty() ? "" : ", of ",
                     listed(parameters), parameters.empty() ? "" : " bytes");
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].bytes() != parameters[i])
      throw ValueError(who, ": argument ", described(args, i), "; the kernel's parameter ", i,
                       " has ", count(parameters[i], "byte"),
                       "; pass its C++ type: int64_t{n}, 2.5f, a struct of the same members");
}

}  // namespace locus::raw

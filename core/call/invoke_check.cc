#include <locus/core/call/invoke_check.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <locus/core/base/empty_tensor.h>
#include <locus/core/base/layout.h>
#include <locus/core/device.h>
#include <locus/core/error.h>

namespace locus::detail {
namespace {

// The name of operand i; the first n are inputs.
std::string argument_name(const Op& op, size_t i, size_t n) {
  if (i >= n) return op.n_out == 1 ? "out" : "out " + std::to_string(i - n);
  if (i < op.arguments.size()) return op.arguments[i];
  if (n == 2 && op.arguments.empty()) return i == 0 ? "lhs" : "rhs";
  return "input " + std::to_string(i);
}

// The first eight defined operands, and operand `about`.
std::string list_operands(const Op& op, std::span<const Ref> all, size_t n_in, size_t about = 0) {
  std::string text;
  size_t n = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].tensor_->defined() || (++n > 8 && i != about)) continue;
    const char* const before = n == 1 ? "" : n > 9 ? ", ..., " : ", ";
    text += before + argument_name(op, i, n_in) + " " + describe(*all[i].tensor_);
  }
  return n <= 8 ? text : text + ", ... (" + std::to_string(n) + " operands)";
}

[[noreturn]] void context_mismatch(const Op& op, std::span<const Ref> all, size_t n_in,
                                   size_t first, size_t other) {
  const std::string a = argument_name(op, first, n_in), b = argument_name(op, other, n_in);
  const std::string here = to_string(all[first].tensor_->context());
  const std::string text =
      op.name + ": operands live on different contexts: " + list_operands(op, all, n_in, other);
  if (other >= n_in) throw ContextMismatch(text, "; expected ", b, " on ", here);
  throw ContextMismatch(text, "; move one first: ", b, ".as_in_context(", here, ") or ", a,
                        ".as_in_context(", all[other].tensor_->context(), ")");
}

std::string count(int n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

[[noreturn]] void wrong_inputs(const Op& op, std::span<const Ref> in) {
  std::string wanted = count(op.min_in, "input");
  if (op.max_in == Op::kAny)
    wanted = "at least " + wanted;
  else if (op.max_in != op.min_in)
    wanted = std::to_string(op.min_in) + " to " + count(op.max_in, "input");
  for (size_t i = 0; i < op.arguments.size(); ++i)
    wanted += (i == 0 ? " (" : ", ") + op.arguments[i] + (i + 1 == op.arguments.size() ? ")" : "");
  throw Error(op.name, ": expected ", wanted, ", got ", in.size(),
              in.empty() ? "" : ": " + list_operands(op, in, in.size()));
}

[[noreturn]] void wrong_outputs(const Op& op, int has, size_t n) {
  if (op.n_out == Op::kAny)
    throw Error(op.name, ": its attributes say how many results it has; call invoke_into");
  throw Error(op.name, ": the op has ", count(has, "result"), ", and the call expects ", n,
              "; call invoke for an op of one result, invoke_all for several");
}

struct Target {
  ByteRange range;
  size_t operand;
};

}  // namespace

void check_attrs(const Op& op, const std::type_info& given) {
  if (given != *op.attrs_type)  // by name, too: each shared library has its own type_info
    throw ValueError(op.name, ": expected attributes of type ", type_name(*op.attrs_type), ", got ",
                     type_name(given));
}

void rethrow(const Op& op, std::span<const Ref> in) {
  std::rethrow_exception(reworded([&](const std::string& text) {
    return op.name + ": " + list_operands(op, in, in.size()) + (in.empty() ? "" : ": ") + text;
  }));
}

void rethrow(const Op& op, std::span<const Ref> in, size_t about) {
  std::rethrow_exception(reworded([&](const std::string& text) {
    return op.name + ": " + argument_name(op, about, in.size()) + " " +
           describe(*in[about].tensor_) + ": " + text;
  }));
}

void rethrow_out_of_memory(const Op& op, std::span<const Ref> in) {
  std::rethrow_exception(reworded([&](const std::string& text) {
    if (find_op(text.substr(0, text.find(':')))) return text;
    return op.name + ": " + list_operands(op, in, in.size()) + (in.empty() ? "" : ": ") + text;
  }));
}

void check_call(const Op& op, std::span<const Ref> in, const AttrsView& attrs, size_t n_out) {
  const int n = static_cast<int>(in.size());
  if (n < op.min_in || (n > op.max_in && op.max_in != Op::kAny)) [[unlikely]]
    wrong_inputs(op, in);
  const int has = op.results(in.size());
  if (has == Op::kAny ? n_out == 0 : static_cast<size_t>(has) != n_out) [[unlikely]]
    wrong_outputs(op, has, n_out);
  if (attrs.type != op.attrs_type) [[unlikely]]
    check_attrs(op, *attrs.type);
  if (!op.infer && !op.make_view && !op.function) [[unlikely]]
    throw Error(op.name, ": is not complete; OpDef needs infer(), view() or function()");
}

void is_view(const Op& op) {
  throw Error(op.name, ": a view op returns a view and writes into no target; copy its ",
              "result: y.copyto(target)");
}

void no_kernel(const Op& op, std::span<const Ref> in, Context c, DeviceType type, DType dtype) {
  std::string listed;
  for (int d = 0; d < kNumDTypes; ++d)
    if (op.kernel(type, static_cast<DType>(d)))
      listed += std::string(listed.empty() ? "" : ", ") + name(static_cast<DType>(d));
  throw DTypeError(op.name, ": ", list_operands(op, in, in.size()), in.empty() ? "" : ": ",
                   "no kernel for ", name(dtype), " on ", c, "; ",
                   listed.empty() ? "it has none for this device" : "expected one of " + listed);
}

void empty_operand(const Op& op, size_t i, size_t n_in) {
  throw_empty(op.name, argument_name(op, i, n_in));
}

Context common_context(const Op& op, std::span<const Ref> all, size_t n_in) {
  const auto to_be_made = [&](size_t i) { return i >= n_in && !all[i].tensor_->defined(); };
  size_t first = 0;
  while (to_be_made(first)) ++first;
  Context c = checked(op, all[first], first, n_in).context;
  for (size_t i = first + 1; i < all.size(); ++i) {
    if (to_be_made(i)) continue;
    const Context other = checked(op, all[i], i, n_in).context;
    if (other == c) [[likely]]
      continue;
    if (!mix(c, other)) context_mismatch(op, all, n_in, first, i);
    if (c.type == DeviceType::cpu_pinned) c = other, first = i;
  }
  return c.type == DeviceType::cpu_pinned ? cpu(0) : c;
}

void check_apart(const Op& op, std::span<const Ref> all, size_t n_in) {
  std::vector<Target> targets;
  targets.reserve(all.size() - n_in);
  for (size_t i = n_in; i < all.size(); ++i)
    if (all[i].tensor_->defined() && all[i].tensor_->size() > 0)
      targets.push_back({byte_range(all[i].tensor_->handle()->view), i});
  std::ranges::sort(targets, std::less<>(), [](const Target& t) { return t.range.begin; });
  for (auto a = targets.begin(); a != targets.end(); ++a)
    for (auto b = a + 1; b != targets.end() && b->range.begin < a->range.end; ++b) {
      if (!share_bytes(a->range, b->range)) continue;
      const auto [first, second] = std::minmax(a->operand, b->operand);
      throw ValueError(op.name, ": ", argument_name(op, first, n_in), " and ",
                       argument_name(op, second, n_in),
                       " share memory: ", list_operands(op, all, n_in, second),
                       "; expected targets that share no memory");
    }
}

}  // namespace locus::detail

// fuse() makes one kernel of a function that is written with elementwise ops, casts, broadcasts and
// reductions of rows.
//
//   Fused f = fuse([](const Tensor& x, const Tensor& y) { return x * y + exp(x); }, "mul_exp");
//   const Tensor z = f(x, y);  // one launch; the bits of x * y + exp(x)
//
// The first call with new dtypes, shapes, layouts or numbers traces the function: its ops are noted
// and do not run. The kernel is compiled as kernels of ops/kernels.h are; equal functions of other
// shapes share its code. Gradients are fused, too. A function that cannot be traced runs as it is;
// describe() says why. A Fused is a handle. Copies share traces and code. Threads: any.
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

struct FuseStats {
  size_t traces = 0;      // so far, gradients' not counted
  size_t signatures = 0;  // that are kept
  size_t kernels = 0;     // launches of a call with the signature traced last; 0: not fused
};

namespace fusion {

// The function for numbers and lists of certain lengths, as a function of a list of tensors.
class Body {
 public:
  virtual ~Body() = default;
  virtual Tensors run(const Tensors& in) const = 0;
  virtual std::shared_ptr<const Body> keep() const = 0;
};

class Function;
std::shared_ptr<Function> make(std::string name, Caller from);
// `key`: the numbers and lengths.
Tensors call(Function& f, const Body& body, const Tensors& in, const std::vector<uint64_t>& key,
             Caller from);
FuseStats stats(const Function& f);
std::string describe(const Function& f);
uint64_t bits_of(double number);

template <class T>
concept List = std::same_as<std::remove_cvref_t<T>, Tensors>;
template <class T>
concept Number = std::is_arithmetic_v<std::remove_cvref_t<T>> &&
    !std::same_as<std::remove_cvref_t<T>, long double>;
template <class T>
concept Argument = (std::same_as<std::remove_cvref_t<T>, Tensor> || List<T> ||
                    Number<T>)&&!(std::is_lvalue_reference_v<T> &&
                                  !std::is_const_v<std::remove_reference_t<T>>);

// What a body keeps of an argument: a number, or how many tensors it is.
template <Argument T>
using Part = std::conditional_t<Number<T>, std::remove_cvref_t<T>, size_t>;

template <Argument T>
Part<T> take(const std::remove_cvref_t<T>& argument, Tensors& in, std::vector<uint64_t>& key) {
  if constexpr (Number<T>) {
    if constexpr (std::is_floating_point_v<std::remove_cvref_t<T>>)
      key.push_back(bits_of(static_cast<double>(argument)));
    else
      key.push_back(static_cast<uint64_t>(argument));
    return argument;
  } else if constexpr (List<T>) {
    in.insert(in.end(), argument.begin(), argument.end());
    key.push_back(argument.size());
    return argument.size();
  } else {
    in.push_back(argument);
    return 1;
  }
}
template <Argument T>
std::remove_cvref_t<T> give(const Part<T>& part, const Tensors& in, size_t& at) {
  if constexpr (Number<T>) {
    return part;
  } else if constexpr (List<T>) {
    const auto begin = in.begin() + static_cast<ptrdiff_t>(at);
    at += part;
    return Tensors(begin, begin + static_cast<ptrdiff_t>(part));
  } else {
    return in[at++];
  }
}

inline Tensors to_list(Tensor result) { return {std::move(result)}; }
inline Tensors to_list(Tensors results) { return results; }
template <class Tuple>
requires requires { std::tuple_size<Tuple>::value; }
Tensors to_list(const Tuple& results) {
  return std::apply([](const auto&... t) { return Tensors{t...}; }, results);
}
template <class R>
R from_list(Tensors list) {
  if constexpr (std::same_as<R, Tensors>) {
    return list;
  } else if constexpr (std::same_as<R, Tensor>) {
    return std::move(list[0]);
  } else {
    return [&]<size_t... I>(std::index_sequence<I...>) { return R{std::move(list[I])...}; }
    (std::make_index_sequence<std::tuple_size_v<R>>());
  }
}

template <class R, class... A>
class BodyOf : public Body {
 public:
  BodyOf(std::shared_ptr<const std::function<R(A...)>> f, std::tuple<Part<A>...> parts)
      : f_(std::move(f)), parts_(std::move(parts)) {}
  Tensors run(const Tensors& in) const override {
    return std::apply(
        [&](const auto&... part) {
          size_t at = 0;
          // Braces: from left to right.
          std::tuple<std::remove_cvref_t<A>...> all{give<A>(part, in, at)...};
          return to_list(std::apply(
              [&](auto&... one) { return (*f_)(std::forward<A>(static_cast<A&&>(one))...); }, all));
        },
        parts_);
  }
  std::shared_ptr<const Body> keep() const override { return std::make_shared<BodyOf>(*this); }

 private:
  std::shared_ptr<const std::function<R(A...)>> f_;
  std::tuple<Part<A>...> parts_;
};

}  // namespace fusion

// R and A are the function's result and arguments. R: Tensor, Tensors, or a tuple, pair or array of
// Tensor. A: Tensor, Tensors or a number, by value or const reference.
template <class R, fusion::Argument... A>
class Fused {
 public:
  Fused(std::function<R(A...)> f, std::string name, Caller from = Caller::here())
      : f_(std::make_shared<const std::function<R(A...)>>(std::move(f))),
        function_(fusion::make(std::move(name), from)) {}

  // What the function returns for these arguments, or throws.
  R operator()(A... a, Caller from = Caller::here()) const {
    Tensors in;
    std::vector<uint64_t> key;
    std::tuple<fusion::Part<A>...> parts{fusion::take<A>(a, in, key)...};
    const fusion::BodyOf<R, A...> body(f_, std::move(parts));
    return fusion::from_list<R>(fusion::call(*function_, body, in, key, from));
  }

  FuseStats stats() const { return fusion::stats(*function_); }
  // For each signature: what is fused into which kernels, or why the function runs as it is.
  std::string describe() const { return fusion::describe(*function_); }

 private:
  std::shared_ptr<const std::function<R(A...)>> f_;
  std::shared_ptr<fusion::Function> function_;
};

// `f`: a function, or an object with one operator() that is no template. `name`: of kernels, in
// profiles and errors; an identifier of C++, else ValueError.
template <class F>
auto fuse(F f, std::string name = "fused", Caller from = Caller::here()) {
  constexpr bool one_signature = requires { std::function(std::declval<F>()); };
  static_assert(one_signature,
                "fuse() takes a function, or an object with one operator() that is no template; "
                "write the types of a lambda's parameters: const Tensor& x, not const auto& x");
  if constexpr (one_signature) return Fused(std::function(std::move(f)), std::move(name), from);
}

// --- Details ---

// A signature is traced once:
//   - each tensor's dtype, shape, strides and context, and which tensors share memory;
//   - each number's value, and the lengths of lists;
//   - training mode, autograd recording and which tensors need a gradient, amp's dtype.
// The 256 newest signatures are kept. The text of a kernel has neither shapes nor numbers.
// All else that the host computes is frozen in a trace, such as numbers that the function captured.
//
// The function runs as it is, and describe() has the reason, if it
//   - reads values on the host, for example to branch, or draws random numbers;
//   - reads a tensor that is not an argument, or one that no op has written;
//   - writes a tensor that it did not make, or a part of one, or calls an op that works in place;
//   - calls a RawKernel or parallel_for, or throws;
//   - returns an argument or a view of one, or keeps a tensor of its own elsewhere;
//   - has arguments on several contexts, on cpu_pinned, or without elements;
//   - needs a kernel of more than 24 tensors or 400 formulas;
//   - needs a gradient and has an op between its kernels, or needs one in an amp::Scope;
//   - cannot be compiled: the context has no compiler.
// The C++ code of a fused function runs only in traces. That of another function runs twice in its
// first call. describe() does not list calls without tensors or with undefined ones, calls inside
// of a trace, and calls with LOCUS_CHECK=nan.
//
// What is fused:
//   - Elementwise ops, fill, casts and copies. Results in f16 and bf16 are rounded after each op.
//   - Reductions over the last axes: sum, mean, prod, max, min, any, all, logsumexp, norm of order
//   2,
//     sum_to. They run as ops if a row has more than 65,536 elements, if a tensor has several
//     strides along it, if a kernel would have more than 24 reductions, or if more than 7 depend on
//     one another in a chain.
//   - Sums, products, means, logsumexp and norms add in another order than the ops do: results
//     differ by rounding. The order depends on the function, on the dtypes, shapes and strides of
//     its arguments, and on whether kernels run on the host or on a GPU.
//   - An op whose result is read transposed, sliced or reshaped ends a kernel. Results of different
//     shapes are made by different kernels, unless they are of the same rows.
//   - Other ops, such as sums over other axes, and kernels of one's own stay calls of their own
//     between kernels.
//
// Gradients:
//   - Under autograd::Record a call is one node, which keeps the arguments. backward() runs a fused
//     function of the arguments and the results' gradients, which computes the function again.
//   - Sums over leading axes along which an argument was broadcast stay ops of their own.
//   - A gradient with terms inside and outside of the function may be summed in another order.
//   - Error for a gradient with create_graph: call the function without fuse() for that.
//
// Elsewhere:
//   - Inside Capture and Compiled, the kernels are recorded.
//   - A fused function inside a traced one is traced as a part of it.
//   - With LOCUS_CHECK=nan (nan_check.h) the function runs as it is.

}  // namespace locus

// Ops by name, for bindings of other languages, tests and ported programs.
//
//   Tensor y = invoke("softmax", {x}, {{"axis", 1}, {"temperature", 0.5}});
//   Tensors parts = invoke("split", {x}, {{"num_outputs", 3}});
//   std::cout << ops::get("softmax").signature;   // softmax(data, axis: int = -1, ...)
//
// Every public function of tensors has a name and a signature. The names of functions and
// attributes are NumPy's, else MXNet's, else those of the header. Defaults are the function's, or
// NumPy's if it has none. Results have the function's bits. examples/list_ops.cc prints the list.
//
// Threads: any thread may call. Define functions of a program before other threads call by name.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <locus/core/tensor.h>
#include <locus/ops/operand.h>
#include <locus/ops/register.h>

namespace locus {

class Axes;    // ops/reduce.h
class Extent;  // ops/spatial_axes.h

namespace ops {

// The value of an attribute: none, a number, text, a list of numbers, a dtype, a context or a
// tensor. Braces make a list: {0, 2}. Empty braces are none.
class Value {
 public:
  using Numbers = std::vector<Scalar>;

  Value() = default;
  template <class T>
  requires std::is_arithmetic_v<T> Value(T number) : held_(Scalar(number)) {}
  Value(Scalar number) : held_(number) {}
  Value(const char* text) : held_(std::string(text)) {}
  Value(std::nullptr_t) = delete;
  Value(std::string_view text) : held_(std::string(text)) {}
  Value(std::string text) : held_(std::move(text)) {}
  Value(std::initializer_list<Scalar> numbers) : held_(Numbers(numbers)) {}
  template <class T>
  requires std::is_arithmetic_v<T> Value(const std::vector<T>& numbers)
      : held_(Numbers(numbers.begin(), numbers.end())) {}
  Value(Numbers numbers) : held_(std::move(numbers)) {}
  Value(const Shape& lengths) : held_(Numbers(lengths.begin(), lengths.end())) {}
  Value(DType dtype) : held_(dtype) {}
  Value(Context context) : held_(context) {}
  Value(const Tensor& tensor) : held_(tensor) {}

  bool none() const { return std::holds_alternative<std::monostate>(held_); }
  template <class T>
  const T* get() const {
    return std::get_if<T>(&held_);
  }

 private:
  std::variant<std::monostate, Scalar, std::string, Numbers, DType, Context, Tensor> held_;
};
std::string to_string(const Value& v);  // as errors print it: 0.5, [0, 2], "clip", none

struct Attribute {
  std::string name;
  Value value;
};
using Attributes = std::vector<Attribute>;

// An input: a tensor or, for an operand, a number.
class Input {
 public:
  Input(const Tensor& tensor) : tensor_(tensor) {}
  template <class T>
  requires std::is_arithmetic_v<T> Input(T number) : number_(number), is_number_(true) {}
  Input(Scalar number) : number_(number), is_number_(true) {}

  bool is_number() const { return is_number_; }
  const Tensor& tensor() const { return tensor_; }
  const Scalar& number() const { return number_; }

 private:
  Tensor tensor_;
  Scalar number_ = 0;
  bool is_number_ = false;
};
class Inputs {
 public:
  Inputs() = default;
  Inputs(std::initializer_list<Input> list) : list_(list) {}
  Inputs(std::vector<Input> list) : list_(std::move(list)) {}
  Inputs(const Tensors& tensors) : list_(tensors.begin(), tensors.end()) {}

  size_t size() const { return list_.size(); }
  const Input& operator[](size_t i) const { return list_[i]; }

 private:
  std::vector<Input> list_;
};

// The results of a call. Converts to Tensors. Converts to Tensor if there is one; else Error.
class Result {
 public:
  Result(Tensor one) : all_{std::move(one)} {}
  Result(Tensors all) : all_(std::move(all)) {}
  Result(std::pair<Tensor, Tensor> two) : all_{std::move(two.first), std::move(two.second)} {}

  size_t size() const { return all_.size(); }
  const Tensor& operator[](size_t i) const { return all_.at(i); }
  operator Tensor() const;
  operator Tensors() const { return all_; }

 private:
  Tensors all_;
};

}  // namespace ops

// Calls the function of this name. Before anything runs, throws:
// - Error: there is no such function (the text names similar functions), or a wrong number of
//   inputs.
// - EmptyTensor: an undefined input. An optional input may be undefined or, at the end, left out.
// - ValueError: an unknown or missing attribute, or a value of another type; an integer is a float,
//   but neither a float nor a bool is an integer.
// Then the function may throw its own errors.
ops::Result invoke(std::string_view name, const ops::Inputs& inputs,
                   const ops::Attributes& attributes = {}, Caller = Caller::here());

namespace ops {

// An attribute of a signature. If `fallback` is empty, the attribute is required.
struct AttributeInfo {
  std::string name, type, fallback;
};

struct Info {
  std::string name;
  std::string signature;
  std::vector<std::string> aliases;
  std::vector<AttributeInfo> attributes;
  // The ops of the registry (core/op.h) that the function runs, first the op that reads the data.
  // Casts and copies of strided data may run in addition. Empty: none, or not known.
  std::vector<std::string> made_of;
  // For the first op: the types of devices with kernels, and their dtypes. Functions may cast other
  // dtypes to these.
  std::vector<std::pair<DeviceType, std::vector<DType>>> dtypes;
  int results = 1;          // -1: the attributes or inputs fix the number
  std::string no_gradient;  // why there is no gradient; empty: differentiable
  std::string no_capture;   // why it cannot be captured (core/capture.h); empty: it can
  bool internal = false;    // an op of the registry without a function, such as part of a gradient
};
// All functions, and then the internal ops, by name.
std::vector<Info> list();
Info get(std::string_view name);  // a function's; Error if there is none

// --- Functions of a program, and how Locus defines its own ---
//
//   ops::define("lerp(x, y, t: float = 0.5)", [](const ops::Arguments& a) {
//     return lerp(a.tensor(0), a.tensor(1), a["t"]);
//   });
//
// A signature names the inputs, then the attributes:
//   data                  a tensor
//   bias = none           a tensor that may be left out
//   lhs: operand          a tensor or a number
//   scale: operand = 1    the same, and the number if it is left out
//   *data                 any number of tensors
//   axis: int = -1        an attribute and its default
//   k: int                a required attribute
//   axis: int|none = -1   an attribute that may be none, and its default
// Types are bool, int, float, number (keeps the kind of the number), text, float|text, ints, floats
// (lists; one number is a list, too), dtype, context, tensor, and words: raise|clip|wrap.
// With the default none, the value may be none. dtypes are f32 or NumPy's float32, contexts gpu(0).
// `-> 2` behind the parentheses is the number of results, `-> tensors` any number.

// The value of an attribute in a call. Converts to what the function takes. Words convert to the
// enumerator at their position. none converts to the empty value: Axes(), Tensor(), text "".
class Argument {
 public:
  Argument(const char* op, const AttributeInfo& info, const Value& value)
      : op_(op), info_(info), value_(value) {}

  bool none() const { return value_.none(); }
  const Value& value() const { return value_; }
  // For a std::optional: nullopt if the value is none.
  template <class T = int>
  std::optional<T> optional() const {
    if (none()) return std::nullopt;
    return static_cast<T>(*this);
  }
  operator bool() const;
  operator int() const;
  operator int64_t() const;
  operator double() const;
  operator Scalar() const;
  operator std::string_view() const;
  operator DType() const;
  operator Context() const;
  operator Tensor() const;
  operator Shape() const;
  operator Axes() const;
  operator Extent() const;
  operator std::vector<int>() const;
  operator std::vector<int64_t>() const;
  operator std::vector<double>() const;
  template <class Enum>
  requires(std::is_enum_v<Enum> && !std::same_as<Enum, DType>) operator Enum() const {
    return static_cast<Enum>(word());
  }

 private:
  template <class T>
  const T& as() const;
  template <class T>
  T integer(const Scalar& number) const;
  int word() const;

  const char* op_;
  const AttributeInfo& info_;
  const Value& value_;
};

struct Function;

// The checked inputs and attributes of a call.
class Arguments {
 public:
  Arguments(const Function& function, const Inputs& inputs, std::vector<const Value*> values)
      : function_(function), inputs_(inputs), values_(std::move(values)) {}

  Tensor tensor(size_t i) const;  // input i; undefined if it was left out
  // Input i, which may be a number; an undefined tensor if it was left out. Error if the signature
  // has no input i.
  Operand operand(size_t i) const;
  Tensors tensors() const;  // all inputs
  Argument operator[](std::string_view attribute) const;
  TensorOptions options() const;  // of the attributes `dtype` and `ctx`

 private:
  const Function& function_;
  const Inputs& inputs_;
  const std::vector<const Value*> values_;
};

// The result of define(). Its functions describe the new function further:
//   ops::define("swish(data, beta: float)", ...).made_of({"silu", "multiply"});
class Definition {
 public:
  explicit Definition(Function& function) : function_(function) {}
  // The ops of the registry that the function runs, first the op that reads the data. Default: the
  // op of the same name.
  Definition& made_of(std::vector<std::string> ops);
  // Why the function has no gradient or cannot be captured. Default: the ops' reasons.
  Definition& no_gradient(std::string why);
  Definition& no_capture(std::string why);

 private:
  Function& function_;
};

using Callback = std::function<Result(const Arguments&)>;
// Throws Error for a name that is taken, ValueError for a malformed signature.
Definition define(std::string_view signature, Callback call);

// Another name of a function, which may be defined later.
void alias(std::string name, std::string of);

namespace detail {
// For ops of formulas (ops/elementwise/call.h): defines a function of 1 to 3 operands.
void define_formula(const char* name, int operands, Callback call);
}  // namespace detail

}  // namespace ops
}  // namespace locus

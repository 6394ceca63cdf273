// A function that has a name: its parsed signature and what it calls. Internal to ops/named.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <locus/ops/named.h>

namespace locus::ops {

enum class Kind : uint8_t {
  boolean,
  integer,
  floating,
  number,
  text,
  ints,
  floats,
  dtype,
  context,
  tensor,
  float_or_text,
  words
};

// Behind a type: the value may be none, whatever the default is.
inline constexpr std::string_view kOrNone = "|none";

struct InputInfo {
  std::string name;
  bool operand = false, optional = false;
  Input fallback{Tensor()};  // if it is left out
};

struct Function {
  Info info;  // without what list() finds in the registry
  std::vector<InputInfo> inputs;
  bool variadic = false;         // inputs[0] stands for any number
  std::vector<Kind> kinds;       // of info.attributes
  std::vector<Value> fallbacks;  // none if there is none
  Callback call = {};
};

// Throws ValueError that names the signature and what is wrong with it.
Function parsed(std::string_view signature);
// Whether attribute i of f takes the value.
bool takes(const Function& f, size_t i, const Value& value);
// Throws Error for a wrong number of inputs, ValueError for a number, EmptyTensor.
void check_inputs(const Function& f, const Inputs& inputs);
// The values of info.attributes: those given, else the fallbacks. Throws ValueError.
std::vector<const Value*> values_of(const Function& f, const Attributes& given);

// All functions, by name. A function stays where it is until the process ends.
std::vector<const Function*> all_functions();
const Function* find_function(std::string_view name);  // also by an alias; null: none
std::vector<std::string> aliases_of(std::string_view name);
const Function& get_function(std::string_view name,
                             const char* who);  // Error that lists similar names

}  // namespace locus::ops

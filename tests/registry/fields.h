// Lists of attribute fields. The compiler counts them, so none is left out.
#pragma once

#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace locus::test {

struct Field {
  std::string name;
  size_t offset, size;
};

namespace fields_detail {

struct Any {
  template <class T>
  operator T() const;
};
template <class A, size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { A{(static_cast<void>(I), Any())...}; };
}
// The number of initialisers of an A: one for a base, one for each element of an array.
template <class A, size_t N = 64>
constexpr size_t count() {
  if constexpr (N == 0 || takes<A>(std::make_index_sequence<N>()))
    return N;
  else
    return count<A, N - 1>();
}
template <class A, class T, class Owner>
constexpr size_t elements(T Owner::*) {
  if constexpr (!std::is_same_v<A, Owner>)
    return 0;  // counted as the base's
  else if constexpr (std::is_array_v<T>)
    return std::extent_v<T>;
  else
    return 1;
}

}  // namespace fields_detail

// fields<A, bases>({"a", "b"}, &A::a, &A::b): includes fields of bases; empty bases need none.
template <class A, size_t kBases, auto... Members>
std::vector<Field> fields(std::vector<std::string> names) {
  namespace d = fields_detail;
  static_assert(d::count<A>() == kBases + (size_t{0} + ... + d::elements<A>(Members)),
                "list every field");
  static const A a{};
  const auto field = [&names, at = size_t{0}](const auto& member) mutable {
    return Field{names.at(at++),
                 static_cast<size_t>(reinterpret_cast<const char*>(&member) -
                                     reinterpret_cast<const char*>(&a)),
                 sizeof(member)};
  };
  std::vector<Field> all;
  auto next = field;
  (all.push_back(next(a.*Members)), ...);
  return all;
}

}  // namespace locus::test

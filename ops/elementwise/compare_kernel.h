// The formulas whose result is a truth value, and where(). Comparisons with NaN are IEEE's: only
// != holds.
#pragma once

#include <locus/ops/elementwise/elementwise_kernel.h>

namespace locus::formula {

inline constexpr unsigned kAll = kFloats | kInts | kBool;

struct Equal : Form<2, kAll, 1, true> {
  static constexpr const char* name = "equal";
  template <class V>
  LOCUS_HD static bool apply(V x, V y) {
    return x == y;
  }
};
struct NotEqual : Form<2, kAll, 1, true> {
  static constexpr const char* name = "not_equal";
  template <class V>
  LOCUS_HD static bool apply(V x, V y) {
    return x != y;
  }
};
struct Greater : Form<2, kAll, 1, true> {
  static constexpr const char* name = "greater";
  template <class V>
  LOCUS_HD static bool apply(V x, V y) {
    return x > y;
  }
};
struct GreaterEqual : Form<2, kAll, 1, true> {
  static constexpr const char* name = "greater_equal";
  template <class V>
  LOCUS_HD static bool apply(V x, V y) {
    return x >= y;
  }
};
struct Lesser : Form<2, kAll, 1, true> {
  static constexpr const char* name = "lesser";
  template <class V>
  LOCUS_HD static bool apply(V x, V y) {
    return x < y;
  }
};
struct LesserEqual : Form<2, kAll, 1, true> {
  static constexpr const char* name = "lesser_equal";
  template <class V>
  LOCUS_HD static bool apply(V x, V y) {
    return x <= y;
  }
};
struct LogicalAnd : Form<2, kAll, 1, true> {
  static constexpr const char* name = "logical_and";
  template <class V>
  LOCUS_HD static bool apply(V x, V y) {
    return (x != V(0)) & (y != V(0));
  }
};
struct LogicalOr : Form<2, kAll, 1, true> {
  static constexpr const char* name = "logical_or";
  template <class V>
  LOCUS_HD static bool apply(V x, V y) {
    return (x != V(0)) | (y != V(0));
  }
};
struct LogicalXor : Form<2, kAll, 1, true> {
  static constexpr const char* name = "logical_xor";
  template <class V>
  LOCUS_HD static bool apply(V x, V y) {
    return (x != V(0)) != (y != V(0));
  }
};
struct LogicalNot : Form<1, kAll, 1, true> {
  static constexpr const char* name = "logical_not";
  template <class V>
  LOCUS_HD static bool apply(V x) {
    return x == V(0);
  }
};
struct IsNan : Form<1, kAll, 1, true> {
  static constexpr const char* name = "isnan";
  template <class V>
  LOCUS_HD static bool apply(V x) {
    return x != x;
  }
};
struct IsInf : Form<1, kAll, 1, true> {
  static constexpr const char* name = "isinf";
  template <class V>
  LOCUS_HD static bool apply(V x) {
    if constexpr (std::is_floating_point_v<V>)
      return m::abs(x) == m::infinity(x);
    else
      return false;
  }
};
struct IsFinite : Form<1, kAll, 1, true> {
  static constexpr const char* name = "isfinite";
  template <class V>
  LOCUS_HD static bool apply(V x) {
    if constexpr (std::is_floating_point_v<V>)
      return m::abs(x) < m::infinity(x);
    else
      return true;
  }
};
struct Where : Form<3, kAll, 1> {
  static constexpr const char* name = "where";
  template <class M, class V>
  LOCUS_HD static V apply(M condition, V x, V y) {
    return condition != M(0) ? x : y;
  }
};

using PairPredicates = List<Equal, NotEqual, Greater, GreaterEqual, Lesser, LesserEqual, LogicalAnd,
                            LogicalOr, LogicalXor>;
using Predicates = List<LogicalNot, IsNan, IsInf, IsFinite>;
using CompareOps = List<Equal, NotEqual, Greater, GreaterEqual, Lesser, LesserEqual, LogicalAnd,
                        LogicalOr, LogicalXor, LogicalNot, IsNan, IsInf, IsFinite, Where>;

}  // namespace locus::formula

// The rows that a kernel reduces. Internal to ops/fuse.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <locus/ops/fuse/graph.h>

namespace locus::fusion {

inline constexpr int64_t kLongestRow = 65536;  // elements

// Whether both have the same shape.
bool same_shape(const Meta& a, const Meta& b);
// The view, broadcast to the shape. Axes of length 1 have stride 0.
View broadcast_to(const View& v, const Meta& shape);

// The loop of a kernel that reduces: the shape of the tensor that is reduced. Its last axes are a
// row.
struct Space {
  Meta shape;
  int row_axes;

  // How a value lies in the space: its shape is the space's; that with rows of length 1; that
  // without the rows' axes.
  enum class Form : uint8_t { whole, kept, squeezed };
  std::optional<Form> form_of(const Meta& m) const;
  View place(View v, Form f) const;  // broadcast to the space
  int64_t row_length() const;
};
// The stride of a view that was broadcast to the space, along its rows; none if there is no single
// one.
std::optional<int64_t> row_stride(const Space& space, const View& v);

// Which values are computed in which space.
class Spaces {
 public:
  explicit Spaces(const std::vector<Value>& values);

  // Of a value; null: its kernel has no reductions.
  const Space* of(int value) const { return of_[static_cast<size_t>(value)]; }
  // Whether v's kernel computes this operand itself, and does not read it from memory.
  bool inlined(int v, const Read& r) const { return inlined(v, r, of(v)); }

 private:
  bool inlined(int v, const Read& r, const Space* space) const;
  const Space* space_of(const Value& v, int index);

  const std::vector<Value>& values_;
  std::vector<std::unique_ptr<const Space>> all_;
  std::vector<const Space*> of_;
};

}  // namespace locus::fusion

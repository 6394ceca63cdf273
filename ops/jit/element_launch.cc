// Shapes of a call of an elementwise kernel, its arguments, and its launch.
#include <algorithm>

#include <locus/core/error.h>
#include <locus/core/shape.h>
#include <locus/devices/cpu.h>
#include <locus/ops/jit/arguments.h>
#include <locus/ops/jit/element_definition.h>
#include <locus/ops/kernel/walk.h>

namespace locus::jit {
namespace {

// PyCUDA's form: the elements of all tensors, or the first `size`.
Meta one_size(const Specialization& s, const auto& in, int64_t size) {
  int64_t n = -1;
  size_t first = 0;
  for_tensors(s, s.types.size(), [&](size_t k, const Parameter& p, size_t j) {
    const int64_t elements = in(j).size();
    if (n >= 0 && elements != n)
      throw ValueError(s.definition.parameters[first].name, " has ", n, " elements and ", p.name,
                       " has ", elements, "; expected equal sizes");
    if (n < 0) first = k, n = elements;
  });
  if (size > n)
    throw ValueError("the size is ", size, ", and the tensors have ", n,
                     " elements; expected at most as many");
  const int64_t shape[] = {size < 0 ? n : size};
  return make_meta(f32, shape);
}

// The shape of the loop: of all tensors that are not raw, broadcast. in(j) is tensor j of the
// parameters up to `end`.
Meta loop_of(const Specialization& s, const auto& in, size_t end, int64_t size) {
  if (s.definition.pointers) return one_size(s, in, size);
  Meta shape;
  const Parameter* const decides = broadcast(s, in, end, shape);
  if (!decides) {
    if (size < 0)
      throw ValueError(
          "the loop's size is undecided: no operand that is not raw is a tensor; "
          "expected a size: kernel.run({...}, {.size = n})");
    const int64_t only[] = {size};
    return make_meta(f32, only);
  }
  if (size >= 0)
    throw ValueError("a size is given (", size, "), but ", decides->name,
                     " decides the loop's size; expected no size, or raw operands only");
  return shape;
}

// The views of a call, and the loop over them.
struct Loops : CallViews {
  Meta shape;
  int64_t n;

  explicit Loops(const Call& call) : CallViews(call) {
    shape = in_place() ? loop_of(
                             s, [&](size_t j) -> const Meta& { return call.in[j].meta; },
                             s.types.size(), attrs.size)
                       : call.out[0].meta;
    n = shape.size();
  }
};

// The arguments, laid out as the generated structs.
class Arguments : public ArgumentBytes {
 public:
  explicit Arguments(const Loops& l) : l_(l) {
    const Parameters& all = l.s.definition.parameters;
    in_order_ = !definition_of(l.s).indexed;
    for (size_t k = 0; k < all.size(); ++k) {
      if (all[k].raw || !l.view[k]) continue;
      const View& v = *l.view[k];
      arrays_[n_arrays_++] = &v;
      in_order_ = in_order_ && same_shape(v.meta, l.shape) && v.contiguous();
    }
    if (!in_order_) walk();
  }

  bool one_axis() const { return loop_.rank == 1; }
  // Whether the CPU's loop reads and writes all arrays in place.
  bool in_place() const {
    return std::all_of(dense_, dense_ + n_arrays_, [](bool d) { return d; }) &&
           std::none_of(arrays_, arrays_ + n_arrays_, [](const View* v) {
             return v->meta.dtype == f16 || v->meta.dtype == bf16;
           });
  }

  // For a loop over one axis. `pack`: elements of a thread.
  void fill_flat(int pack) {
    add(l_.n);
    add(int64_t{std::all_of(arrays_, arrays_ + n_arrays_, [&](const View* v) {
      const auto bytes = static_cast<uintptr_t>(size_of(v->meta.dtype) * pack);
      return in_order_ && reinterpret_cast<uintptr_t>(v->data) % bytes == 0;
    })});
    for (int k = 0; k < n_arrays_; ++k) add(Line{arrays_[k]->data, in_order_ ? 1 : stride_[k][0]});
    add_rest(l_);
  }
  void fill() {
    if (in_order_) one_dense_axis();
    add(loop_);
    for (int k = 0; k < n_arrays_; ++k) {
      Array a;
      a.data = arrays_[k]->data;
      a.dense = dense_[k];
      std::copy(stride_[k], stride_[k] + loop_.rank, a.stride);
      add(a);
    }
    add_rest(l_);
  }

 private:
  void one_dense_axis() {
    set_axes(loop_, l_.n, 1, &l_.n);
    for (int k = 0; k < n_arrays_; ++k) {
      stride_[k][0] = 1;
      dense_[k] = true;
    }
  }
  int64_t stride(int k, int a) const { return stride_along(*arrays_[k], l_.shape, a); }
  // Finds the loop's axes, and sets in_order_ if they merge into one that all arrays walk densely.
  void walk() {
    const ElementDefinition& d = definition_of(l_.s);
    if (d.indexed) {
      const int64_t one = 1;
      set_axes(loop_, l_.n, std::max<int>(l_.shape.rank, 1),
               l_.shape.rank == 0 ? &one : l_.shape.shape);
      for (int k = 0; k < n_arrays_; ++k) {
        dense_[k] = same_shape(arrays_[k]->meta, l_.shape) && arrays_[k]->contiguous();
        stride_[k][0] = 0;
        for (int a = 0; a < l_.shape.rank; ++a) stride_[k][a] = stride(k, a);
      }
      return;
    }
    // Outputs are last, in the places whose strides sort the axes.
    Walk<kMost> w;
    const int first = kMost - n_arrays_;
    for (int a = 0; a < l_.shape.rank; ++a) {
      int64_t strides[kMost] = {};
      for (int k = 0; k < n_arrays_; ++k) strides[first + k] = stride(k, a);
      w.add(l_.shape.shape[a], strides);
    }
    if (!d.ordered) w.sort();
    w.tidy();
    set_axes(loop_, l_.n, w.rank, w.shape);
    in_order_ = true;
    for (int k = 0; k < n_arrays_; ++k) {
      std::copy(w.stride[first + k], w.stride[first + k] + w.rank, stride_[k]);
      dense_[k] = l_.n == 1 || w.dense(first + k);
      in_order_ = in_order_ && dense_[k];
    }
  }

  const Loops& l_;
  // Filled up to n_arrays_ and the loop's rank.
  const View* arrays_[kMost];
  bool dense_[kMost];
  int64_t stride_[kMost][kAxes];
  int n_arrays_ = 0;
  bool in_order_;
  Loop loop_;
};
static_assert(sizeof(Loop) + kMost * std::max(sizeof(Array), sizeof(Raw<char>)) <= 4096);

DType infer(std::span<const Meta> in, const void* attributes, std::span<Meta> out) {
  const Attrs& attrs = *static_cast<const Attrs*>(attributes);
  const Specialization& s = *attrs.of;
  const size_t inputs = s.definition.inputs;
  const auto meta = [&](size_t j) -> const Meta& { return in[j]; };
  if (attrs.targets == 0) {
    const Meta loop = loop_of(s, meta, inputs, attrs.size);
    for (size_t k = 0; k < out.size(); ++k) {
      out[k] = loop;
      out[k].dtype = s.types[inputs + k].dtype;
    }
    return f32;
  }
  const Meta loop = loop_of(s, meta, s.types.size(), attrs.size);
  size_t target = 0;
  for_tensors(s, s.types.size(), [&](size_t, const Parameter& p, size_t j) {
    if (p.written && !p.raw && !same_shape(in[j], loop))
      throw ShapeError("the output ", p.name, " has shape ", Shape(in[j]), "; expected ",
                       Shape(loop), ", the shape of the loop");
    if (attrs.targets >> j & 1) out[target++] = in[j];
  });
  return f32;
}

void run_host(const Call& call) {
  const Loops loops(call);
  if (loops.n == 0) return;
  Arguments arguments(loops);
  arguments.fill();
  using Run = void (*)(const void* args, int64_t begin, int64_t end, int64_t step);
  const auto run = reinterpret_cast<Run>(loops.s.functions(call.stream.context)[0]->host);
  const bool in_place = arguments.in_place();
  parallel_for(loops.n, definition_of(loops.s).grain, [&](int64_t begin, int64_t end) {
    run(arguments.data(), begin, end, in_place ? end - begin : int64_t{kStaged});
  });
}

void run_gpu(const Call& call) {
  const Loops loops(call);
  if (loops.n == 0) return;
  const Specialization& s = loops.s;
  const Specialization::Functions& functions = s.functions(call.stream.context);
  Arguments arguments(loops);
  const int pack = pack_of(s);
  const bool flat = functions[1] && arguments.one_axis();
  if (flat)
    arguments.fill_flat(pack);
  else
    arguments.fill();
  const int64_t threads = flat ? (loops.n + pack - 1) / pack : loops.n;
  const int64_t block = loops.attrs.block, blocks = (threads + block - 1) / block;
  if (blocks > INT32_MAX)
    throw ValueError(s.definition.name, ": ", blocks, " blocks of ", block,
                     " threads; expected fewer than 2^31; give a larger block_size");
  LaunchShape shape;
  shape.grid.x = blocks;
  shape.block.x = block;
  functions[flat ? 1 : 0]->launch(call.stream, shape, arguments.data(), arguments.size());
}

}  // namespace

void ElementDefinition::set(Op& op) const {
  op.infer = &infer;
  op.kernels[static_cast<int>(DeviceType::cpu)][static_cast<int>(f32)] = &run_host;
  op.kernels[static_cast<int>(DeviceType::gpu)][static_cast<int>(f32)] = &run_gpu;
}

}  // namespace locus::jit

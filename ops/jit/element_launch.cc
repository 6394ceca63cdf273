// Shapes of a call of an elementwise kernel, its arguments, and its launch.
#include <algorithm>
#include <cstring>

#include <locus/core/error.h>
#include <locus/core/shape.h>
#include <locus/devices/cpu.h>
#include <locus/ops/jit/definition.h>
#include <locus/ops/jit/element.h>
#include <locus/ops/kernel/walk.h>

namespace locus::jit {
namespace {

constexpr int kMost = static_cast<int>(kMostOperands);

bool same_shape(const Meta& a, const Meta& b) {
  return a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape);
}

// Calls f(k, parameter, j) for the parameters that are tensors, where j counts them.
void for_tensors(const Specialization& s, size_t end, const auto& f) {
  const Parameters& all = s.definition.parameters;
  for (size_t k = 0, j = 0; k < end; ++k)
    if (!s.types[k].number) f(k, all[k], j++);
}

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
  const Parameter* decides = nullptr;
  for_tensors(s, end, [&](size_t, const Parameter& p, size_t j) {
    if (p.raw) return;
    if (!decides) {
      shape = in(j);
      decides = &p;
    } else if (!same_shape(shape, in(j))) {
      shape = make_meta(f32, broadcast_shapes(Shape(shape), Shape(in(j))));
    }
  });
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

// The views of a call by parameter, and the loop over them.
struct Loops {
  const Specialization& s;
  const Attrs& attrs;
  const View* view[kMost] = {};
  Meta shape;
  int64_t n;

  explicit Loops(const Call& call)
      : s(*call.attributes<Attrs>().of), attrs(call.attributes<Attrs>()) {
    const bool in_place = attrs.targets != 0;
    const size_t inputs = in_place ? s.types.size() : s.definition.inputs;
    for_tensors(s, inputs, [&](size_t k, const Parameter&, size_t j) { view[k] = &call.in[j]; });
    for (size_t k = inputs; k < s.types.size(); ++k) view[k] = &call.out[k - inputs];
    shape = in_place ? loop_of(
                           s, [&](size_t j) -> const Meta& { return call.in[j].meta; }, inputs,
                           attrs.size)
                     : call.out[0].meta;
    n = shape.size();
  }
};

// The arguments, laid out as the generated structs.
class Arguments {
 public:
  explicit Arguments(const Loops& l) : l_(l) {
    const Parameters& all = l.s.definition.parameters;
    in_order_ = !l.s.definition.indexed;
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
    add_rest();
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
    add_rest();
  }
  const void* data() const { return bytes_; }
  size_t size() const { return size_; }

 private:
  void one_dense_axis() {
    set_axes(1, &l_.n);
    for (int k = 0; k < n_arrays_; ++k) {
      stride_[k][0] = 1;
      dense_[k] = true;
    }
  }
  void set_axes(int rank, const int64_t* shape) {
    loop_.n = l_.n;
    loop_.rank = rank;
    loop_.wide = l_.n >= (int64_t{1} << 31);
    for (int a = 0; a < rank; ++a) {
      loop_.shape[a] = shape[a];
      if (!loop_.wide) loop_.length[a] = Divisor(shape[a]);
    }
  }
  // Of array k along axis a of the loop; 0 if it is broadcast.
  int64_t stride(int k, int a) const {
    const View& v = *arrays_[k];
    const int own = a - (l_.shape.rank - v.meta.rank);
    return own < 0 || (v.meta.shape[own] == 1 && l_.shape.shape[a] != 1) ? 0 : v.stride[own];
  }
  // Finds the loop's axes, and sets in_order_ if they merge into one that all arrays walk densely.
  void walk() {
    const Definition& d = l_.s.definition;
    if (d.indexed) {
      const int64_t one = 1;
      set_axes(std::max<int>(l_.shape.rank, 1), l_.shape.rank == 0 ? &one : l_.shape.shape);
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
    set_axes(w.rank, w.shape);
    in_order_ = true;
    for (int k = 0; k < n_arrays_; ++k) {
      std::copy(w.stride[first + k], w.stride[first + k] + w.rank, stride_[k]);
      dense_[k] = l_.n == 1 || w.dense(first + k);
      in_order_ = in_order_ && dense_[k];
    }
  }

  template <class T>
  void add(const T& v) {
    static_assert(sizeof(T) % 8 == 0 && alignof(T) <= 8);
    std::memcpy(bytes_ + size_, &v, sizeof(T));
    size_ += sizeof(T);
  }
  void add_rest() {
    const Specialization& s = l_.s;
    size_t numbers = 0;
    for (const Specialization::Type& t : s.types)
      if (t.number) add(l_.attrs.number[numbers++]);
    for (size_t k = 0; k < s.types.size(); ++k) {
      if (!s.definition.parameters[k].raw) continue;
      const View& v = *l_.view[k];
      Raw<char> raw{v.as<char>(), v.meta.size(), v.meta.rank, v.contiguous(), {}, {}};
      std::copy(v.meta.shape, v.meta.shape + v.meta.rank, raw.lengths);
      std::copy(v.stride, v.stride + v.meta.rank, raw.stride);
      add(raw);
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
  alignas(16) unsigned char bytes_[4096];
  size_t size_ = 0;
};
static_assert(sizeof(Loop) + kMost * std::max(sizeof(Array), sizeof(Raw<char>)) <= 4096);

}  // namespace

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
  const auto run = reinterpret_cast<Run>(loops.s.functions(call.stream.context).host->host);
  const bool in_place = arguments.in_place();
  parallel_for(loops.n, loops.s.definition.grain, [&](int64_t begin, int64_t end) {
    run(arguments.data(), begin, end, in_place ? end - begin : int64_t{kStaged});
  });
}

void run_gpu(const Call& call) {
  const Loops loops(call);
  if (loops.n == 0) return;
  const Specialization& s = loops.s;
  const Specialization::Functions& functions = s.functions(call.stream.context);
  Arguments arguments(loops);
  const int pack = s.pack();
  const bool flat = functions.flat && arguments.one_axis();
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
  (flat ? functions.flat : functions.strided)
      ->launch(call.stream, shape, arguments.data(), arguments.size());
}

}  // namespace locus::jit

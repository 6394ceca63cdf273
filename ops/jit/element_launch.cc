// Shapes of a call of an elementwise kernel, its arguments, and its launch.
#include <algorithm>

#include <locus/core/error.h>
#include <locus/core/shape.h>
#include <locus/devices/cpu.h>
#include <locus/ops/jit/element_definition.h>
#include <locus/ops/jit/loop_arguments.h>

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

// The arrays of a call.
struct Arrays {
  const View* view[kMost];
  size_t n = 0;

  explicit Arrays(const CallViews& c) {
    for (size_t k = 0; k < c.s.types.size(); ++k)
      if (!c.s.definition.parameters[k].raw && c.view[k]) view[n++] = c.view[k];
  }
  std::span<const View* const> span() const { return {view, n}; }
};

LoopAxes axes_of(const ElementDefinition& d) {
  return d.indexed ? LoopAxes::all : d.ordered ? LoopAxes::ordered : LoopAxes::any;
}

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
  const Arrays arrays(loops);
  LoopArguments arguments(loops.shape, arrays.span(), axes_of(definition_of(loops.s)));
  arguments.fill();
  arguments.add_rest(loops);
  using Run = void (*)(const void* args, int64_t begin, int64_t end, int64_t step);
  const auto run = reinterpret_cast<Run>(loops.s.functions(call.stream.context)[0]->host);
  const bool in_place = arguments.in_place();
  parallel_ranges(loops.n, definition_of(loops.s).grain, [&](int64_t begin, int64_t end) {
    run(arguments.data(), begin, end, in_place ? end - begin : int64_t{kStaged});
  });
}

void run_gpu(const Call& call) {
  const Loops loops(call);
  if (loops.n == 0) return;
  const Specialization& s = loops.s;
  const Specialization::Functions& functions = s.functions(call.stream.context);
  const Arrays arrays(loops);
  LoopArguments arguments(loops.shape, arrays.span(), axes_of(definition_of(s)));
  const int pack = pack_of(s);
  const bool flat = functions[1] && arguments.one_axis();
  if (flat)
    arguments.fill_flat(pack);
  else
    arguments.fill();
  arguments.add_rest(loops);
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

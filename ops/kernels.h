// Kernels from a few lines of C++, compiled at first use, on any context.
//
//   ElementwiseKernel sqdiff("T x, T y", "T z", "z = (x - y) * (x - y);", "sqdiff");
//   Tensor z = sqdiff(x, y);
//
// On a GPU, NVRTC compiles a kernel; on cpu and emulated contexts, the machine's C++ compiler does.
// The code is kept in a cache on disk (LOCUS_KERNEL_CACHE). A kernel is a handle. Copies share the
// code, which stays loaded until the process ends. Threads: any.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include <locus/ops/operand.h>

namespace locus {

namespace jit {
class Definition;
}

struct KernelOptions {
  std::string preamble = {};                  // before the kernel: functions, types, #include lines
  std::vector<std::string> options = {};      // of NVRTC: "--use_fast_math"
  std::vector<std::string> cpu_options = {};  // of the C++ compiler: "-ffast-math"
  std::string reduce_type = {};  // of a ReductionKernel's a and b; "": the first output's
};
struct KernelCall {
  int64_t size = -1;   // of the loop, if no operand decides it
  int block_size = 0;  // threads of a block on a GPU, at most 1024 (large bodies: fewer); 0: 256
};

// Runs C++ statements for each element of its operands, which broadcast.
class ElementwiseKernel {
 public:
  // `in` and `out` list parameters: "[raw] TYPE NAME, ...". TYPE is a dtype (f32, float32, float)
  // or one letter. All operands of a letter have one dtype; nothing is promoted. A `raw` operand is
  // not broadcast: the body reads w[i], w.size(), w.shape() and w.strides(), which counts elements.
  //
  // `body` is statements; the last ; may be missing. It may use the parameters, i (the element's
  // number in row-major order), n (the number of elements), _ind.get() (the index along each axis)
  // and _ind.size(). In the body, f16 and bf16 elements are floats. Throws ValueError if a list or
  // a name is wrong.
  ElementwiseKernel(std::string in, std::string out, std::string body, std::string name,
                    const KernelOptions& options = {}, Caller = Caller::here());
  // PyCUDA's form: "const int *x, int *y, float a". Parameters are pointers to row-major tensors of
  // one size, and numbers. Pointers without const count as written. KernelCall::size: computes the
  // first elements only. operator() returns an empty Tensor, run() no tensors.
  ElementwiseKernel(std::string pointers, std::string body, std::string name,
                    const KernelOptions& options = {}, Caller = Caller::here());

  // Makes the outputs on the operands' context and returns the first. If the outputs are given
  // behind the inputs, writes them instead: sqdiff(x, y, z).
  Tensor operator()(const Operand& a) const;
  Tensor operator()(const Operand& a, const Operand& b) const;
  Tensor operator()(const Operand& a, const Operand& b, const Operand& c) const;
  Tensor operator()(const Operand& a, const Operand& b, const Operand& c, const Operand& d) const;
  Tensor operator()(const Operand& a, const Operand& b, const Operand& c, const Operand& d,
                    const Operand& e) const;
  Tensor operator()(const Operand& a, const Operand& b, const Operand& c, const Operand& d,
                    const Operand& e, const Operand& f) const;
  Tensor operator()(const Operand& a, const Operand& b, const Operand& c, const Operand& d,
                    const Operand& e, const Operand& f, const Operand& g) const;
  Tensor operator()(const Operand& a, const Operand& b, const Operand& c, const Operand& d,
                    const Operand& e, const Operand& f, const Operand& g, const Operand& h) const;
  // Any number of inputs. Returns all outputs.
  Tensors run(std::initializer_list<Operand> in, const KernelCall& call = {},
              Caller = Caller::here()) const;
  // Writes existing tensors. An output may be an input. An input that overlaps an output in another
  // way is copied first.
  void into(std::initializer_list<Operand> in, std::initializer_list<Operand> out,
            const KernelCall& call = {}, Caller = Caller::here()) const;

  // This kernel with a gradient: a kernel that computes the gradients of inputs. Names say what its
  // parameters are. Its inputs may be an input (x) or an output (z) of this kernel, and the
  // gradient of an output (dz). Its outputs are gradients of inputs (dx).
  //
  //   const ElementwiseKernel gradient("T x, T dz", "T dx", "dx = 2 * x * dz;", "of_square");
  //   const auto square = ElementwiseKernel("T x", "T z", "z = x * x;", "square")
  //                           .with_gradient(gradient);
  //
  // Gradients of inputs that were broadcast are summed. For gradients of gradients, `gradient` has
  // a gradient, too. Throws ValueError if a name does not match.
  ElementwiseKernel with_gradient(const ElementwiseKernel& gradient, Caller = Caller::here()) const;

  const std::string& name() const;
  // The text that is compiled on context c for tensors of these dtypes: of the inputs, or of the
  // inputs and outputs.
  std::string source(Context c, std::initializer_list<DType> of_operands,
                     Caller = Caller::here()) const;

 private:
  friend class ReductionKernel;
  const jit::Definition* definition_;
};

// --- Details ---

// Limits and names:
//   - A kernel has at most 24 parameters. At most 16 operands of a call are numbers.
//   - operator() takes at most 8 operands. run() and into() take all.
//   - No parameter is named i or n, or begins with _. No type is the letter i or n.
//
// Types and shapes:
//   - The dtype of a letter is that of given outputs, else of input tensors, else of numbers: f32,
//     i64 or bool.
//   - The loop's shape is that of all tensors that are not raw, outputs included, broadcast.
//     Without such tensors, KernelCall::size is the number of elements.
//   - Numbers are converted as casts convert them: 2.5 becomes 2 for i32, integers wrap.
//   - ValueError if the body names an output nowhere. If it sets one only sometimes, its other
//     elements keep their values. In a new output these are undefined numbers, or true or false.
//   - If the body uses neither i nor _ind, and no output is raw, new outputs have the layout of the
//     inputs; otherwise they are row-major.
//
// Errors of a call, before anything is written:
//   - ValueError: a wrong number of operands; too many numbers; a size that is missing, or given
//     although a tensor decides it; a number for a raw parameter or an output; a raw output that is
//     not given; outputs that overlap.
//   - EmptyTensor: an operand is undefined.
//   - ShapeError: operands do not broadcast; a given output has another shape than the loop; a
//     tensor for a pointer is not row-major.
//   - DTypeError: a letter has two dtypes or none; a tensor has not the parameter's dtype.
//   - ContextMismatch: operands on different contexts.
//   - SourceError: the body does not compile. The text has the compiler's messages with the lines
//     of the body.
//   - UnsupportedOnContext: the context has no compiler.
//   - Error: while autograd records, a given output or an input beside it needs a gradient.
//
// Code:
//   - The compiler may round a * b + c once, which the ops never do. Options forbid this:
//     -fmad=false, -ffp-contract=off.
//   - It is not kept on disk if the preamble includes files by quoted names, or if an option names
//     a folder or a file. NVRTC has CUDA's headers, and none of C++.
//   - Elements of raw f16 and bf16 operands have no address, so atomics cannot take them.
//   - A recording keeps the numbers and the sizes of the call. There, a given output counts as
//     read, too: fill it first.
//
// Gradients:
//   - Without with_gradient(), a kernel has none. Integer, bool and raw inputs and numbers have
//     none.
//   - If an input needs a gradient that the gradient kernel does not compute, backward throws
//     Error.
//   - Kernels with raw outputs or pointers cannot have one.

}  // namespace locus

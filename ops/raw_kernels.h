// CUDA C++ from source text, compiled at run time: modules and their kernels.
//
//   const RawKernel add(R"(
//     extern "C" __global__ void add(const float* x, const float* y, float* z, int n) {
//       const int i = blockIdx.x * blockDim.x + threadIdx.x;
//       if (i < n) z[i] = x[i] + y[i];
//     })", "add");
//   add({.grid = {4}, .block = {256}}, {read(x), read(y), z, 1000});
//   add.for_all(1000, {read(x), read(y), z, 1000});  // chooses the blocks
//
// For GPUs only; ElementwiseKernel (kernels.h) runs on every context. NVRTC compiles the text for
// each GPU at its first use, and the code is kept in a cache on disk (LOCUS_KERNEL_CACHE). Modules
// and kernels are handles. Copies share the code, which stays loaded until the process ends.
// Threads: any.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <locus/core/program.h>
#include <locus/core/tensor.h>

namespace locus {

namespace raw {
class Function;
class Module;

// "i32" for int: how a signature names the type. "": it has no name there.
template <class T>
constexpr const char* type_name() {
  if constexpr (std::is_same_v<T, bool>)
    return "bool";
  else if constexpr (std::is_same_v<T, Half>)
    return "f16";
  else if constexpr (std::is_same_v<T, BFloat16>)
    return "bf16";
  else if constexpr (std::is_same_v<T, float>)
    return "f32";
  else if constexpr (std::is_same_v<T, double>)
    return "f64";
  else if constexpr (std::is_integral_v<T>)
    return std::is_signed_v<T> ? (sizeof(T) == 1   ? "i8"
                                  : sizeof(T) == 2 ? "i16"
                                  : sizeof(T) == 4 ? "i32"
                                                   : "i64")
                               : (sizeof(T) == 1   ? "u8"
                                  : sizeof(T) == 2 ? "u16"
                                  : sizeof(T) == 4 ? "u32"
                                                   : "u64");
  else
    return std::is_pointer_v<T> || std::is_null_pointer_v<T> ? "*" : "";
}
}  // namespace raw

// What a kernel takes by value: numbers, structs, device pointers.
template <class T>
concept RawValue = std::is_trivially_copyable_v<T> && !std::is_array_v<T> &&
                   !std::is_function_v<T> && !std::same_as<T, Scalar> && !std::same_as<T, Context>;

// An argument of a launch. Borrows its value for the call, and stores the caller's line.
class RawArg {
 public:
  // Passes the tensor's data pointer. The tensor must be contiguous.
  RawArg(const Tensor& t, Caller from = Caller::here()) : tensor_(&t), from_(from) {}
  // Passes the value in its own C++ type: 3 is an int, 2.5 a double, 2.5f a float.
  template <RawValue T>
  RawArg(const T& value, Caller from = Caller::here())
      : value_(&value), bytes_(sizeof(T)), type_(raw::type_name<T>()), from_(from) {}

  // The kernel only reads the tensor. Without read(), it counts as read and written.
  friend RawArg read(RawArg a);
  // Passes the pointer to the first element of any view.
  friend RawArg any_layout(RawArg a);

  const Tensor* tensor() const { return tensor_; }  // null: a value
  const void* value() const { return value_; }
  size_t bytes() const { return bytes_; }
  const char* type() const { return type_; }
  bool written() const { return written_; }
  bool any_layout() const { return any_layout_; }
  Caller from() const { return from_; }

 private:
  const Tensor* tensor_ = nullptr;
  const void* value_ = nullptr;
  size_t bytes_ = sizeof(void*);
  const char* type_ = "*";
  bool written_ = true, any_layout_ = false;
  Caller from_;
};
inline RawArg read(RawArg a) {
  a.written_ = false;
  return a;
}
inline RawArg any_layout(RawArg a) {
  a.any_layout_ = true;
  return a;
}

struct RawOptions {
  std::vector<std::string> options = {};           // of NVRTC: "--use_fast_math"
  std::vector<std::string> name_expressions = {};  // "add<float>", "ns::f"; variables: "&ns::v"
  std::vector<std::pair<std::string, std::string>> headers = {};  // name and text, for #include
  std::string signature = {};                                     // of a RawKernel: see get()
};

struct RawLaunch {
  Dim3 grid = {}, block = {};  // blocks, and threads of a block: {256}, {16, 16}
  int64_t shared = 0;          // bytes of dynamic shared memory of a block
  bool cooperative = false;    // all blocks run at a time: grid.sync() works
  // Of a launch without tensors; default: current_context().
  std::optional<Context> context = {};
};

// One kernel of a module.
class RawKernel {
 public:
  // A module of this text alone, and its kernel. A name such as "add<float>" or "ns::add" becomes
  // one of the module's name expressions.
  RawKernel(std::string source, std::string name, const RawOptions& options = {},
            Caller = Caller::here());

  // Enqueues the kernel on the tensors' context. Checks the number of arguments and their sizes.
  void operator()(const RawLaunch& launch, std::initializer_list<RawArg> args,
                  Caller = Caller::here()) const;
  // At least n threads in one dimension. Chooses the grid, and blocks of the size that keeps the
  // GPU busiest; `launch` sets neither. If n is 0, nothing is launched.
  void for_all(int64_t n, std::initializer_list<RawArg> args, const RawLaunch& launch = {},
               Caller = Caller::here()) const;

  // These compile the module for context c if that was not done yet.
  KernelAttributes attributes(Context c, Caller = Caller::here()) const;
  // How many blocks of this shape run at a time: the largest grid of a cooperative launch.
  int64_t max_active_blocks(Context c, const RawLaunch& launch, Caller = Caller::here()) const;
  const std::string& name() const;

 private:
  friend class RawModule;
  explicit RawKernel(const raw::Function* f) : function_(f) {}
  const raw::Function* function_;
};

// Kernels and variables from one text.
class RawModule {
 public:
  explicit RawModule(std::string source, const RawOptions& options = {}, Caller = Caller::here());
  // From a file: a cubin, a fatbin or PTX. Throws Error if the file cannot be read.
  static RawModule load(const std::string& path, Caller = Caller::here());

  // The kernel of this name: extern "C", or one of the name expressions. Touches no device: a name
  // that the module lacks is found at the first launch on a device.
  //
  // If a signature is given, launches check the arguments' types: "const f32* f32* i32", or as in
  // C++, "const float*, float*, unsigned int". A pointer to const is only read. "*" is a pointer to
  // any type, "?" any argument.
  RawKernel get(std::string name, std::string signature = {}, Caller = Caller::here()) const;

  // Copy a tensor's bytes, from any context, to a __constant__ or __device__ variable on context c,
  // or back. Both wait for all work on c, and then for the copy.
  void set_global(Context c, const std::string& name, const Tensor& values,
                  Caller = Caller::here()) const;
  Tensor get_global(Context c, const std::string& name, DType dtype, const Shape& shape = {},
                    Caller = Caller::here()) const;

 private:
  explicit RawModule(const raw::Module* m) : module_(m) {}
  const raw::Module* module_;
};

// --- Details ---

// Errors of a launch, before anything is enqueued:
//   - ValueError: a grid or block that no GPU allows, or larger than this kernel's registers or
//     shared memory allow; a wrong number of arguments, or more than 256; a value of another size
//     than the parameter's; a variable that the module lacks, or a kernel, with the names that it
//     has; a cooperative grid whose blocks do not run at a time.
//   - ShapeError: a tensor that is not contiguous.
//   - DTypeError: an argument of another type than the signature's.
//   - ContextMismatch: tensors on different contexts.
//   - UnsupportedOnContext: a host context or an emulated GPU; no NVRTC; a cooperative launch on a
//     GPU that has none.
//   - SourceError: the text does not compile, lacks a name expression, or has a kernel with more
//     than 32764 bytes of parameters. The errors have the text's line numbers.
//   - DeviceError: the GPU refuses a file's code.
//   - Error: while autograd records, a tensor that needs a gradient.

// Launches:
//   - A tensor counts as written unless it is wrapped in read() or its type in the signature is a
//     pointer to const. Work on its memory is ordered as for any op, also in captures and compiled
//     functions. There, a new tensor must be filled before a kernel gets it.
//   - A pointer that is passed by value, such as x.data_ptr(), is ordered with nothing.
//   - A launch that needs more than 48 KB of shared memory needs no further call.
//   - A fault inside a kernel is reported by the next wait, with the kernel's name.

// Modules:
//   - Modules of equal text and options are one module, with one set of variables on each GPU.
//   - The compiler may contract a * b + c. It keeps denormals and exact division unless options ask
//     for less.
//   - If the text includes a file by a quoted name that is not in `headers`, or an option names a
//     folder, each process compiles it once: the cache cannot see that the file changed.

}  // namespace locus

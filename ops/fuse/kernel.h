// One fused kernel: its text, which depends on dtypes and formulas alone, and its code. Internal to
// ops/fuse.
//
// Kernels live until the process ends, as ops do. Equal texts are one kernel. Threads: any.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <locus/core/noncopyable.h>
#include <locus/core/op.h>
#include <locus/core/program.h>
#include <locus/ops/elementwise/formula_info.h>
#include <locus/ops/jit/parameters.h>

namespace locus::fusion {

// What a kernel computes, in order.
struct KernelBody {
  struct Operand {
    enum class Kind : uint8_t { array, number, line, reduction } kind;
    int index;
  };
  struct Line {
    const formula::Info* formula = nullptr;  // null: a cast
    DType dtype = f32;                       // of the result
    std::vector<Operand> from = {};
    int attributes = -1;  // index of the formula's attributes
  };
  struct Reduction {
    std::string text;  // in C++: "Sum()"
    DType dtype = f32;
    Operand from = {};
  };
  struct Output {
    Operand from;
    DType dtype;
    bool of_row = false;  // one element for each row
  };
  std::vector<DType> arrays = {};                     // that are read
  std::vector<DType> numbers = {};                    // dtypes
  std::vector<const formula::Info*> attributes = {};  // formulas that have some
  std::vector<Line> lines = {};
  std::vector<Output> outputs = {};
  std::vector<Reduction> reductions = {};
  std::vector<bool> of_row = {};  // by array: one element for each row

  // Whether the kernel computes rows: it reduces them, or has results of rows.
  bool walks_rows() const;
  size_t argument_bytes() const;  // beside the loop
  DType dtype_of(const Operand& o) const;
  bool truncates() const;  // casts floating values to integers
};
int passes_of(const KernelBody& body);  // over a row: 1, and 1 for each reduction of a chain
int pack_of(const KernelBody& body);    // elements that a thread loads at once

class Kernel : NonCopyable {
 public:
  // The kernel that computes this. `name`: an identifier.
  static const Kernel& of(const std::string& name, const KernelBody& body);

  // Kernels that compute rows have `rows` and `any_rows`. Others have `loop` on the host, `flat`
  // and `strided` on GPUs.
  struct Functions {
    const KernelFunction *loop = nullptr, *flat = nullptr, *strided = nullptr, *rows = nullptr,
                         *any_rows = nullptr;
  };
  // Compiled or loaded at first use. SourceError or UnsupportedOnContext if that fails.
  const Functions& functions(Context c) const;

  const std::string text, gpu_text;
  const bool truncates, walks_rows;
  const std::vector<DType> outputs;
  const std::vector<bool> of_row;  // by array, outputs last
  const int pack;                  // pack_of()
  const int64_t grain;             // elements worth a thread
  Op op;

 private:
  Kernel(const std::string& name, const KernelBody& body, std::string host_text);
  const Functions& build(Context c, std::atomic<const Functions*>& at) const;

  mutable std::atomic<const Functions*> host_ = nullptr, gpu_[kMaxDevices] = {};
};

// What a call of a kernel needs beside tensors.
struct KernelCall {
  const Kernel* kernel;
  Meta loop;
  std::vector<unsigned char> rest;  // numbers and attributes
  int row_axes = 0;                 // of the loop, the last ones; 0: the kernel has no rows
  std::vector<Meta> outputs = {};
};
// Attributes of Kernel::op. Their owner keeps the call.
struct KernelAttrs {
  const KernelCall* call;
};

// The headers of the text for GPUs: formula_source() without the formulas' constants, which are for
// the host. Each would be a variable of the device, which takes time to load.
std::span<const SourceFile> gpu_headers();
std::string text_of_kernel(const std::string& name, const KernelBody& body, bool gpu);
std::string text_of_row_kernel(const std::string& name, const KernelBody& body, bool gpu);
void run_rows_on_host(const Call& call);
void run_rows_on_gpu(const Call& call);

// A call's views, outputs last.
struct KernelViews {
  const View* view[jit::kMostOperands];
  size_t n = 0;

  explicit KernelViews(const Call& call) {
    for (int i = 0; i < call.n_in; ++i) view[n++] = &call.in[i];
    for (int i = 0; i < call.n_out; ++i) view[n++] = &call.out[i];
  }
  std::span<const View* const> span() const { return {view, n}; }
};
inline const KernelCall& call_of(const Call& call) { return *call.attributes<KernelAttrs>().call; }

}  // namespace locus::fusion

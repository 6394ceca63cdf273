// RawModule and RawKernel: from the user's call to modules and functions.
#include <locus/ops/raw_kernels.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include <locus/core/base/empty_tensor.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/observe/trace.h>
#include <locus/core/stream.h>
#include <locus/ops/raw/module.h>

namespace locus {
namespace {

std::span<const RawArg> span_of(std::initializer_list<RawArg> args) {
  return {args.begin(), args.size()};
}

const raw::Function* kernel_of(std::string source, const std::string& name, RawOptions options) {
  const std::string signature = std::move(options.signature);
  options.signature.clear();
  if (name.empty()) throw ValueError("RawKernel: the name is empty; expected the kernel's name");
  auto& expressions = options.name_expressions;
  if (!raw::is_identifier(name) &&
      std::find(expressions.begin(), expressions.end(), name) == expressions.end())
    expressions.push_back(name);
  return &raw::Module::of({.name = name, .text = std::move(source), .code = "", .options = options})
              .get(name, signature);
}

const raw::Module* module_of(std::string source, const RawOptions& options) {
  if (!options.signature.empty())
    throw ValueError("RawModule: a signature belongs to a kernel; give it to get(name, \"",
                     options.signature, "\")");
  return &raw::Module::of(
      {.name = "RawModule", .text = std::move(source), .code = "", .options = options});
}

// Copies between two blocks of c, after and before all other work there.
void copy_alone(Context c, void* to, const void* from, size_t bytes) {
  Device& d = device(c);
  const tracing::Wait wait(c);
  d.synchronize({c, 0, nullptr});
  const StreamView s = d.stream(Lane::compute);
  tracing::copy(d, to, c, from, c, bytes, s);
  d.synchronize(s);
}

}  // namespace

RawKernel::RawKernel(std::string source, std::string name, const RawOptions& options,
                     Caller from) try
    : function_(kernel_of(std::move(source), name, options)) {
} catch (const Error&) {
  rethrow_at(from);
}

void RawKernel::operator()(const RawLaunch& launch, std::initializer_list<RawArg> args,
                           Caller from) const try {
  const UserLine user_line(from);
  function_->launch(launch, span_of(args));
} catch (const Error&) {
  rethrow_at(from);
}

void RawKernel::for_all(int64_t n, std::initializer_list<RawArg> args, const RawLaunch& launch,
                        Caller from) const try {
  const UserLine user_line(from);
  function_->for_all(n, span_of(args), launch);
} catch (const Error&) {
  rethrow_at(from);
}

KernelAttributes RawKernel::attributes(Context c, Caller from) const try {
  return function_->on(c).attributes();
} catch (const Error&) {
  rethrow_at(from);
}

int64_t RawKernel::max_active_blocks(Context c, const RawLaunch& launch, Caller from) const try {
  const LaunchShape shape = raw::shape_of({.block = launch.block, .shared = launch.shared});
  raw::check_shape(name(), shape);
  const KernelFunction& f = function_->on(c);
  raw::check_shape(name(), shape, f, c);
  return f.max_active_blocks(shape);
} catch (const Error&) {
  rethrow_at(from);
}

const std::string& RawKernel::name() const { return function_->name; }

RawModule::RawModule(std::string source, const RawOptions& options, Caller from) try
    : module_(module_of(std::move(source), options)) {
} catch (const Error&) {
  rethrow_at(from);
}

RawModule RawModule::load(const std::string& path, Caller from) try {
  std::ifstream file(path, std::ios::binary);
  std::string code{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file || code.empty())
    throw Error("RawModule::load: ", path, file ? " is empty" : " cannot be read",
                "; expected a file of a cubin, a fatbin or PTX");
  return RawModule(
      &raw::Module::of({.name = path, .text = "", .code = std::move(code), .options = {}}));
} catch (const Error&) {
  rethrow_at(from);
}

RawKernel RawModule::get(std::string name, std::string signature, Caller from) const try {
  return RawKernel(&module_->get(name, signature));
} catch (const Error&) {
  rethrow_at(from);
}

void RawModule::set_global(Context c, const std::string& name, const Tensor& values,
                           Caller from) const try {
  constexpr const char* kWho = "set_global";
  const UserLine user_line(from);
  const tracing::Scope scope(TransferKind::wait_all, from);
  detail::expect_tensor(kWho, values, "values");
  const KernelProgram::Global global = module_->global(c, kWho, name);
  capture::check_wait(c, kWho, from);
  const size_t bytes = static_cast<size_t>(values.size() * size_of(values.dtype()));
  if (bytes != global.bytes)
    throw ValueError(kWho, ": ", name, " has ", global.bytes, " bytes on ", c, ", and the values ",
                     describe(values), " have ", bytes, "; expected equal sizes");
  Tensor there = values.detach().as_in_context(c, from);
  if (!there.contiguous()) there = row_major_copy(there, there.dtype());
  copy_alone(c, global.data, there.data_ptr(), bytes);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor RawModule::get_global(Context c, const std::string& name, DType dtype, const Shape& shape,
                             Caller from) const try {
  constexpr const char* kWho = "get_global";
  const UserLine user_line(from);
  const tracing::Scope scope(TransferKind::wait_all, from);
  expect_dtype(dtype);
  const KernelProgram::Global global = module_->global(c, kWho, name);
  capture::check_wait(c, kWho, from);
  const Meta meta = make_meta(dtype, shape);
  const size_t bytes = static_cast<size_t>(meta.size() * size_of(dtype));
  if (bytes != global.bytes)
    throw ValueError(kWho, ": ", name, " has ", global.bytes, " bytes on ", c, ", and ",
                     locus::name(dtype), ' ', shape, " has ", bytes, "; expected equal sizes");
  const Tensor values = allocate(c, meta);
  copy_alone(c, values.data_ptr(), global.data, bytes);
  return values;
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus

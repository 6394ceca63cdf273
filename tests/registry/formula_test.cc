// Formulas compile at run time from the text in the library alone.
#ifdef LOCUS_WITH_CUDA
#include <cxxabi.h>
#include <nvrtc.h>

#include <cstdlib>
#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <locus/ops/elementwise/activation_kernel.h>
#include <locus/ops/elementwise/bitwise_kernel.h>
#include <locus/ops/elementwise/compare_kernel.h>
#include <locus/ops/elementwise/elementwise_kernel.h>
#include <locus/ops/elementwise/special_kernel.h>
#include <locus/ops/elementwise/trigonometry_kernel.h>
#include <locus/ops/elementwise/unary_kernel.h>
#include <locus/ops/kernel/source.h>

namespace locus {
namespace {

using formula::List;

template <class F>
std::string name_of() {
  char* text = abi::__cxa_demangle(typeid(F).name(), nullptr, nullptr, nullptr);
  const std::string name(text);
  std::free(text);
  return name;
}

// PTX with a kernel for each of the names, for elements of type `element`.
std::string compile(const std::vector<std::string>& formulas, const std::string& element) {
  std::string program;
  std::vector<const char*> names, texts;
  for (const SourceFile& file : formula_source()) {
    names.push_back(file.name);
    texts.push_back(file.text);
    if (std::string(file.name).ends_with("_kernel.h"))
      program += std::string("#include <") + file.name + ">\n";
  }
  program += R"(
template <class F, class V>
__global__ void kernel(const F f, V* x) {
  if constexpr (requires { f.apply(x[0]); }) x[0] = static_cast<V>(f.apply(x[0]));
  else if constexpr (requires { f.apply(x[0], x[1]); }) x[0] = static_cast<V>(f.apply(x[0], x[1]));
  else if constexpr (requires { F::kMasked; }) x[0] = f.apply(x[0] != V(0), x[1], x[2]);
  else x[0] = f.apply(x[0], x[1], x[2]);
}
using namespace locus;
)";
  nvrtcProgram handle;
  EXPECT_EQ(nvrtcCreateProgram(&handle, program.c_str(), "formulas.cu", int(names.size()),
                               texts.data(), names.data()),
            NVRTC_SUCCESS);
  for (const std::string& name : formulas)
    EXPECT_EQ(nvrtcAddNameExpression(handle, ("kernel<" + name + ", " + element + ">").c_str()),
              NVRTC_SUCCESS);
  const char* options[] = {"--std=c++20", "--gpu-architecture=compute_90", "-default-device"};
  const nvrtcResult result = nvrtcCompileProgram(handle, 3, options);
  size_t size = 0;
  nvrtcGetProgramLogSize(handle, &size);
  std::string log(size, 0);
  nvrtcGetProgramLog(handle, log.data());
  EXPECT_EQ(result, NVRTC_SUCCESS) << log;
  std::string ptx;
  if (result == NVRTC_SUCCESS) {
    nvrtcGetPTXSize(handle, &size);
    ptx.resize(size);
    nvrtcGetPTX(handle, ptx.data());
  }
  nvrtcDestroyProgram(&handle);
  return ptx;
}

template <unsigned Kinds, class... F>
std::vector<std::string> names_of(List<F...>) {
  std::vector<std::string> names;
  ((F::kKinds & Kinds ? names.push_back(name_of<F>()) : void()), ...);
  return names;
}

const auto kLists = formula::BinaryOps() + formula::BitwiseOps() + formula::CompareOps() +
                    formula::UnaryOps() + formula::ActivationOps();
const auto kWithDoubles = formula::TrigonometricOps() + formula::SpecialOps();

TEST(Formula, CompilesAtRunTime) {
  const auto all = kLists + kWithDoubles;
  EXPECT_GT(names_of<formula::kFloats>(all).size(), 70u);
  compile(names_of<formula::kFloats>(all), "double");
  compile(names_of<formula::kFloats>(kWithDoubles), "float");
  compile(names_of<formula::kInts>(all), "int64_t");
  compile(names_of<formula::kInts>(all), "int32_t");
}

TEST(Formula, OfF32HasNoDoubles) {  // except sines of large angles, and gamma functions
  const std::string ptx = compile(names_of<formula::kFloats>(kLists), "float");
  EXPECT_THAT(ptx, testing::HasSubstr(".entry"));
  // A numbered register of doubles is in use; "%fd<n>" declares registers.
  std::smatch found;
  EXPECT_FALSE(std::regex_search(ptx, found, std::regex("%fd[0-9]")))
      << ptx.substr(ptx.rfind(".entry", static_cast<size_t>(found.position(0))), 200);
}

}  // namespace
}  // namespace locus
#endif

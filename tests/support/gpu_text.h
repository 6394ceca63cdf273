// The text of kernels for GPUs, compiled by NVRTC. No GPU is needed.
#pragma once

#include <nvrtc.h>

#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <locus/ops/create.h>
#include <locus/ops/jit/definition.h>
#include <locus/ops/kernel/source.h>

namespace locus::test {

// The machine code of the text, or PTX for the architecture compute_90. Errors fail the test.
inline std::string compile_gpu_text(const std::string& text,
                                    const std::string& architecture = "sm_90",
                                    std::span<const SourceFile> headers = formula_source(),
                                    const char* option = "--fmad=true") {
  std::vector<const char*> names, texts;
  for (const SourceFile& file : headers) {
    names.push_back(file.name);
    texts.push_back(file.text);
  }
  nvrtcProgram handle;
  EXPECT_EQ(nvrtcCreateProgram(&handle, text.c_str(), "program", int(names.size()), texts.data(),
                               names.data()),
            NVRTC_SUCCESS);
  const std::string target = "--gpu-architecture=" + architecture;
  const char* options[] = {"--std=c++20", target.c_str(), "-default-device", option};
  const nvrtcResult result = nvrtcCompileProgram(handle, 4, options);
  size_t size = 0;
  nvrtcGetProgramLogSize(handle, &size);
  std::string log(size, 0), code;
  nvrtcGetProgramLog(handle, log.data());
  EXPECT_EQ(result, NVRTC_SUCCESS) << log << text;
  if (result == NVRTC_SUCCESS && architecture.starts_with("sm")) {
    nvrtcGetCUBINSize(handle, &size);
    code.resize(size);
    nvrtcGetCUBIN(handle, code.data());
  }
  nvrtcDestroyProgram(&handle);
  return code;
}

// The code for tensors of these dtypes. Bit k of `numbers`: operand k is a number.
inline std::string compile_for_gpu(const jit::Definition& d, const std::vector<DType>& dtypes,
                                   unsigned numbers = 0,
                                   const std::string& architecture = "sm_90") {
  std::vector<Tensor> tensors;
  for (DType t : dtypes) tensors.push_back(zeros({2}, t));
  const Scalar two = 2;
  jit::Operands operands(dtypes.size());
  for (size_t k = 0; k < dtypes.size(); ++k)
    if (numbers >> k & 1)
      operands.number[k] = &two;
    else
      operands.tensor[k] = &tensors[k];
  return compile_gpu_text(d.find(operands).text(true), architecture);
}

}  // namespace locus::test

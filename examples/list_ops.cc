// Prints the ops and contexts of this build as Markdown.
//   list_ops
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <locus/locus.h>

#include "common/command.h"

using namespace locus;

namespace {

std::string dtypes(const Op& op, DeviceType type) {
  std::string names;
  for (int d = 0; d < kNumDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    if (op.kernel(type, dtype) == nullptr) continue;
    if (!names.empty()) names += ' ';
    names += name(dtype);
  }
  return names;
}

// A build without CUDA lists only the CPU's dtypes.
std::string kernels(const Op& op) {
  if (op.make_view != nullptr) return "the same memory";
  if (op.function != nullptr) return "from context to context";
  const std::string cpu = dtypes(op, DeviceType::cpu), gpu = dtypes(op, DeviceType::gpu);
  if (gpu.empty() || gpu == cpu) return cpu;
  return cpu + "; on GPUs " + gpu;
}

// Ops with equal kernels share a row.
void list_ops() {
  std::map<std::string, std::string> rows;
  for (const Op* op : all_ops()) {
    if (op->needs_peers) continue;  // one device's part of another op
    std::string& names = rows[kernels(*op) + " | " + (op->gradient != nullptr ? "yes" : "no")];
    names += (names.empty() ? "" : ", ") + op->name;
  }
  std::cout << "| ops | dtypes | gradient |\n|---|---|---|\n";
  for (const auto& [kernels, names] : rows) {
    std::cout << "| " << names << " | " << kernels << " |\n";
  }
}

void list_contexts(const std::vector<Context>& all) {
  std::cout << "| context | hardware | emulated |\n|---|---|---|\n";
  for (const Context c : all) {
    const ContextInfo info = context_info(c);
    std::cout << "| " << c << " | " << info.name << " | " << (info.emulated ? "yes" : "no")
              << " |\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status =
          examples::parse("Prints the ops and the contexts of this build as Markdown.", argc, argv))
    return *status;
  try {
    std::vector<Context> all = gpus(num_gpus());
    all.insert(all.begin(), cpu());
    list_ops();
    std::cout << '\n';
    list_contexts(all);
    examples::check_printed();
  } catch (const std::exception& e) {
    std::cerr << "list_ops: " << e.what() << '\n';
    return 1;
  }
}

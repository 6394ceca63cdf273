// Prints the ops and the contexts of this build as Markdown, from the registry.
#include <iostream>
#include <string>

#include <locus/locus.h>

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
  return names.empty() ? "-" : names;
}

void list_ops() {
  std::cout << "| op | operands | gradient | cpu | gpu |\n|---|---|---|---|---|\n";
  for (const Op* op : all_ops()) {
    std::string operands;
    for (const std::string& a : op->arguments) operands += (operands.empty() ? "" : ", ") + a;
    const bool view = op->make_view != nullptr;
    std::cout << "| " << op->name << " | " << operands << " | "
              << (op->gradient != nullptr ? "yes" : "no") << " | "
              << (view ? "a view" : dtypes(*op, DeviceType::cpu)) << " | "
              << (view ? "a view" : dtypes(*op, DeviceType::gpu)) << " |\n";
  }
}

void list_contexts() {
  std::cout << "| context | hardware | emulated |\n|---|---|---|\n";
  std::vector<Context> all{cpu()};
  for (const Context c : gpus(num_gpus())) all.push_back(c);
  for (const Context c : all) {
    const ContextInfo info = context_info(c);
    std::cout << "| " << c << " | " << info.name << " | " << (info.emulated ? "yes" : "no")
              << " |\n";
  }
}

}  // namespace

int main() {
  list_ops();
  std::cout << '\n';
  list_contexts();
}

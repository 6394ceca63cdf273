#include <algorithm>
#include <map>
#include <vector>

#include <locus/core/autograd.h>
#include <locus/core/base/table.h>
#include <locus/core/error.h>
#include <locus/nn/block.h>
#include <locus/ops/create.h>

namespace locus::nn {
namespace {

std::string grouped(int64_t n) {
  std::string text = std::to_string(n);
  for (int i = static_cast<int>(text.size()) - 3; i > 0; i -= 3)
    text.insert(static_cast<size_t>(i), ",");
  return text;
}

std::string contexts_of(const std::vector<Context>& list) {
  return list.empty() ? "-" : listed(list, {}, " ");
}

void add_context(std::vector<Context>& list, Context c) {
  if (std::find(list.begin(), list.end(), c) == list.end()) list.push_back(c);
}

}  // namespace

std::string Block::summary(const Shape& input) {
  const Parameters all = parameters();
  Context where = current_context();
  DType dtype = f32;
  if (!all.empty()) {
    where = all.front().second.list_ctx().front();
    dtype = all.front().second.dtype();
  }
  return summary(Tensors{zeros(input, {where, dtype})});
}

std::string Block::summary(const Tensors& inputs) {
  std::map<const void*, std::string> outputs;  // shapes, by hooks, which a block's copies share
  std::vector<HookHandle> hooks;
  apply([&](Block& block) {
    hooks.push_back(block.register_forward_hook(
        [&outputs, of = block.hooks_.get()](Block&, const Tensors&, const Tensors& out) {
          outputs[of] = listed(out, [](const Tensor& t) { return to_string(t.shape()); });
        }));
  });
  FirstFailure failure;
  failure.run([&] {
    const autograd::Pause pause;
    const Plain plain;
    (*this)(inputs);
  });
  for (HookHandle& hook : hooks) hook.detach();
  failure.rethrow();

  std::vector<Parameter> counted;
  std::vector<std::vector<std::string>> rows{
      {"Layer", "Output", "Parameters", "Context", "Memory"}};
  int64_t total = 0, total_bytes = 0;
  std::vector<Context> everywhere;
  // A parameter is counted in its first row.
  const auto add = [&](const std::string& label, const Block& block, const Parameters& own) {
    int64_t count = 0, bytes = 0;
    std::vector<Context> contexts;
    for (const auto& [name, p] : own) {
      if (std::any_of(counted.begin(), counted.end(),
                      [&q = p](const Parameter& seen) { return seen.is(q); }))
        continue;
      counted.push_back(p);
      const int64_t size = p.shape().size();
      const int64_t copies =
          (p.grad_req() == GradReq::null ? 1 : 2) * static_cast<int64_t>(p.list_ctx().size());
      count += size;
      bytes += size * size_of(p.dtype()) * copies;
      for (const Context& c : p.list_ctx()) add_context(contexts, c);
    }
    for (const Context& c : contexts) add_context(everywhere, c);
    total += count;
    total_bytes += bytes;
    const auto output = outputs.find(block.hooks_.get());
    rows.push_back({label, output == outputs.end() ? "not called" : output->second, grouped(count),
                    contexts_of(contexts), memory_text(static_cast<uint64_t>(bytes))});
  };
  const auto walk = [&](const auto& self, const std::string& path, const Block& block) -> void {
    if (block.children_.empty() || !block.own_.empty())
      add((path.empty() ? "" : path + " ") + block.type_name(), block, block.own_);
    for (const auto& [name, child] : block.children_)
      self(self, path.empty() ? name : path + "." + name, *child);
  };
  walk(walk, "", *this);
  rows.push_back({"Total", "", grouped(total), contexts_of(everywhere),
                  memory_text(static_cast<uint64_t>(total_bytes))});

  const std::vector<std::string> lines = table_lines(rows, "llrlr");
  const std::string rule(lines[0].size(), '-');
  std::string text;
  for (size_t r = 0; r < lines.size(); ++r)
    text += (r == 1 || r + 1 == lines.size() ? rule + "\n" : "") + lines[r] + "\n";
  return text + "Input " + listed(inputs, [](const Tensor& t) { return to_string(t.shape()); }) +
         "; memory: parameters and their gradients\n";
}

}  // namespace locus::nn

// Files of named tensors in MXNet's .params format: reads V0 to V3, writes V2. Loading ignores the
// context in the file and uses the caller's context.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <locus/core/tensor.h>

namespace locus {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
const Tensor* find_in(const NamedTensors& all, const std::string& name);  // null: not found

// Writes a temporary file and renames it to `path`, so a reader never sees half a file. Waits for
// the tensors. If the file cannot be written, throws Error and keeps an existing file.
void save(const std::string& path, const NamedTensors& tensors, Caller = Caller::here());
// Returns tensors in file order; a list has empty names. FormatError names the file and the offset.
NamedTensors load(const std::string& path, Context to = cpu(), Caller = Caller::here());

}  // namespace locus

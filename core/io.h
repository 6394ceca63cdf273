// Files of named tensors in MXNet's .params format: read V0 to V3, written as V2. The context
// stored in a file is read and ignored: tensors are loaded where the caller asks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <locus/core/tensor.h>

namespace locus {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
const Tensor* find_in(const NamedTensors& all, const std::string& name);  // null: there is none

// Writes beside `path` and renames, so that a reader never sees half a file. Waits for the tensors.
// Throws Error when the file cannot be written; an existing file is then untouched.
void save(const std::string& path, const NamedTensors& tensors, Caller = Caller::here());
// In file order; names are empty for a list. Throws FormatError naming the file and the offset.
NamedTensors load(const std::string& path, Context to = cpu(), Caller = Caller::here());

}  // namespace locus

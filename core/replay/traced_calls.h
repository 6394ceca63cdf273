// The calls of a function that is traced: they are noted, and do not run. Internal to core and
// ops/fuse.
//
//   CallTrace trace(cpu());
//   const Tensors out = f(in);  // memory of results has addresses and no bytes
//   trace.end();
//   for (const TracedCall& call : trace.calls()) ...
//
// Until end(), what cannot be a part of a trace throws CaptureError: work on other contexts, host
// reads, waits, random numbers, and writes to memory that the function did not make. refused() has
// the error's text, also if the function caught the error. Threads: one thread uses a CallTrace.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <locus/core/base/tracing.h>
#include <locus/core/memory/storage.h>
#include <locus/core/noncopyable.h>
#include <locus/core/op.h>

namespace locus::capture {

struct Recording;

struct TracedCall {
  const Op* op = nullptr;
  Attrs attrs = {};
  std::vector<View> views = {};  // inputs, then results
  int n_in = 0;
  std::vector<std::shared_ptr<Storage>> memory = {};  // of the views
};

// A recording's trace.
struct Traced {
  std::vector<TracedCall> calls = {};
  std::string refused = {};
};

class CallTrace : NonCopyable {
 public:
  explicit CallTrace(Context c);
  // If the program holds memory of the trace, each use of that memory throws CaptureError.
  ~CallTrace();

  void end();
  const std::vector<TracedCall>& calls() const;
  const std::string& refused() const;
  bool owns(const Storage& storage) const;
  // Drops the calls. Returns whether the program still holds memory of the trace.
  bool release();

 private:
  std::unique_ptr<Recording> recording_;
};

}  // namespace locus::capture

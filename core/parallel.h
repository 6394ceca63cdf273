// parallel() runs a function for each of several contexts, each on its context's own thread.
//
//   parallel(gpus(2), [&](int i) {
//     const autograd::Record record;
//     losses[i] = loss_fn(net(xs[i]), ys[i]);
//   });
//
// The host enqueues work for several GPUs at the same time. The calling thread serves the first
// context. Each other context has a thread that lives as long as the process and polls briefly for
// new work before it sleeps. A child of fork() has its own threads. Do not fork inside f.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include <locus/core/context.h>

namespace locus {

// Calls f(i) for contexts[i], each on its own thread, all at the same time. Returns when all calls
// have returned. In f, current_context() is contexts[i]. The threads share the variables that f
// captures: no thread may write what another thread uses. Scopes: see Details.
//   - If f throws, parallel() rethrows the exception of the smallest i.
//   - Throws Error inside f, except for the thread's own context, and inside autograd::recompute().
//   - Throws CaptureError during recording.
void parallel(const Contexts& contexts, const std::function<void(int)>& f);
// Throws what parallel() on these contexts would throw before it calls f.
void expect_parallel(const Contexts& contexts);

// For the framework's own steps after parallel(), which need no scopes of the caller. Runs f(i) on
// the threads of parallel() if all are awake, which keeps the work of a context on one CPU core.
// Then runs behind(i), if given, on the same threads. behind starts when all f have returned, and
// does not run if one f threw. contexts[0] runs on the calling thread. Otherwise both run on the
// calling thread, in order: inside parallel(), during capture or recompute(), with a profiler or
// TransferLog, or in a StreamScope. Inside f, parallel() accepts the thread's own context only.
// Rethrows as parallel() does.
void on_threads(const std::vector<Context>& contexts, const std::function<void(int)>& f,
                const std::function<void(int)>& behind = {});

// Whether `thread` has called parallel() or on_threads() and waits for f on this thread. For locks:
// waiting here for a lock that `thread` holds would be a deadlock.
bool waits_for_this_thread(std::thread::id thread);

// --- Details ---

//   - f inherits the caller's autograd modes, amp::Scope and autograd::Accumulate.
//   - f inherits no StreamScope. If the caller has a StreamScope, f(0) runs on another thread, too.
//     Otherwise f(0) sees the caller's thread_local variables.
//   - Random numbers are the same in each run (core/generator.h).
//   - Inside f, parallel() for the thread's own context runs at once. For another context it would
//     wait for a thread that may wait for this one, so it throws.
//   - Work of other threads cannot be recorded, so parallel() throws in compiled functions and in
//     recompute().

}  // namespace locus

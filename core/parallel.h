// parallel(): a function for each of several contexts, each on its context's own thread.
//
//   parallel(gpus(2), [&](int i) {
//     const autograd::Record record;
//     losses[i] = loss_fn(net(xs[i]), ys[i]);
//   });
//
// The host enqueues the work of several GPUs at once, where one thread would enqueue it GPU after
// GPU. The caller does that of the first context, which it would only wait for; each other one has
// a thread for as long as the process lives, which looks for new work for a moment before it
// sleeps. A child of fork() has threads of its own; inside f a process does not fork.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include <locus/core/context.h>

namespace locus {

// Calls f(i) for contexts[i], each on a thread of its own, all at once, and returns when all have
// returned. In f, current_context() is contexts[i]. The threads share what f refers to: one may not
// write what another uses. Rethrows an exception of f; of several, that of the smallest i. Throws
// Error inside f for another context than the thread's own, and in what autograd::recompute() runs;
// CaptureError while a compiled function is recorded. Scopes: below, under Details.
void parallel(const Contexts& contexts, const std::function<void(int)>& f);

// For the framework's own steps behind it, which need nothing of the caller's scopes: f(i) on these
// threads while they are awake, so that what a context's work uses stays with one of the host's
// cores; else, and where the caller records, listens, or has a StreamScope, here, one after the
// other. Then, where there is one, behind(i) on the same threads, once all f have returned; where
// one threw, none. Of contexts[0] both run here. As inside of parallel(), that is of the thread's
// own context alone there. Rethrows as parallel() does.
void on_threads(const std::vector<Context>& contexts, const std::function<void(int)>& f,
                const std::function<void(int)>& behind = {});

// Whether `thread` has called parallel() or on_threads() and waits for this thread's f. For locks:
// a lock that `thread` holds is never freed while this thread waits for it.
bool waits_for_this_thread(std::thread::id thread);

// --- Details ---

// Scopes in f of parallel(): autograd's modes, the dtype of an amp::Scope and an
// autograd::Accumulate are the caller's. A StreamScope is taken along to no thread. For i == 0
// thread_local variables of the program are the caller's own, unless the caller has a StreamScope.
// Random numbers are the same in each run (core/generator.h). Inside f, parallel() for the context
// of the thread itself runs at once; for another context it would wait for a thread that could wait
// for this one. The threads of a compiled function or of recompute() would not be recorded.

}  // namespace locus

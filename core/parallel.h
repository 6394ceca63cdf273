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
#include <vector>

#include <locus/core/context.h>

namespace locus {

// Calls f(i) for contexts[i], each on a thread of its own, all at once, and returns when all have
// returned. There, current_context() is contexts[i], and whether autograd records and trains, the
// dtype of an amp::Scope and an autograd::Accumulate are as they are here; a StreamScope is taken
// along to none, and thread_local variables of the program are the caller's own for i == 0, unless
// it has a StreamScope. Random numbers are the same in each run (core/generator.h). What f refers
// to is shared by the threads: one may not write what another uses. An exception of f is rethrown,
// of several that of the smallest i. Inside f, work for the context of the thread itself runs at
// once; for another one it is an Error, since that thread could wait for this one. Throws
// CaptureError while a compiled function is recorded: the threads' work would not be; and Error in
// what autograd::recompute() runs, whose second run they would not take for one.
void parallel(const Contexts& contexts, const std::function<void(int)>& f);

// For the framework's own steps behind it, which need nothing of the caller's scopes: f(i) on these
// threads while they are awake, so that what a context's work uses stays with one of the host's
// cores; else, and where the caller records, listens, or has a StreamScope, here, one after the
// other. Then, where there is one, behind(i) on the same threads, once all f have returned; where
// one threw, none. Of contexts[0] both run here. As inside of parallel(), that is of the thread's
// own context alone there. Rethrows as parallel() does.
void on_threads(const std::vector<Context>& contexts, const std::function<void(int)>& f,
                const std::function<void(int)>& behind = {});

}  // namespace locus

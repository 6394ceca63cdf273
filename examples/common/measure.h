// Measuring what a program does on a context, and saying it: times, errors, machines, files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <locus/core/tensor.h>

namespace examples {

double now();  // seconds of a steady clock

// Of an even number of values, the mean of the middle two. Throws std::invalid_argument for none.
double median(std::vector<double> values);

struct Timing {
  double first = 0;   // the warm-up: loading, allocation, choosing kernels
  double median = 0;  // of the runs after it
  int runs = 0;
};
struct MeasureOptions {
  int at_least = 5;      // runs after the warm-up
  double seconds = 0.1;  // more runs of what is short, until they took this long together
  int at_most = 200;
};
// f ends with a wait for its results: else the time is that of the calls alone.
Timing measure(const std::function<void()>& f, const MeasureOptions& options = {});

// Where b becomes faster than a for good, both times over the same increasing sizes: between two
// sizes by the straight lines of a doubly logarithmic plot. Nothing when b is never faster at the
// end; the first size when it always is.
std::optional<double> crossover(const std::vector<double>& sizes, const std::vector<double>& a,
                                const std::vector<double>& b);

std::string time_text(double seconds);  // "3.21 ms": three digits and a unit
std::string tick_text(double seconds);  // "10 ms": a round number and a unit
std::string count_text(double n);       // "1,048,576"
// "36.6 GB/s", "8.33 MFLOP/s": three digits, a power of 1000 and the unit given.
std::string si_text(double value, const std::string& unit);
std::string counted(double n, const std::string& what);  // "1 wait", "2 waits"

locus::Tensor exactly(const locus::Tensor& x);  // in f64 on the CPU

// max |x - reference| / max |reference|, in f64 on the host. NaN when either has one.
double relative_error(const locus::Tensor& x, const locus::Tensor& reference);
// Throws std::runtime_error when the error is above the limit (or NaN): fast but wrong is no
// result.
void check_error(const std::string& what, double error, double limit);
// The relative error of some rows of product = dot(a, b), two matrices on any context. Throws as
// check_error does above what f32, or TF32 when it is on, explains.
double check_product(const std::string& what, const locus::Tensor& a, const locus::Tensor& b,
                     const locus::Tensor& product);

bool emulated(locus::Context c);
bool real_gpu(locus::Context c);
// What the times of an emulated GPU are: "times modelled" (by LOCUS_EMULATED_LINK), or "times of
// this machine's cores". Else "".
std::string times_note(locus::Context c);
// For errors of too little memory: what sets an emulated one's. Else "".
std::string more_memory(locus::Context c);
// "gpu(0): NVIDIA H200", and the note on its times.
std::string describe(locus::Context c);
// Names of equal hardware once: "cpu(0): AMD EPYC; gpu(0), gpu(1): NVIDIA H200".
std::string describe(const std::vector<locus::Context>& list);

// Whether f32 products on GPUs round their operands to TF32. turn_on_tf32 throws
// std::runtime_error in a build without CUDA.
bool tf32();
void turn_on_tf32();
std::string precision();  // "f32, TF32 off"

// Writes a temporary file and renames it. Throws std::runtime_error naming the file.
void write_file(const std::string& path, const std::string& content);

}  // namespace examples

// Measures work on a context and prints times, errors and machines; writes files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <locus/core/tensor.h>

namespace examples {

double now();  // seconds of a steady clock

// The mean of the middle two if the number of values is even. std::invalid_argument for no values.
double median(std::vector<double> values);

struct Timing {
  double first = 0;   // warm-up: loading, allocation, choice of kernels
  double median = 0;  // of the runs after the warm-up
  double spread = 0;  // half their interquartile range
  int runs = 0;
};
struct MeasureOptions {
  int at_least = 5;      // runs after the warm-up
  double seconds = 0.1;  // short runs repeat until they took this long together
  int at_most = 200;
};
// f must end with a wait for its results, otherwise only the calls are timed.
Timing measure(const std::function<void()>& f, const MeasureOptions& options = {});

// Whether the medians differ by more than both spreads together.
bool differ(const Timing& a, const Timing& b);
// "" unless the spread exceeds 30 % of the median.
std::string unsteady_note(const std::string& what, const Timing& t);
// A line if the load average exceeds the number of cores, else "".
std::string busy_note(double load, unsigned cores);
std::string busy_note();  // of this machine, now

// The size from which b stays faster than a. `sizes` increase. Interpolates between two sizes
// linearly in logarithms. Nothing if b is not faster at the last size; the first size if b is
// always faster.
std::optional<double> crossover(const std::vector<double>& sizes, const std::vector<double>& a,
                                const std::vector<double>& b);

std::string time_text(double seconds);  // "3.21 ms": three digits and a unit
std::string tick_text(double seconds);  // "10 ms": a round number and a unit
std::string count_text(double n);       // "1,048,576"
// "36.6 GB/s", "8.33 MFLOP/s": three digits and a prefix of the given unit
std::string si_text(double value, const std::string& unit);
std::string counted(double n, const std::string& what);  // "1 wait", "2 waits"

locus::Tensor exactly(const locus::Tensor& x);  // in f64 on the CPU

// max |x - reference| / max |reference|, in f64 on the host. NaN if either tensor has a NaN.
double relative_error(const locus::Tensor& x, const locus::Tensor& reference);
// Throws std::runtime_error if the error exceeds the limit or is NaN.
void check_error(const std::string& what, double error, double limit);
// The relative error of some rows of product = dot(a, b), on any context. Throws as check_error()
// if it exceeds the rounding of f32, or of TF32 if TF32 is on.
double check_product(const std::string& what, const locus::Tensor& a, const locus::Tensor& b,
                     const locus::Tensor& product);

bool emulated(locus::Context c);
bool real_gpu(locus::Context c);
// For an emulated GPU "times modelled" (LOCUS_EMULATED_LINK is set) or "times of this machine's
// cores", else "".
std::string times_note(locus::Context c);
// The warning about emulated GPUs in the list, without a line's end; "" for none.
std::string emulation_note(const std::vector<locus::Context>& list);
// A hint for out-of-memory errors on an emulated GPU, else "".
std::string more_memory(locus::Context c);
// "gpu(0): NVIDIA H200", and times_note()
std::string describe(locus::Context c);
// Neighbours with equal hardware share a name: "cpu(0): AMD EPYC; gpu(0), gpu(1): NVIDIA H200".
std::string describe(const std::vector<locus::Context>& list);

// Whether f32 products on GPUs round operands to TF32. turn_on_tf32() throws std::runtime_error in
// a build without CUDA.
bool tf32();
void turn_on_tf32();
std::string precision();  // "f32, TF32 off"

// Writes a temporary file and renames it. std::runtime_error names the file.
void write_file(const std::string& path, const std::string& content);

}  // namespace examples

// Measuring what a program does on a context, and saying it: times, machines, tables, files.
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

// max |x - reference| / max |reference|, in f64 on the host. NaN when either has one.
double relative_error(const locus::Tensor& x, const locus::Tensor& reference);
// Throws std::runtime_error when the error is above the limit (or NaN): fast but wrong is no
// result.
void check_error(const std::string& what, double error, double limit);

// "gpu(0): NVIDIA H200", and for an emulated one that its times are modelled.
std::string describe(locus::Context c);
bool emulated(locus::Context c);
bool any_emulated(const std::vector<locus::Context>& list);
extern const char* const kModelled;  // the sentence that marks times of emulated GPUs

// Whether f32 products on GPUs round their operands to TF32. turn_on_tf32 throws
// std::runtime_error in a build without CUDA.
bool tf32();
void turn_on_tf32();
std::string precision();  // "f32, TF32 off"

// Rows of text in columns: aligned for people, commas for programs. Numbers stand at the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> row);  // throws std::invalid_argument for another length
  std::string aligned() const;
  std::string csv() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// Writes a temporary file and renames it. Throws std::runtime_error naming the file.
void write_file(const std::string& path, const std::string& content);

}  // namespace examples

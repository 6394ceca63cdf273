// Creates tensors on a device, moves them, and runs a network there. Follows MXNet's tutorial on
// GPUs cell by cell, on two real or emulated GPUs.
//   device_transfer
// Each result follows its expression and the number of its cell in the tutorial.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include <locus/locus.h>

#include "common/command.h"
#include "common/measure.h"

using namespace locus;

namespace {

template <class T>
void show(int cell, const std::string& expression, const T& value) {
  std::ostringstream text;
  text << std::boolalpha << value;
  std::cout << '[' << cell << "] " << expression << '\n';
  std::istringstream lines(text.str());
  for (std::string line; std::getline(lines, line);) std::cout << "    " << line << '\n';
  std::cout << '\n';
}

// Devices are registered before main, so the program starts itself again with emulated GPUs.
void need_two_gpus(char** argv) {
  if (num_gpus() >= 2) return;
  if (std::getenv("LOCUS_EMULATED_GPUS") == nullptr) {
    ::setenv("LOCUS_EMULATED_GPUS", "2", 1);
    ::execv("/proc/self/exe", argv);
  }
  throw DeviceError("this program needs gpu(0) and gpu(1), and there are " +
                    std::to_string(num_gpus()) + "; run it with LOCUS_EMULATED_GPUS=2");
}

void run() {
  show(2, "cpu(), gpu(), gpu(1)",
       '(' + to_string(cpu()) + ", " + to_string(gpu()) + ", " + to_string(gpu(1)) + ')');

  Tensor x = array({1.f, 2.f, 3.f});
  show(3, "Tensor x = array({1.f, 2.f, 3.f});  x", x);
  show(4, "x.context()", x.context());

  x = ones({2, 3}, gpu());
  show(5, "x = ones({2, 3}, gpu());  x", x);

  Tensor y = random::uniform(0, 1, {2, 3}, gpu(1));
  show(6, "Tensor y = random::uniform(0, 1, {2, 3}, gpu(1));  y", y);

  Tensor z = x.copyto(gpu(1));
  show(7, "Tensor z = x.copyto(gpu(1));  x", x);
  show(7, "z", z);
  show(8, "y + z", y + z);
  try {
    x + y;
    throw std::logic_error("x + y was not refused");
  } catch (const ContextMismatch& e) {
    show(8, "x + y  throws ContextMismatch", e.what());
  }

  z = x.as_in_context(gpu(1));
  show(9, "z = x.as_in_context(gpu(1));  z", z);
  show(10, "y.as_in_context(gpu(1)).is(y)", y.as_in_context(gpu(1)).is(y));
  show(11, "y.copyto(gpu()).is(y)", y.copyto(gpu()).is(y));
  show(11, "y.copyto(gpu(1)).is(y)", y.copyto(gpu(1)).is(y));

  nn::Sequential net;
  net.add(nn::Dense(1));
  net.initialize(gpu());
  show(12, "nn::Sequential net;  net.add(nn::Dense(1));  net.initialize(gpu());  net", net);
  show(13, "net(x)", net(x));
  show(14, "net[0].parameter(\"weight\").data()", net[0].parameter("weight").data());
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = examples::parse(
          "Creates and moves tensors, and a network, on two GPUs, real or emulated.", argc, argv))
    return *status;
  try {
    need_two_gpus(argv);
    std::cout << examples::describe({gpu(0), gpu(1)}) << "\n\n";
    run();
    examples::check_printed();
  } catch (const std::exception& e) {
    std::cerr << "device_transfer: " << e.what() << '\n';
    return 1;
  }
}

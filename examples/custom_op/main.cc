// Checks axpby, sum_abs and their gradients on every context with a kernel for it.
#include <cmath>
#include <iostream>

#include <locus/locus.h>

#include "axpby.h"

using namespace locus;

namespace {

void expect(const char* what, const std::vector<float>& found, const std::vector<float>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (std::fabs(found.at(i) - wanted[i]) > 1e-6f) {
      throw Error(std::string(what) + ": found " + std::to_string(found[i]) + ", expected " +
                  std::to_string(wanted[i]));
    }
  }
}

void check(Context c) {
  Tensor x = array({1.f, 2.f, 3.f}, c), y = array({10.f, 20.f, 30.f}, c);
  x.attach_grad();
  y.attach_grad();
  Tensor z;
  {
    autograd::Record record;
    z = axpby(2, x, -0.5, y);
  }
  z.backward();
  std::cout << "2*x - 0.5*y = " << z << '\n';
  expect("z", z.to_vector<float>(), {-3, -6, -9});
  expect("dz/dx", x.grad().to_vector<float>(), {2, 2, 2});
  expect("dz/dy", y.grad().to_vector<float>(), {-.5, -.5, -.5});
  expect("axpby of a number", axpby(2, x, 1, 0.5).to_vector<float>(), {2.5, 4.5, 6.5});
  Tensor sum;
  {
    autograd::Record record;
    sum = sum_abs(z.detach() + x);
  }
  sum.backward();
  std::cout << "sum of |z + x| = " << sum << '\n';
  expect("sum", sum.to_vector<float>(), {12});
  expect("dsum/dx", x.grad().to_vector<float>(), {-1, -1, -1});
  try {
    axpby(1, x, 1, ones({4}, c));
    throw std::logic_error("a wrong shape was not refused");
  } catch (const ShapeError& e) {
    std::cout << "refused: " << e.what() << '\n';
  }
}

}  // namespace

int main() {
  try {
    check(cpu());
    for (const Context c : gpus(num_gpus())) {
      if (get_op("axpby").kernel(device(c).kernels(), f32) != nullptr) check(c);
    }
  } catch (const std::exception& e) {
    std::cerr << "custom_op: " << e.what() << '\n';
    return 1;
  }
  std::cout << "custom_op: all right\n";
}

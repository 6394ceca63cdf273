// Finds the principal components of handwritten digits: the directions in which images differ most.
//   pca --context "gpu(0)" --components 10,50,200 --out out
// The components are eigenvectors of the covariance of the pixels. The picture shows the first
// components, test digits that are rebuilt from some components, and test digits in the plane of
// the first two.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"
#include "training/digits.h"
#include "training/images.h"
#include "training/plane.h"

using namespace locus;
using namespace examples;

namespace {

constexpr int kSide = 28, kPixels = kSide * kSide;

struct Pca {
  Tensor mean;        // (784,)
  Tensor components;  // (784, 784): a component in each row, largest variance first
  Tensor variances;   // (784,)
};

Pca fit(const Tensor& images) {
  const Tensor mean = images.mean(0), centred = images - mean;
  const Tensor covariance = dot(centred.T(), centred) / static_cast<double>(images.shape()[0] - 1);
  const auto [w, v] = eigh(covariance);  // ascending; eigenvectors are columns
  return {mean, flip(v.T(), 0), flip(w, 0)};
}

// The coordinates of images along the first `count` components, and the images of coordinates.
Tensor project(const Pca& pca, const Tensor& images, int64_t count) {
  return dot(images - pca.mean, pca.components(Slice(0, count)).T());
}
Tensor rebuild(const Pca& pca, const Tensor& codes) {
  return dot(codes, pca.components(Slice(0, codes.shape()[1]))) + pca.mean;
}

std::string format_percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// Draws parts of the picture from top to bottom.
class Picture {
 public:
  static constexpr double kTop = 84, kLeft = 40, kWidth = 880;

  void draw_components(const Pca& pca, const std::vector<float>& shares) {
    constexpr double kStep = kWidth / 10, kSize = 78;
    draw_heading("The mean, and the first 19 components with their share of the variance");
    for (int i = 0; i < 20; ++i) {
      const double x = kLeft + i % 10 * kStep, y = top_ + i / 10 * (kSize + 30);
      const Tensor image = i == 0 ? pca.mean : pca.components[i - 1];
      const std::vector<float> v = (image / abs(image).max()).to_vector<float>();
      const std::string name =
          i == 0 ? "mean"
                 : fmt::format("{}: {}", i, format_percent(shares[static_cast<size_t>(i) - 1]));
      body_ += svg::text(x, y + 12, name, {.color = svg::kMuted, .size = 12});
      body_ += i == 0 ? training::gray_image(v, kSide, kSide, x, y + 18, kSize)
                      : training::signed_image(v, kSide, kSide, x, y + 18, kSize);
    }
    top_ += 2 * (kSize + 30) + 34;
  }

  // Rows of images: each row is a name and ten images.
  void draw_digits(const std::vector<std::pair<std::string, Tensor>>& rows) {
    constexpr double kNames = 130, kStep = (kWidth - kNames) / 10, kSize = 68;
    draw_heading("Test digits, and the same digits rebuilt from their first coordinates");
    for (const auto& [name, images] : rows) {
      body_ += svg::text(kLeft, top_ + kSize / 2 + 4, name);
      for (int64_t i = 0; i < images.shape()[0]; ++i)
        body_ += training::gray_image(images[i].to_vector<float>(), kSide, kSide,
                                      kLeft + kNames + static_cast<double>(i) * kStep, top_, kSize);
      top_ += kSize + 8;
    }
    top_ += 34;
  }

  void draw_plane(const Tensor& codes, const std::vector<int>& labels) {
    constexpr double kHeight = 460;
    draw_heading("Test digits along the first component (right) and the second (up)");
    body_ +=
        training::draw_class_plane(codes.to_vector<float>(), labels, kLeft, top_, kWidth, kHeight);
    top_ += kHeight + training::kPlaneKeys;
  }

  const std::string& body() const { return body_; }
  double height() const { return top_ - kTop; }

 private:
  void draw_heading(const std::string& s) {
    body_ += svg::text(kLeft, top_ + 14, s, {.size = 15, .weight = 600});
    top_ += 28;
  }

  std::string body_;
  double top_ = kTop;
};

// The first image of each digit that occurs.
Tensor find_one_of_each(const Tensor& images, const std::vector<int>& labels) {
  std::vector<int64_t> found;
  for (int digit = 0; digit < 10; ++digit)
    if (const auto at = std::ranges::find(labels, digit); at != labels.end())
      found.push_back(at - labels.begin());
  return images.take(array(found, images.context()));
}

void run(const Program& program, const std::string& folder, const std::vector<int64_t>& counts,
         int64_t seed) {
  const Context c = program.context();
  const training::Digits data = training::load_digits(folder, static_cast<uint64_t>(seed));
  program.print_machine({c});
  fmt::print("data: {}\n\n", data.name);
  const Tensor train = data.train.data().as_in_context(c), test = data.test.data().as_in_context(c);
  train.wait_to_read();

  const double start = now();
  const Pca pca = fit(train);
  pca.components.wait_to_read();
  const double seconds = now() - start;

  // Shares of the variance, of training and test images.
  const Tensor shares = pca.variances / pca.variances.sum();
  const Tensor squares = square(project(pca, test, kPixels)).sum(0);
  const std::vector<float> variance = pca.variances.to_vector<float>(),
                           share = shares.to_vector<float>(),
                           kept = cumsum(shares).to_vector<float>(),
                           kept_of_test = (cumsum(squares) / squares.sum()).to_vector<float>();
  Table table({"component",
               "variance",
               "share",
               {"up to here", "cumulative_share"},
               {"of test digits", "cumulative_share_of_test"}});
  for (const int number : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 50, 100, 200, 400}) {
    const size_t i = static_cast<size_t>(number) - 1;
    const auto cell = [](float v) {
      return Cell(fmt::format("{:.2f} %", 100 * v), fmt::format("{:.6g}", v));
    };
    table.add({count_cell(number), number_cell(variance[i], "{:.4f}"), cell(share[i]),
               cell(kept[i]), cell(kept_of_test[i])},
              c);
  }
  fmt::print("{}\n", table.aligned());

  const std::vector<int> labels = data.test.label().astype(i32).to_vector<int>();
  const Tensor originals = find_one_of_each(test, labels);
  std::vector<std::pair<std::string, Tensor>> rows{{"original", originals}};
  for (const int64_t n : counts)
    rows.emplace_back(counted(static_cast<double>(n), "component"),
                      rebuild(pca, project(pca, originals, n)));
  const size_t dots = std::min<size_t>(labels.size(), 2000);
  Picture picture;
  picture.draw_components(pca, share);
  picture.draw_digits(rows);
  picture.draw_plane(project(pca, test(Slice(0, static_cast<int64_t>(dots))), 2),
                     {labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(dots)});
  std::string explanation =
      fmt::format("The covariance of {} images of {} pixels and its eigenvectors took {}. ",
                  count_text(static_cast<double>(train.shape()[0])), kPixels, time_text(seconds));
  explanation += "Shares of the variance of test digits:";
  for (const int64_t n : counts)
    explanation += fmt::format("{} {} {}", n == counts.front() ? "" : ",",
                               counted(static_cast<double>(n), "component"),
                               format_percent(kept_of_test[static_cast<size_t>(n) - 1]));
  explanation +=
      ". Where a component is blue, pixels become darker as its coordinate grows; where it is red, "
      "paler. In the plane, the number of each class stands near its dots.";
  program.finish(table, svg::Figure{.title = "Principal components of handwritten digits",
                                    .subtitle = data.name + "; " + describe(c),
                                    .body = picture.body(),
                                    .explanation = explanation,
                                    .top = Picture::kTop,
                                    .height = picture.height()});
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder;
  std::vector<int64_t> counts{10, 50, 200};
  int64_t seed = 7;
  Program program("pca", "Finds the principal components of handwritten digits.", RunsOn::one);
  program.options().add_option("--data", folder, training::kDigitsHelp);
  program.options()
      .add_option("--components", counts, "how many components to rebuild digits from")
      ->delimiter(',')
      ->check(whole(1, kPixels))
      ->capture_default_str();
  program.options()
      .add_option("--seed", seed, "seed of digits that the program draws")
      ->check(whole(0))
      ->capture_default_str();
  return program.run(argc, argv, [&](const Program& p) { run(p, folder, counts, seed); });
}

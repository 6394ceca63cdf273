// Pictures that the programs share.
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "common/svg.h"
#include "training/images.h"
#include "training/plane.h"

namespace training {
namespace {

int count(const std::string& text, std::string_view part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

TEST(TrainingImages, SignedImagesHaveAColorForEachSign) {
  const std::string blue = std::string("fill=\"") + examples::svg::kBlue,
                    red = std::string("fill=\"") + examples::svg::kRed;
  const auto colors = [&](const std::vector<float>& values) {
    const std::string s = signed_image(values, 2, 2, 0, 0, 10);
    return std::vector{count(s, blue), count(s, red), count(s, "<g"), count(s, "</g>")};
  };
  EXPECT_THAT(colors({0, 0, 0, 0.05f}), testing::ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(colors({1, 1, 0.5f, 0}), testing::ElementsAre(2, 0, 1, 1));  // two levels
  EXPECT_THAT(colors({1, -1, 0.5f, 0}), testing::ElementsAre(2, 1, 1, 1));
  EXPECT_THAT(
      signed_image({0, -1, 1, 1}, 2, 2, 0, 0, 10),
      testing::AllOf(testing::HasSubstr("M1 0h1v1h-1z"), testing::HasSubstr("M0 1h2v1h-2z")));
}

TEST(TrainingPlane, LeavesOutOnePercentAtEachEnd) {
  std::vector<float> points;
  std::vector<int> labels;
  for (int i = 0; i < 300; ++i) {
    points.insert(points.end(), {static_cast<float>(i), static_cast<float>(-i)});
    labels.push_back(i % 10);
  }
  const std::string plane = draw_class_plane(points, labels, 5, 7, 100, 80);
  EXPECT_EQ(count(plane, "<circle"), 294);  // without 3 at each end
  EXPECT_THAT(plane,
              testing::HasSubstr("cx=\"17.0\" cy=\"19.0\""));  // the fourth: left, at the top
  EXPECT_THAT(plane, testing::HasSubstr("cx=\"93.0\" cy=\"75.0\""));  // the fourth last
  EXPECT_EQ(count(plane, "<text"), 20);  // each class in the box and below it
}

TEST(TrainingPlane, EqualPointsStayInTheBox) {
  const std::string plane = draw_class_plane({2, 3, 2, 3}, {0, 9}, 0, 0, 100, 80);
  EXPECT_EQ(count(plane, "<circle"), 2);
  EXPECT_EQ(count(plane, "<text x=\"12.0\" y=\"75.0\""), 1);  // 0's number
  EXPECT_EQ(count(plane, "<text x=\"34.0\" y=\"75.0\""), 1);  // 9's is beside it
  EXPECT_EQ(count(plane, "nan"), 0);
}

}  // namespace
}  // namespace training

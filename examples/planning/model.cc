#include "planning/model.h"

#include <sstream>

#include <locus/core/io/atomic_file.h>
#include <locus/locus.h>

#include "training/models.h"

namespace planning {

using namespace locus;

namespace {

// Reads the words of a line in order.
class Line {
 public:
  Line(const std::string& file, int number, const std::string& text)
      : place_(text_of(file, ":", number, ": ")), text_(text), words_(text) {}

  [[noreturn]] void refuse(const auto&... what) const { throw FormatError(place_, what...); }
  const std::string& place() const { return place_; }

  // "" at the end.
  std::string word() {
    std::string w;
    words_ >> w;
    return w;
  }
  template <class T>
  T number(const char* what, double least, double most) {
    const std::string w = word();
    const auto v = number_in<T>(w);
    if (!v || !(static_cast<double>(*v) >= least && static_cast<double>(*v) <= most))
      refuse("\"", text_, "\": ", what, " \"", w, "\"; expected a number from ", least, " to ",
             most);
    return *v;
  }
  int64_t length(const char* what, int64_t least = 1) {
    return number<int64_t>(what, static_cast<double>(least), 1 << 20);
  }
  // The remaining lengths.
  std::vector<int64_t> lengths() {
    std::vector<int64_t> all;
    while (all.empty() || (words_ >> std::ws && !words_.eof())) all.push_back(length("length"));
    if (all.size() > 3)
      refuse("\"", text_, "\"; expected up to three lengths, those of one sample");
    return all;
  }

  struct Options {
    nn::Activation activation = {};
    int64_t strides = 0, padding = 0;  // 0: the layer's default
  };
  Options options(bool activation, bool window) {
    Options o;
    for (std::string w = word(); !w.empty(); w = word()) {
      if (window && w == "strides")
        o.strides = length("strides");
      else if (window && w == "padding")
        o.padding = length("padding", 0);
      else if (const nn::Activation* a = find(w); activation && a && !o.activation.apply)
        o.activation = *a;
      else
        refuse("\"", text_, "\": \"", w, "\"; expected ", window ? "strides, padding" : "",
               window && activation ? " or " : "",
               activation ? "relu, sigmoid, tanh, gelu or silu" : "",
               window || activation ? "" : "the end of the line");
    }
    return o;
  }

 private:
  static const nn::Activation* find(const std::string& name) {
    static const nn::Activation* const all[] = {&nn::relu, &nn::sigmoid, &nn::tanh, &nn::gelu,
                                                &nn::silu};
    for (const nn::Activation* a : all)
      if (a->name == name) return a;
    return nullptr;
  }

  const std::string place_, text_;
  std::istringstream words_;
};

using Add = std::function<void(nn::Sequential&)>;

// Returns a function that adds a new layer.
Add layer(const std::string& type, Line& line) {
  const auto adds = [](auto make) -> Add {
    return [make](nn::Sequential& net) { net.add(make()); };
  };
  const auto pool = [&](auto make) {
    const int64_t size = line.length("window");
    const Line::Options o = line.options(false, true);
    const PoolingOptions p{.strides = o.strides, .padding = o.padding};
    return adds([=] { return make(size, p); });
  };
  if (type == "Dense") {
    const int64_t units = line.length("units");
    const nn::Activation a = line.options(true, false).activation;
    return adds([=] { return nn::Dense(units, a); });
  }
  if (type == "Conv2D") {
    const int64_t channels = line.length("channels"), kernel = line.length("kernel");
    const Line::Options o = line.options(true, true);
    return adds([=] {
      return nn::Conv2D(channels, kernel,
                        {.strides = std::max<int64_t>(1, o.strides),
                         .padding = o.padding,
                         .activation = o.activation});
    });
  }
  if (type == "MaxPool2D")
    return pool([](int64_t size, const PoolingOptions& p) { return nn::MaxPool2D(size, p); });
  if (type == "AvgPool2D")
    return pool([](int64_t size, const PoolingOptions& p) { return nn::AvgPool2D(size, p); });
  if (type == "Dropout") {
    const double rate = line.number<double>("rate", 0, .999);
    line.options(false, false);
    return adds([=] { return nn::Dropout(rate); });
  }
  if (type == "Activate") {
    const nn::Activation a = line.options(true, false).activation;
    return adds([=] { return nn::Activate(a); });
  }
  if (type == "GlobalAvgPool2D" || type == "BatchNorm" || type == "Flatten") {
    line.options(false, false);
    if (type == "BatchNorm") return adds([] { return nn::BatchNorm(); });
    if (type == "Flatten") return adds([] { return nn::Flatten(); });
    return adds([] { return nn::GlobalAvgPool2D(); });
  }
  line.refuse("\"", type,
              "\"; expected input, Dense, Conv2D, MaxPool2D, AvgPool2D, "
              "GlobalAvgPool2D, BatchNorm, Dropout, Activate or Flatten");
}

}  // namespace

Model parse_model(const std::string& text, const std::string& name) {
  std::vector<Add> layers;
  std::vector<std::string> places;
  std::vector<int64_t> sample;
  bool begun = false;
  std::istringstream lines(text);
  int number = 0;
  for (std::string s; std::getline(lines, s);) {
    Line line(name, ++number, s.substr(0, s.find('#')));
    const std::string type = line.word();
    if (type.empty()) continue;
    if (!begun) {
      if (type != "model-1") line.refuse("\"", type, "\"; expected model-1, the version");
      line.options(false, false);
      begun = true;
    } else if (type == "input") {
      if (!sample.empty()) line.refuse("\"input\" again; expected it once");
      sample = line.lengths();
    } else {
      if (sample.empty()) line.refuse("\"", type, "\"; expected \"input\" and a shape before it");
      layers.push_back(layer(type, line));
      places.push_back(line.place());
    }
  }
  if (layers.empty())
    throw FormatError(name, ":", number, ": no layers; expected model-1, input and some");
  Model model{name,
              [layers] {
                nn::Sequential net;
                for (const Add& add : layers) add(net);
                return net;
              },
              Shape(sample)};
  // Runs once to check the shapes.
  nn::Sequential net = model.make();
  net.initialize(init::Xavier(), cpu());
  std::vector<int64_t> one{1};
  one.insert(one.end(), sample.begin(), sample.end());
  Tensor x;
  try {
    x = zeros(Shape(one), cpu());
  } catch (const Error& e) {
    throw FormatError(name, ": input: ", e.what());
  }
  for (int i = 0; i < net.size(); ++i) {
    const auto& place = places[static_cast<size_t>(i)];
    try {
      x = net[i](x);
    } catch (const Error& e) {
      throw FormatError(place, e.what());
    }
  }
  if (x.ndim() != 2)
    throw FormatError(places.back(), "the last layer gives ", describe(x),
                      "; expected (N, classes)");
  if (net.parameters().empty())
    throw FormatError(places.back(), "no layer has parameters; expected one to train");
  model.classes = x.shape()[1];
  return model;
}

bool depends_on_batch(const Model& model) {
  const std::function<bool(const nn::Block&)> depends = [&](const nn::Block& block) {
    return dynamic_cast<const nn::BatchNorm*>(&block) || dynamic_cast<const nn::Dropout*>(&block) ||
           std::ranges::any_of(block.children(), [&](const auto& c) { return depends(*c.second); });
  };
  return depends(model.make());
}

Model load_model(const std::string& name, const std::vector<int64_t>& hidden) {
  if (name == "mlp") return {name, [hidden] { return training::mlp(hidden); }, {784}};
  if (name == "lenet") return {name, training::lenet, {1, 28, 28}};
  if (name == "resnet") return {name, [] { return training::resnet(3); }, {3, 32, 32}};
  return parse_model(read_file(name, "mlp, lenet, resnet or a file of layers"), name);
}

}  // namespace planning

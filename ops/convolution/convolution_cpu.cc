#include <new>

#include <locus/ops/convolution/convolution_columns.h>
#include <locus/ops/convolution/convolution_depthwise.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

// to[k]: the offset, in a result's planes, of its k-th product. By channel.
void data_steps(const Convolution& g, const Planes& p, int64_t* to) {
  for (int64_t i = 0; i < g.in; ++i)
    for (int64_t a = 0; a < g.kernel[0]; ++a)
      for (int64_t b = 0; b < g.kernel[1]; ++b)
        for (int64_t c = 0; c < g.kernel[2]; ++c)
          *to++ = i * p.volume() + p.at(a * g.dilation[0], b * g.dilation[1], c * g.dilation[2]);
}
// The same offsets in the weight of one channel.
void weight_steps(const Convolution& g, int64_t* to) {
  for (int64_t i = 0; i < g.in; ++i)
    for (int64_t tap = 0; tap < g.taps(); ++tap) *to++ = g.weight_at(0, i, tap);
}
// The kernel's first offset for each result of p.
int64_t position_steps(const Convolution& g, const Planes& p, int slowest, int64_t rows,
                       int64_t* to) {
  int64_t n[3];
  for (int a = 0; a < 3; ++a) n[a] = a == slowest ? rows : g.result[a];
  for (int64_t i = 0; i < n[0]; ++i)
    for (int64_t j = 0; j < n[1]; ++j)
      for (int64_t k = 0; k < n[2]; ++k)
        *to++ = p.at(i * g.stride[0], j * g.stride[1], k * g.stride[2]);
  return Convolution::product(n);
}
// Panels of the columns at at[0], at[1], ...
template <class T>
void columns_of(const int64_t* at, int64_t n, Columns<T>* to) {
  for (int64_t first = 0; first < n; first += kColumns<T>)
    new (to++) Columns<T>(n - first < kColumns<T> ? n - first : kColumns<T>, at + first);
}

// Packs value(row, k) for k in [begin, end), for multiply().
template <class T, class F>
void pack_rows(const Panels& rows, int64_t begin, int64_t end, const F& value, T* to) {
  for (int64_t panel = 0; panel < rows.count; ++panel)
    for (int64_t k = begin; k < end; ++k)
      for (int64_t i = panel * rows.each; i < (panel + 1) * rows.each; ++i)
        *to++ = i < rows.rows ? value(i, k) : T(0);
}
// Packs the whole depth, in blocks of kBlockDepth.
template <class T, class F>
void pack_blocks(const Panels& rows, int64_t depth, const F& value, T* to) {
  for (int64_t k = 0; k < depth; k += kBlockDepth)
    pack_rows(rows, k, k + kBlockDepth < depth ? k + kBlockDepth : depth, value,
              to + k * rows.padded());
}

template <DType D>
struct Host {
  using S = CppTypeOf<D>;
  using T = Compute<S>;
  static constexpr int64_t kN = kColumns<T>, kSlack = Columns<T>::kSlack;

  const Call& call;
  const Convolution g;
  int slowest = g.result[0] > 1 || g.data[0] > 1 || g.kernel[0] > 1   ? 0
                : g.result[1] > 1 || g.data[1] > 1 || g.kernel[1] > 1 ? 1
                                                                      : 2;

  // If images are few, an image's results are cut along their slowest axis.
  void forward(const S* x, const S* w, const S* bias, bool relu, S* y) const {
    if (is_depthwise(g)) return Depthwise<S>{call, g}.forward(x, w, bias, relu, y);
    const int64_t depth = g.depth(), threads = TaskPartition::threads(g),
                  length = g.result[slowest];
    const int64_t images = g.images * g.groups;
    int64_t bands = images == 0 || images >= 4 * threads ? 1 : cuts(4 * threads, images);
    if (bands > length) bands = length;
    const int64_t band = cuts(length, bands);
    bands = cuts(length, band);
    const Planes largest(g, slowest, 0, band);
    const int64_t row = g.positions() / length, positions = band * row;
    const Panels rows(g.out);
    const TaskPartition partition(g, images * bands);

    Parts common, own;
    const size_t at_weight = common.add<T>(g.groups * rows.padded() * depth),
                 at_steps = common.add<int64_t>(depth > positions ? depth : positions),
                 at_columns = common.add<Columns<T>>(cuts(positions, kN));
    const size_t at_planes = own.add<T>(g.in * largest.volume() + kSlack),
                 at_b = own.add<T>(kBlockDepth * kN + kSlack),
                 at_c = own.add<T>(rows.padded() * kN);
    const Scratch shared(call, common.bytes()), separate(call, own.bytes() * partition.slots());
    char* const memory = shared.as<char>();
    T* const weight = reinterpret_cast<T*>(memory + at_weight);
    int64_t* const steps = reinterpret_cast<int64_t*>(memory + at_steps);
    Columns<T>* const columns = reinterpret_cast<Columns<T>*>(memory + at_columns);
    weight_steps(g, steps);
    for (int64_t group = 0; group < g.groups; ++group)
      pack_blocks(
          rows, depth,
          [&](int64_t o, int64_t k) {
            return convert<T>(w[(group * g.out + o) * depth + steps[k]]);
          },
          weight + group * rows.padded() * depth);
    columns_of(steps, position_steps(g, largest, slowest, band, steps), columns);
    data_steps(g, largest, steps);

    partition.run([&](int64_t task, int64_t slot) {
      const int64_t n = task / bands / g.groups, group = task / bands % g.groups;
      const int64_t begin = task % bands * band, end = clamp(begin + band, 0, length);
      char* const mine = separate.as<char>() + own.bytes() * static_cast<size_t>(slot);
      T* const planes = reinterpret_cast<T*>(mine + at_planes);
      T* const b = reinterpret_cast<T*>(mine + at_b);
      T* const c = reinterpret_cast<T*>(mine + at_c);
      // The last band may be shorter, with unused planes.
      Planes here = largest;
      here.first[slowest] += begin * g.stride[slowest];
      stage(g, x, n, group * g.in, (group + 1) * g.in, here, planes);
      const T* const a = weight + group * rows.padded() * depth;
      for (int64_t at = 0; at < (end - begin) * row; at += kN) {
        const Columns<T>& some = columns[at / kN];
        for (int64_t k = 0; k < depth || k == 0; k += kBlockDepth) {
          const int64_t block = depth - k < kBlockDepth ? depth - k : kBlockDepth;
          some.pack(planes, steps + k, block, b);
          multiply(rows, block, a + k * rows.padded(), b, c, kN, k > 0);
        }
        const int64_t left = (end - begin) * row - at;
        finish(c, n, group, begin * row + at, left < some.size() ? left : some.size(), bias, relu,
               y);
      }
    });
  }

  void finish(T* c, int64_t n, int64_t group, int64_t at, int64_t count, const S* bias, bool relu,
              S* y) const {
    for (int64_t o = 0; o < g.out; ++o) {
      T* const row = c + o * kN;
      if (bias != nullptr) {
        const T more = convert<T>(bias[group * g.out + o]);
        for (int64_t j = 0; j < kN; ++j) row[j] += more;
      }
      if (relu)
        for (int64_t j = 0; j < kN; ++j) row[j] = row[j] < T(0) ? T(0) : row[j];
      if (!g.channels_last) convert_run(row, y + g.result_at(n, group * g.out + o, at), count);
    }
    if (!g.channels_last) return;
    for (int64_t j = 0; j < count; ++j) {
      S* const to = y + g.result_at(n, group * g.out, at + j);
      for (int64_t o = 0; o < g.out; ++o) to[o] = convert<S>(c[o * kN + j]);
    }
  }

  // dx: products of weight and dz are added to the planes that the forward pass reads. If images
  // are few, an image's channels are cut.
  void data_gradient(const S* dy, const S* y, const S* w, const S* bias, S* dx) const {
    if (is_depthwise(g)) return Depthwise<S>{call, g}.data_gradient(dy, y, w, bias, dx);
    const int64_t depth = g.depth(), taps = g.taps(), size = g.positions();
    const int64_t threads = TaskPartition::threads(g), images = g.images * g.groups;
    int64_t parts = images == 0 || images >= 4 * threads ? 1 : cuts(4 * threads, images);
    if (parts > g.in) parts = g.in > 0 ? g.in : 1;
    const int64_t channels = cuts(g.in, parts);
    parts = channels > 0 ? cuts(g.in, channels) : 0;
    const Planes p(g, slowest, 0, g.result[slowest]);
    const TaskPartition partition(g, images * parts);
    constexpr int64_t kStrip = 16;  // panels whose results fit the first-level cache
    const Panels most(channels * taps);

    Parts common, own;
    const size_t at_weight = common.add<T>(g.groups * parts * most.padded() * g.out),
                 at_steps = common.add<int64_t>(depth > size ? depth : size),
                 at_columns = common.add<Columns<T>>(cuts(size, kN));
    const size_t at_planes = own.add<T>(channels * p.volume() + kSlack),
                 at_dz = own.add<T>(g.out * size + kSlack), at_b = own.add<T>(kBlockDepth * kN),
                 at_c = own.add<T>(kStrip * most.each * kN);
    const Scratch shared(call, common.bytes()), separate(call, own.bytes() * partition.slots());
    char* const memory = shared.as<char>();
    T* const weight = reinterpret_cast<T*>(memory + at_weight);
    int64_t* const steps = reinterpret_cast<int64_t*>(memory + at_steps);
    Columns<T>* const columns = reinterpret_cast<Columns<T>*>(memory + at_columns);
    const auto rows_of = [&](int64_t part) {
      return Panels((clamp((part + 1) * channels, 0, g.in) - part * channels) * taps);
    };
    weight_steps(g, steps);
    for (int64_t i = 0; i < g.groups * parts; ++i) {
      const int64_t first = i % parts * channels * taps, group = i / parts;
      pack_blocks(
          rows_of(i % parts), g.out,
          [&](int64_t row, int64_t o) {
            return convert<T>(w[(group * g.out + o) * depth + steps[first + row]]);
          },
          weight + i * most.padded() * g.out);
    }
    columns_of(steps, position_steps(g, p, slowest, g.result[slowest], steps), columns);
    data_steps(g, p, steps);

    partition.run([&](int64_t task, int64_t slot) {
      const int64_t n = task / parts / g.groups, group = task / parts % g.groups;
      const int64_t part = task % parts, first = part * channels;
      const Panels rows = rows_of(part);
      char* const mine = separate.as<char>() + own.bytes() * static_cast<size_t>(slot);
      T* const planes = reinterpret_cast<T*>(mine + at_planes);
      T* const dz = reinterpret_cast<T*>(mine + at_dz);
      T* const b = reinterpret_cast<T*>(mine + at_b);
      T* const c = reinterpret_cast<T*>(mine + at_c);
      const T* const a = weight + (group * parts + part) * most.padded() * g.out;
      stage_result(g, dy, y, n, group * g.out, (group + 1) * g.out, dz);
      const int64_t channel = group * g.in + first, end = channel + rows.rows / taps;
      begin_planes(bias, channel, end, p, planes);
      for (int64_t at = 0; at < size; at += kN) {
        const Columns<T>& some = columns[at / kN];
        for (int64_t k = 0; k < g.out; k += kBlockDepth) {
          const int64_t block = g.out - k < kBlockDepth ? g.out - k : kBlockDepth;
          for (int64_t o = 0; o < block; ++o)  // past the row's end; those results are unused
            std::memcpy(b + o * kN, dz + (k + o) * size + at, kN * sizeof(T));
          Panels strip = rows;
          for (int64_t panel = 0; panel < rows.count; panel += kStrip) {
            strip.count = rows.count - panel < kStrip ? rows.count - panel : kStrip;
            const int64_t row = panel * rows.each;
            multiply(strip, block, a + k * rows.padded() + row * block, b, c, kN, false);
            const int64_t last = clamp(row + strip.padded(), 0, rows.rows);
            for (int64_t i = row; i < last; ++i)
              some.scatter(c + (i - row) * kN, planes + steps[i]);
          }
        }
      }
      unstage(g, planes, n, channel, end, p, bias, dx);
    });
  }

  // dw: images are cut in chunks, independent of the number of threads. Chunks are added in f64. If
  // chunks are few, the columns are cut. db: sums of dz.
  void weight_gradient(const S* x, const S* dy, const S* y, S* dw, S* db) const {
    if (is_depthwise(g)) return Depthwise<S>{call, g}.weight_gradient(x, dy, y, dw, db);
    constexpr int64_t kMaxChunks = 16, kMaxSums = 1 << 23;
    const int64_t depth = dw != nullptr ? g.depth() : 0, size = g.positions(), taps = g.taps();
    const Panels rows(g.out);
    const int64_t panels = cuts(depth, kN), ld = panels * kN, sums = rows.padded() * ld;
    int64_t chunks = clamp(kMaxSums / at_least_1(sums * g.groups), 1, kMaxChunks);
    if (chunks > g.images) chunks = g.images;
    const int64_t threads = TaskPartition::threads(g), tasks = chunks * g.groups;
    int64_t ranges = tasks == 0 || tasks >= threads ? 1 : cuts(threads, tasks);
    const int64_t range = at_least_1(cuts(panels, ranges));
    ranges = at_least_1(cuts(panels, range));
    const Planes p(g, slowest, 0, g.result[slowest]);
    const TaskPartition partition(g, tasks * ranges);

    Parts common, own;
    const size_t at_sums = common.add<T>(chunks * g.groups * sums),
                 at_bias = common.add<double>(chunks * g.groups * g.out),
                 at_data = common.add<int64_t>(g.depth()), at_positions = common.add<int64_t>(size),
                 at_columns = common.add<Columns<T>>(panels);
    const size_t at_planes = own.add<T>(g.in * p.volume() + kSlack),
                 at_dz = own.add<T>(g.out * size), at_a = own.add<T>(rows.padded() * kBlockDepth),
                 at_b = own.add<T>(kBlockDepth * kN + kSlack);
    const Scratch shared(call, common.bytes()), separate(call, own.bytes() * partition.slots());
    char* const memory = shared.as<char>();
    T* const all_sums = reinterpret_cast<T*>(memory + at_sums);
    double* const bias = reinterpret_cast<double*>(memory + at_bias);
    int64_t* const steps = reinterpret_cast<int64_t*>(memory + at_data);
    int64_t* const positions = reinterpret_cast<int64_t*>(memory + at_positions);
    Columns<T>* const columns = reinterpret_cast<Columns<T>*>(memory + at_columns);
    data_steps(g, p, steps);
    columns_of(steps, depth, columns);
    position_steps(g, p, slowest, g.result[slowest], positions);

    partition.run([&](int64_t task, int64_t slot) {
      const int64_t at = task / ranges, chunk = at / g.groups, group = at % g.groups;
      const int64_t first = task % ranges * range, last = clamp(first + range, 0, panels);
      const int64_t channel = first * kN / taps,
                    channels_end = clamp(cuts(last * kN, taps), 0, g.in);
      char* const mine = separate.as<char>() + own.bytes() * static_cast<size_t>(slot);
      T* const planes = reinterpret_cast<T*>(mine + at_planes);
      T* const dz = reinterpret_cast<T*>(mine + at_dz);
      T* const a = reinterpret_cast<T*>(mine + at_a);
      T* const b = reinterpret_cast<T*>(mine + at_b);
      T* const c = all_sums + at * sums;
      const int64_t begin = chunk * g.images / chunks, end = (chunk + 1) * g.images / chunks;
      for (int64_t n = begin; n < end; ++n) {
        stage_result(g, dy, y, n, group * g.out, (group + 1) * g.out, dz);
        if (first == 0)
          for (int64_t o = 0; o < g.out; ++o) {
            double& sum = bias[at * g.out + o];
            sum = (n == begin ? 0 : sum) + total(dz + o * size, size);
          }
        if (dw == nullptr) continue;
        stage(g, x, n, group * g.in + channel, group * g.in + channels_end, p,
              planes + channel * p.volume());
        for (int64_t k = 0; k < size; k += kBlockDepth) {
          const int64_t block = size - k < kBlockDepth ? size - k : kBlockDepth;
          pack_rows(
              rows, k, k + block, [&](int64_t o, int64_t i) { return dz[o * size + i]; }, a);
          for (int64_t panel = first; panel < last; ++panel) {
            columns[panel].pack(planes, positions + k, block, b);
            multiply(rows, block, a, b, c + panel * kN, ld, n > begin || k > 0);
          }
        }
      }
    });

    if (dw != nullptr) {
      weight_steps(g, steps);
      parallel_ranges(g.groups * g.out, threads > 1 ? cuts(g.groups * g.out, threads) : INT64_MAX,
                      [&](int64_t begin, int64_t end) {
                        for (int64_t o = begin; o < end; ++o)
                          for (int64_t k = 0; k < depth; ++k) {
                            const T* const from = all_sums + o / g.out * sums + o % g.out * ld + k;
                            double sum = 0;
                            for (int64_t i = 0; i < chunks; ++i)
                              sum += static_cast<double>(from[i * g.groups * sums]);
                            dw[o * depth + steps[k]] = convert<S>(sum);
                          }
                      });
    }
    if (db == nullptr) return;
    for (int64_t o = 0; o < g.groups * g.out; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < chunks; ++i) sum += bias[i * g.groups * g.out + o];
      db[o] = convert<S>(sum);
    }
  }
};

}  // namespace

extern constinit const KernelList convolution = convolution_kernels<Host>();

}  // namespace locus::LOCUS_ISA_NAMESPACE

"""The calls that compare.py compares.

A case is the row's name, the op's name, its inputs, its attributes, and the call in NumPy. Functions
that only SciPy has are left out without SciPy.
"""

import numpy as np

try:
    import scipy.special as special
except ImportError:
    special = None


def data(n=1_000_000):
    rng = np.random.default_rng(1)
    f32 = rng.standard_normal(n, dtype=np.float32)
    i64 = rng.integers(-n, n, n)
    return {"f32": f32, "f64": f32.astype(np.float64), "i32": i64.astype(np.int32), "i64": i64,
            "u8": rng.integers(0, 256, n, dtype=np.uint8), "bool": rng.random(n) < 0.5}


def order(of):
    for x in of.values():
        yield "sort", "sort", [x], {}, lambda: np.sort(x, kind="stable")
        yield "argsort", "argsort", [x], {}, lambda: np.argsort(x, kind="stable")
        middle = x.size // 2
        yield "partition", "partition", [x], {"kth": middle}, lambda: np.partition(x, middle)
        yield "argpartition", "argpartition", [x], {"kth": middle}, lambda: np.argpartition(
            x, middle)
        yield "topk of 100", "topk", [x], {"k": 100}, lambda: x[np.argpartition(x, -100)[-100:]]
        yield "unique", "unique", [x], {}, lambda: np.unique(x)
    x, y = of["f32"], of["i32"] % 1000
    rows = x.reshape(1000, 1000)
    for axis in (0, 1):
        yield f"sort along {axis}", "sort", [rows], {"axis": axis}, lambda: np.sort(
            rows, axis, kind="stable")
        yield f"argsort along {axis}", "argsort", [rows], {"axis": axis}, lambda: np.argsort(
            rows, axis, kind="stable")
        yield f"partition along {axis}", "partition", [rows], {"kth": 500, "axis": axis}, (
            lambda: np.partition(rows, 500, axis))
    yield "lexsort", "lexsort", [x, y], {}, lambda: np.lexsort((x, y))
    for which in ("inverse", "counts", "index"):
        wanted = {"return_" + which: True}
        yield f"unique {which}", "unique", [y], wanted, lambda: np.unique(y, **wanted)


def index(of):
    x, n = of["f32"], of["f32"].size
    rows, mask, few = x.reshape(1000, 1000), of["bool"], of["i64"] % 1000
    spread = of["i64"] % n
    within = spread.reshape(1000, 1000) % 1000
    for axis in (0, 1):
        yield f"take_along_axis {axis}", "take_along_axis", [rows, within], {"axis": axis}, (
            lambda: np.take_along_axis(rows, within, axis))
        into = rows.copy()
        yield f"put_along_axis {axis}", "put_along_axis", [rows, within, rows], {"axis": axis}, (
            lambda: np.put_along_axis(into, within, rows, axis))
    pair = np.stack([few, spread // 1000])
    zeros, sums = np.zeros_like(rows), np.zeros(1000, np.float32)
    yield "take", "take", [x, spread], {}, lambda: np.take(x, spread)
    yield "take rows", "take", [rows, few[:1000]], {}, lambda: np.take(rows, few[:1000], 0)
    yield "gather_nd", "gather_nd", [rows, pair], {}, lambda: rows[pair[0], pair[1]]

    def scatter():
        result = np.zeros((1000, 1000), np.float32)
        result[pair[0], pair[1]] = x
        return result

    yield "scatter_nd", "scatter_nd", [x, pair], {"shape": [1000, 1000]}, scatter

    def added(into, where, values):
        result = into.copy()
        np.add.at(result, where, values)
        return result

    yield "index_add into 1000", "index_add", [sums, few, x], {"axis": 0}, lambda: added(
        sums, few, x)
    yield "index_add into 1e6", "index_add", [x, spread, x], {"axis": 0}, lambda: added(
        x, spread, x)
    yield "index_add rows", "index_add", [rows, few[:1000], rows], {"axis": 0}, lambda: added(
        rows, few[:1000], rows)

    def put(accumulate):
        if accumulate:
            return added(zeros, (pair[0], pair[1]), x)
        result = zeros.copy()
        result[pair[0], pair[1]] = x
        return result

    for accumulate in (False, True):
        yield "index_put" + ", added" * accumulate, "index_put", [zeros, x, *pair], {
            "accumulate": accumulate}, lambda: put(accumulate)
    yield "argwhere", "argwhere", [mask], {}, lambda: np.argwhere(mask)
    yield "argwhere", "argwhere", [x], {}, lambda: np.argwhere(x)
    yield "nonzero", "nonzero", [mask], {}, lambda: np.nonzero(mask)
    yield "compress", "compress", [mask, x], {}, lambda: np.compress(mask, x)
    edges = np.sort(x[:1000])
    for bins in (edges, np.sort(x)):
        yield f"searchsorted in {bins.size}", "searchsorted", [bins, x], {}, (
            lambda: np.searchsorted(bins, x))
    yield "digitize", "digitize", [x, edges], {}, lambda: np.digitize(x, edges)
    yield "bincount", "bincount", [few], {}, lambda: np.bincount(few)
    yield "bincount of u8", "bincount", [of["u8"]], {}, lambda: np.bincount(of["u8"])
    yield "bincount weighted", "bincount", [few, x], {}, lambda: np.bincount(few, x)
    for y in (x, of["f64"], of["i32"], of["u8"]):
        yield "histogram", "histogram", [y], {"bins": 100}, lambda: np.histogram(y, 100)
    yield "histogram of edges", "histogram", [x, edges], {}, lambda: np.histogram(x, edges)
    for y in (x, of["i32"], of["i64"], of["u8"]):
        some = y[:1000].copy()
        yield "isin 1000", "isin", [y, some], {}, lambda: np.isin(y, some)
    yield "isin 1e6", "isin", [of["i32"], of["i32"][::-1].copy()], {}, lambda: np.isin(
        of["i32"], of["i32"][::-1])
    lengths = few.astype(np.int32)
    places = np.arange(1000)[:, None]
    yield "sequence_mask", "sequence_mask", [rows, lengths[:1000]], {
        "use_sequence_length": True}, lambda: np.where(places < lengths[:1000], rows, 0)
    yield "unravel_index", "unravel_index", [spread], {"shape": [1000, 1000]}, (
        lambda: np.unravel_index(spread, (1000, 1000)))
    yield "ravel_multi_index", "ravel_multi_index", [*pair], {"dims": [1000, 1000]}, (
        lambda: np.ravel_multi_index((pair[0], pair[1]), (1000, 1000)))


def scans(of):
    for x in of.values():
        rows = x.reshape(1000, 1000)
        yield "cumsum", "cumsum", [x], {}, lambda: np.cumsum(x)
        yield "cumprod", "cumprod", [x], {}, lambda: np.cumprod(x)
        for axis in (0, 1):
            yield f"cumsum along {axis}", "cumsum", [rows], {"axis": axis}, lambda: np.cumsum(
                rows, axis)
        yield "cummax", "cummax", [x], {}, lambda: np.maximum.accumulate(x)
        yield "cummin", "cummin", [x], {}, lambda: np.minimum.accumulate(x)
        yield "median", "median", [x], {}, lambda: np.median(x)
        yield "count_nonzero", "count_nonzero", [x], {}, lambda: np.count_nonzero(x)
        for axis in (0, 1):
            yield f"count_nonzero along {axis}", "count_nonzero", [rows], {"axis": axis}, (
                lambda: np.count_nonzero(rows, axis))
        if x.dtype == bool:
            continue
        yield "diff", "diff", [x], {}, lambda: np.diff(x)
        yield "diff twice", "diff", [x], {"n": 2}, lambda: np.diff(x, 2)
        yield "ptp", "ptp", [x], {}, lambda: np.ptp(x)
        for axis in (0, 1):
            yield f"ptp along {axis}", "ptp", [rows], {"axis": axis}, lambda: np.ptp(rows, axis)
        for name in ("sum", "prod", "max", "min", "argmax", "argmin"):
            function = getattr(np, name)
            yield name, name, [x], {}, lambda: function(x)
    for x in (of["f32"], of["f64"]):
        gaps = np.where(x > 2, np.nan, x).astype(x.dtype)
        rows = gaps.reshape(1000, 1000)
        yield "logcumsumexp", "logcumsumexp", [x], {}, lambda: np.logaddexp.accumulate(x)
        for name in ("nansum", "nanprod", "nanmean", "nanmax", "nanmin", "nanvar", "nanstd"):
            function = getattr(np, name)
            yield name, name, [gaps], {}, lambda: function(gaps)
            for axis in (0, 1):
                yield f"{name} along {axis}", name, [rows], {"axis": axis}, lambda: function(
                    rows, axis)
        quarters = [0.25, 0.5, 0.75]
        yield "quantile", "quantile", [x], {"q": quarters}, lambda: np.quantile(x, quarters)
        yield "percentile", "percentile", [x], {"q": 90}, lambda: np.percentile(x, 90)
        x = x.reshape(1000, 1000)
        for axis in (0, 1):
            yield f"quantile along {axis}", "quantile", [x], {"q": quarters, "axis": axis}, (
                lambda: np.quantile(x, quarters, axis))
            yield f"median along {axis}", "median", [x], {"axis": axis}, lambda: np.median(x, axis)
        weights = np.abs(x)
        yield "average weighted", "average", [x, weights], {}, lambda: np.average(
            x, weights=weights)
        for axis in (0, 1):
            yield f"average weighted along {axis}", "average", [x, weights], {"axis": axis}, (
                lambda: np.average(x, axis, weights))
        for name in ("mean", "std", "var"):
            function = getattr(np, name)
            yield name, name, [x], {}, lambda: function(x)


def shape(of):
    for dtype in ("f32", "f64", "u8"):
        x = of[dtype]
        rows, image = x.reshape(1000, 1000), x.reshape(10, 10, 100, 100)
        yield "roll", "roll", [x], {"shift": 1234}, lambda: np.roll(x, 1234)
        yield "roll along 1", "roll", [rows], {"shift": 3, "axis": 1}, (
            lambda: np.roll(rows, 3, 1))
        widths = [0, 0, 0, 0, 2, 2, 2, 2]
        pairs = [(0, 0), (0, 0), (2, 2), (2, 2)]
        for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
            yield f"pad {mode}", "pad", [image], {"pad_width": widths, "mode": mode}, (
                lambda: np.pad(image, pairs, mode))
        yield "repeat", "repeat", [x], {"repeats": 3}, lambda: np.repeat(x, 3)
        counts = of["i64"][:1000] % 3
        yield "repeat by counts", "repeat", [rows], {"repeats": counts.tolist(), "axis": 0}, (
            lambda: np.repeat(rows, counts, 0))
        yield "tile", "tile", [rows], {"reps": [2, 2]}, lambda: np.tile(rows, (2, 2))
        yield "diag to matrix", "diag", [x[:1000].copy()], {}, lambda: np.diag(x[:1000])
        yield "diag of matrix", "diag", [rows], {}, lambda: np.diag(rows).copy()
        yield "diagonal", "diagonal", [rows], {}, lambda: np.diagonal(rows)
        yield "tril", "tril", [rows], {}, lambda: np.tril(rows)
        yield "triu", "triu", [rows], {}, lambda: np.triu(rows)
        yield "meshgrid", "meshgrid", [x[:1000].copy()] * 2, {}, lambda: np.meshgrid(
            x[:1000], x[:1000])
        yield "moveaxis", "moveaxis", [image], {"source": 0, "destination": 2}, (
            lambda: np.moveaxis(image, 0, 2))
        yield "rot90", "rot90", [rows], {}, lambda: np.rot90(rows)
        yield "flip", "flip", [rows], {"axis": 0}, lambda: np.flip(rows, 0)
        yield "split at positions", "split_v2", [x], {"indices_or_sections": [1000, 5000]}, (
            lambda: np.split(x, [1000, 5000]))
        yield "concatenate", "concatenate", [rows, rows], {"axis": 1}, lambda: np.concatenate(
            (rows, rows), 1)
        yield "stack", "stack", [rows, rows], {"axis": 2}, lambda: np.stack((rows, rows), 2)
        n, c, h, w = image.shape
        yield "space_to_depth", "space_to_depth", [image], {"block_size": 2}, lambda: (
            image.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(
                n, 4 * c, h // 2, w // 2))
        deep = x[:960_000].reshape(10, 12, 80, 100)
        yield "depth_to_space", "depth_to_space", [deep], {"block_size": 2}, lambda: (
            deep.reshape(10, 2, 2, 3, 80, 100).transpose(0, 3, 4, 1, 5, 2).reshape(
                10, 3, 160, 200))
        if dtype == "u8":
            continue
        windows = np.lib.stride_tricks.sliding_window_view
        yield "im2col", "im2col", [image], {"kernel": [3, 3]}, lambda: (
            windows(image, (3, 3), (2, 3)).transpose(0, 1, 4, 5, 2, 3).reshape(n, c * 9, -1))
        columns = np.ones((n, c * 9, 98 * 98), x.dtype)

        def col2im():
            result = np.zeros((n, c, 100, 100), x.dtype)
            parts = columns.reshape(n, c, 3, 3, 98, 98)
            for i in range(3):
                for j in range(3):
                    result[:, :, i:i + 98, j:j + 98] += parts[:, :, i, j]
            return result

        yield "col2im", "col2im", [columns], {"output_size": [100, 100], "kernel": [3, 3]}, col2im
        yield "interpolate nearest", "interpolate", [image], {"size": [200, 200]}, (
            lambda: image.repeat(2, 2).repeat(2, 3))


def elementwise(of):
    one = ("negative", "abs:absolute", "square", "sign", "floor", "ceil", "trunc", "rint")
    floating = ("sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin",
                "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh",
                "arccosh", "arctanh", "sinc", "degrees", "radians", "reciprocal", "nan_to_num",
                "isnan", "isinf", "isfinite")
    two = ("add", "subtract", "multiply", "maximum", "minimum", "floor_divide", "fmod",
           "mod:remainder", "divmod", "less", "equal", "logical_and", "logical_xor")
    for dtype in ("f32", "f64", "i32", "i64", "u8"):
        x = of[dtype]
        y = np.roll(x, 1)
        y = np.where(y == 0, 1, y).astype(x.dtype)
        floats = x.dtype.kind == "f"
        for names in one + floating * floats:
            name, _, numpys = names.partition(":")
            function = getattr(np, numpys or name)
            value = {"arccosh": np.abs(x) + 1, "arctanh": x / 10, "arcsin": x / 10,
                     "arccos": x / 10}.get(name, x)
            value = np.abs(x) if name in ("sqrt", "log", "log2", "log10", "log1p") else value
            yield name, name, [value], {}, lambda: function(value)
        for names in two + ("copysign", "hypot", "arctan2", "logaddexp", "heaviside",
                            "divide") * floats:
            name, _, numpys = names.partition(":")
            function = getattr(np, numpys or name)
            yield name, name, [x, y], {}, lambda: function(x, y)
        base = np.abs(x) if floats else x % 7 + 1
        exponent = y if floats else (x % 4).astype(x.dtype)
        yield "power", "power", [base, exponent], {}, lambda: np.power(base, exponent)
        scalar = 2.5 if floats else 7
        for name in ("multiply", "floor_divide", "mod", "less"):
            function = getattr(np, name)
            yield f"{name} by a number", name, [x, scalar], {}, lambda: function(x, scalar)
        yield "clip", "clip", [x], {"a_min": 0, "a_max": 1}, lambda: np.clip(x, 0, 1)
        mask = of["bool"]
        yield "where", "where", [mask, x, y], {}, lambda: np.where(mask, x, y)
        yield "around to 2", "around", [x], {"decimals": 2}, lambda: np.round(x, 2)
        to = "float64" if dtype == "f32" else "float32"
        yield f"cast to {to}", "cast", [x], {"dtype": to}, lambda: x.astype(to)
        if floats:
            small = of["i32"] % 10
            yield "ldexp", "ldexp", [x, small], {}, lambda: np.ldexp(x, small)
            for name, scipys in {"erf": "erf", "erfc": "erfc", "erfinv": "erfinv",
                                 "gamma": "gamma", "lgamma": "gammaln", "digamma": "psi",
                                 "sigmoid": "expit", "xlogy": "xlogy"}.items():
                if special:
                    value = x / 10 if name == "erfinv" else x
                    inputs = [value, np.abs(y)] if name == "xlogy" else [value]
                    yield f"{name} (SciPy)", name, inputs, {}, lambda: getattr(special, scipys)(
                        *inputs)
            continue
        shift = (x % 5).astype(x.dtype)
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
            yield name, name, [x, y], {}, lambda: getattr(np, name)(x, y)
        yield "bitwise_not", "bitwise_not", [x], {}, lambda: np.bitwise_not(x)
        for name in ("left_shift", "right_shift"):
            yield name, name, [x, shift], {}, lambda: getattr(np, name)(x, shift)
    rows, row = of["f32"].reshape(1000, 1000), of["f32"][:1000].copy()
    column = row[:, None].copy()
    yield "add of a row", "add", [rows, row], {}, lambda: rows + row
    yield "add of a column", "add", [rows, column], {}, lambda: rows + column
    yield "add of row and column", "add", [row, column], {}, lambda: row + column
    mask = of["bool"]
    yield "logical_not", "logical_not", [mask], {}, lambda: np.logical_not(mask)


def draws(of):
    n, rng = of["f32"].size, np.random.default_rng(1)
    for dtype in ("float32", "float64"):
        size = {"size": n, "dtype": dtype}
        yield "uniform", "uniform", [], size, lambda: rng.random(n, dtype)
        yield "normal", "normal", [], size, lambda: rng.standard_normal(n, dtype)
        yield "exponential", "exponential", [1], size, lambda: rng.standard_exponential(n, dtype)
        yield "gamma 2.5", "random_gamma", [2.5, 1], size, lambda: rng.standard_gamma(
            2.5, n, dtype)
        yield "gamma 0.5", "random_gamma", [0.5, 1], size, lambda: rng.standard_gamma(
            0.5, n, dtype)
        yield "laplace", "laplace", [], size, lambda: rng.laplace(size=n)
        for a in (0.5, 2.5):
            yield f"beta {a}", "beta", [a, a], size, lambda: rng.beta(a, a, n)
    for rate in (3, 100):
        yield f"poisson {rate}", "poisson", [rate], {"size": n}, lambda: rng.poisson(rate, n)
    yield "binomial", "binomial", [], {"n": 20, "p": 0.3, "size": n}, lambda: rng.binomial(
        20, 0.3, n)
    yield "randint", "randint", [], {"low": 0, "high": 1000, "size": n, "dtype": "int64"}, (
        lambda: rng.integers(0, 1000, n))
    shares = [0.1, 0.2, 0.3, 0.4]
    yield "multinomial", "multinomial", [], {"n": 20, "pvals": shares, "size": n // 4}, (
        lambda: rng.multinomial(20, shares, n // 4))
    yield "choice", "choice", [], {"a": 1000, "size": n}, lambda: rng.choice(1000, n)
    yield "choice weighted", "choice", [], {"a": 4, "p": shares, "size": n}, lambda: rng.choice(
        4, n, p=shares)
    yield "choice without replacement", "choice", [], {
        "a": n, "size": n // 2, "replace": False}, lambda: rng.choice(n, n // 2, False)
    yield "permutation", "permutation", [], {"n": n}, lambda: rng.permutation(n)
    yield "shuffle", "shuffle", [of["f32"]], {}, lambda: rng.permutation(of["f32"])


def large():
    """The calls of ten million elements."""
    of = data(10_000_000)
    few = of["i64"] % 1_000_000
    for x in (of["f32"], of["f64"], of["i64"]):
        yield "sort 1e7", "sort", [x], {}, lambda: np.sort(x, kind="stable")
        yield "cumsum 1e7", "cumsum", [x], {}, lambda: np.cumsum(x)
        yield "quantile 1e7", "quantile", [x], {"q": [0.25, 0.5, 0.75]}, lambda: np.quantile(
            x, [0.25, 0.5, 0.75])
    for x in (few.astype(np.int32), few, few.astype(np.float32), few.astype(np.float64)):
        yield "unique 1e7", "unique", [x], {}, lambda: np.unique(x)


def all_cases():
    """A case is valid until the next one is taken."""
    of = data()
    for group in (order, index, scans, shape, elementwise, draws):
        yield from group(of)
    yield from large()

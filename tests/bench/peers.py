"""The same work in PyTorch, CuPy and MXNet, to be run beside locus_bench on one machine.

    python3 tests/bench/peers.py [WORD ...]     the groups below whose names have one: networks, adam

Prints microseconds: the median of several runs, each of many calls followed by one wait; GB/s for
large copies, where bytes that are read and written count once, and for updates, where both count.
A package or a GPU that is not there is said and left out.
"""

import contextlib
import statistics
import sys
import time

from networks import lenet, mxnet_lenet, resnet18


def per_call(call, wait, calls=2000, runs=7, issue_only=False):
    """With issue_only the host's time a call: the last wait is not counted."""
    call()
    times = []
    for _ in range(runs):
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        if not issue_only:
            wait()
        times.append((time.perf_counter() - start) / calls * 1e6)
    wait()
    return statistics.median(times)


def issue_time(call, wait):
    return per_call(call, wait, calls=200, runs=40, issue_only=True)


def torch_step(torch, net, images, classes, autocast=False):
    """SGD with momentum on random images; for a CUDA graph as well."""
    device, d = images.device, images.dtype
    net = net.to(device, d)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True)
    loss_fn = torch.nn.CrossEntropyLoss()
    label = torch.randint(0, classes, (len(images),), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16) if autocast else contextlib.nullcontext():
            loss = loss_fn(net(images), label)
        loss.backward()
        optimizer.step()

    return step


def as_graph(torch, step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def torch_rows():
    import torch
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    for device in devices:
        wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
        a, b = torch.rand(10, device=device), torch.rand(10, device=device)
        name = f"PyTorch {torch.__version__} {device}"
        yield f"{name}: add of 10 floats", per_call(lambda: a + b, wait), "µs"
        net = torch.nn.Sequential(
            torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128),
            torch.nn.ReLU(), torch.nn.Linear(128, 10))
        step = torch_step(torch, net, torch.rand(64, 784, device=device), 10)
        yield f"{name}: training step", per_call(step, wait, calls=200), "µs"


def torch_networks():
    """Those of bench_networks.cc; on the CPU with two threads (LOCUS_NUM_THREADS=2), on a GPU with
    the fastest algorithms that cuDNN finds."""
    import torch
    torch.set_num_threads(2)
    torch.backends.cudnn.benchmark = True
    name = f"PyTorch {torch.__version__}"
    lenet_images = lambda n, device: torch.rand(n, 1, 28, 28, device=device)
    for n in (64, 1024):
        step = torch_step(torch, lenet(torch), lenet_images(n, "cpu"), 10)
        calls = 64 // n + 1
        yield f"{name} cpu, 2 threads: LeNet {n}", per_call(step, lambda: None, calls), "µs"
    step = torch_step(torch, resnet18(torch), torch.rand(8, 3, 32, 32), 1000)
    yield f"{name} cpu, 2 threads: ResNet-18 8", per_call(step, lambda: None, calls=1), "µs"
    if not torch.cuda.is_available():
        return
    wait = torch.cuda.synchronize
    defaults = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    for kind in ("exact f32", "default f32"):
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = (
            (False, False) if kind == "exact f32" else defaults)
        for n in (64, 1024):
            step = torch_step(torch, lenet(torch), lenet_images(n, "cuda"), 10)
            yield f"{name} cuda: LeNet {n}, {kind}", per_call(step, wait, calls=100), "µs"
            graph = as_graph(torch, step)
            yield f"{name} cuda: LeNet {n}, {kind}, graph", per_call(graph, wait, calls=100), "µs"
        for n in (64, 256):
            images = torch.rand(n, 3, 32, 32, device="cuda")
            step = torch_step(torch, resnet18(torch), images, 1000)
            yield f"{name} cuda: ResNet-18 {n}, {kind}", per_call(step, wait, calls=20), "µs"
            graph = as_graph(torch, step)
            yield f"{name} cuda: ResNet-18 {n}, {kind}, graph", per_call(graph, wait, calls=20), "µs"
    step = torch_step(torch, resnet18(torch), images.bfloat16(), 1000)
    yield f"{name} cuda: ResNet-18 256, net.bfloat16()", per_call(step, wait, calls=20), "µs"
    step = torch_step(torch, resnet18(torch), images, 1000, autocast=True)
    yield f"{name} cuda: ResNet-18 256, autocast bf16", per_call(step, wait, calls=20), "µs"


def torch_einsum():
    """The contractions of bench_matmul.cc, in exact f32; on the CPU with two threads."""
    import torch
    torch.set_num_threads(2)
    for device, n in (("cpu", 128), ("cuda", 512)):
        if device == "cuda" and not torch.cuda.is_available():
            continue
        wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
        for subscripts, *shapes in (
                ("bqhd,bkhd->bhqk", (8, n, 8, 64), (8, n, 8, 64)),
                ("bhqk,bkhd->bqhd", (8, 8, n, n), (8, n, 8, 64)),
                ("bi,oij,bj->bo", (n, 128), (64, 128, 128), (n, 128)),
                ("bi,bj->bij", (n, 256), (n, 256)),
                ("bij,bj->bi", (n, 256, 256), (n, 256)),
                ("ijk,ikl->ijl", (64, n, 64), (64, 64, n)),
                ("ij,jk,kl->il", (2 * n, 2 * n), (2 * n, 2 * n), (2 * n, 64)),
                ("i,i", (8192 * n,), (8192 * n,)),
                ("bii->bi", (n, 64, 64)),
                ("ii", (8 * n, 8 * n))):
            x = [torch.rand(shape, device=device) for shape in shapes]
            yield f"PyTorch {torch.__version__} {device}: einsum {subscripts}", per_call(
                lambda: torch.einsum(subscripts, *x), wait, calls=20), "µs"


def linalg_shapes(gpu):
    if gpu:
        return ((2048, 2048), "2048"), ((10000, 32, 32), "10000 x 32"), ((100, 256, 256), "100 x 256")
    return ((500, 500), "500"), ((1000, 32, 32), "1000 x 32")


def linalg_calls(xp, linalg, shapes):
    """The calls of bench_matmul.cc on a module like NumPy: names, functions."""
    for shape, size in shapes:
        x = xp.random.standard_normal(shape, dtype=xp.float32)
        a = x @ x.swapaxes(-1, -2) + shape[-1] * xp.eye(shape[-1], dtype=xp.float32)
        b = xp.ones(shape[:-1] + (1,), dtype=xp.float32)
        yield f"cholesky {size}", lambda: linalg.cholesky(a)
        yield f"solve {size}", lambda: linalg.solve(a, b)
        yield f"inv {size}", lambda: linalg.inv(a)
        yield f"det {size}", lambda: linalg.det(a)
        yield f"qr {size}", lambda: linalg.qr(a)
        yield f"eigh {size}", lambda: linalg.eigh(a)
        yield f"svd {size}", lambda: linalg.svd(a, full_matrices=False)


def torch_linalg():
    import torch
    torch.set_num_threads(2)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    for shape, size in linalg_shapes(device == "cuda"):
        x = torch.randn(shape, device=device)
        a = x @ x.mT + shape[-1] * torch.eye(shape[-1], device=device)
        b = torch.ones(shape[:-1] + (1,), device=device)
        for name, call in (("cholesky", lambda: torch.linalg.cholesky(a)),
                           ("solve", lambda: torch.linalg.solve(a, b)),
                           ("inv", lambda: torch.linalg.inv(a)),
                           ("lu", lambda: torch.linalg.lu(a)),
                           ("det", lambda: torch.linalg.det(a)),
                           ("qr", lambda: torch.linalg.qr(a)),
                           ("eigh", lambda: torch.linalg.eigh(a)),
                           ("svd", lambda: torch.linalg.svd(a, full_matrices=False))):
            yield f"PyTorch {torch.__version__} {device}: {name} {size}", per_call(
                call, wait, calls=10), "µs"


def cupy_linalg():
    import cupy
    for name, call in linalg_calls(cupy, cupy.linalg, linalg_shapes(True)):
        yield f"CuPy {cupy.__version__} cuda: {name}", per_call(
            call, cupy.cuda.runtime.deviceSynchronize, calls=10), "µs"


class NumpyArrays:
    """What linalg_calls() takes of NumPy. Random numbers with a dtype are a Generator's."""

    def __init__(self):
        import numpy
        self.random = numpy.random.default_rng(1)
        self.eye, self.ones, self.float32 = numpy.eye, numpy.ones, numpy.float32


def numpy_linalg():
    """OPENBLAS_NUM_THREADS=2 for two threads."""
    import numpy
    for name, call in linalg_calls(NumpyArrays(), numpy.linalg, linalg_shapes(False)):
        yield f"NumPy {numpy.__version__}: {name}", per_call(call, lambda: None, calls=10), "µs"


def scipy_linalg():
    """The large matrix: SciPy's cholesky takes no batches."""
    import scipy
    for name, call in linalg_calls(NumpyArrays(), scipy.linalg, linalg_shapes(False)[:1]):
        yield f"SciPy {scipy.__version__}: {name}", per_call(call, lambda: None, calls=10), "µs"


def torch_adam():
    """Over ResNet-18's parameters, 28 bytes each, beside one copy in which as many move."""
    import torch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    net = resnet18(torch).to(device)
    for p in net.parameters():
        p.grad = torch.rand_like(p)
    size = 28 * sum(p.numel() for p in net.parameters())
    source = torch.zeros(size // 2, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    name = f"PyTorch {torch.__version__} {device}"
    update = torch.optim.Adam(net.parameters(), fused=True).step
    for what, call in (("Adam(fused)", update), ("copy", lambda: target.copy_(source))):
        t = per_call(call, wait, calls=20)
        yield f"{name}: {what} over ResNet-18", t, "µs"
        yield f"{name}: {what} over ResNet-18", size / t / 1e3, "GB/s"


def torch_kernels():
    """Chains that fuse() and kernels of one's own take as one kernel, compiled, beside one copy in
    which as many bytes move. Of 1e8 floats on a GPU, of 1e7 on the CPU."""
    import torch
    functional = torch.nn.functional
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    n, size = (100_000_000, "1e8") if device == "cuda" else (10_000_000, "1e7")
    name = f"PyTorch {torch.__version__} {device}, compile"
    x, y, z = (torch.rand(n, device=device) for _ in range(3))
    soft = lambda x: torch.clamp(x, min=0) + torch.log1p(torch.exp(-torch.abs(x)))
    chains = ((f"x*y+z {size}", lambda x, y, z: x * y + z, (x, y, z), 4),
              (f"softplus written out {size}", soft, (x,), 2))
    for what, chain, operands, moved in chains:
        compiled = torch.compile(chain)
        yield f"{name}: {what}", per_call(lambda: compiled(*operands), wait, calls=20), "µs"
        source = torch.zeros(moved * n // 2, device=device)
        target = torch.zeros_like(source)
        copy = per_call(lambda: target.copy_(source), wait, calls=20)
        yield f"{name}: copy of the bytes of {what}", copy, "µs"

    def softmax(x):
        e = torch.exp(x - x.max(dim=1, keepdim=True).values)
        return e / e.sum(dim=1, keepdim=True)

    def layer_norm(x):
        d = x - x.mean(dim=1, keepdim=True)
        return d / torch.sqrt((d * d).mean(dim=1, keepdim=True) + 1e-5)

    rows = x.view(-1, 1000)
    leaf, gradient = rows.clone().requires_grad_(), torch.rand_like(rows)
    for what, f in (("softmax", softmax), ("layer norm", layer_norm),
                    ("softmax op", lambda x: functional.softmax(x, dim=1)),
                    ("layer norm op", lambda x: functional.layer_norm(x, (1000,)))):
        compiled = torch.compile(f)
        text = f"{what} of {len(rows)} rows"
        yield f"{name}: {text}", per_call(lambda: compiled(rows), wait, calls=20), "µs"

        def both():
            leaf.grad = None
            compiled(leaf).backward(gradient)

        yield f"{name}: {text}, forward and backward", per_call(both, wait, calls=20), "µs"


def mxnet_networks():
    """OMP_NUM_THREADS=2 /path/to/python tests/bench/peers.py mxnet: two threads, as above."""
    import os
    import mxnet
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    for n in (64, 1024):
        step = mxnet_lenet(mxnet, n)
        yield (f"MXNet {mxnet.__version__} cpu, {threads} threads: LeNet {n}, hybridized, static",
               per_call(step, mxnet.nd.waitall, calls=64 // n + 1), "µs")


def torch_copies():
    """Large copies in GB/s, small ones in microseconds of the host's time to issue one."""
    import torch
    if not torch.cuda.is_available():
        return
    name = f"PyTorch {torch.__version__}"
    n, small = 256 << 20, 4096

    def rate(copies, size, devices=(0,)):
        def wait():
            for d in devices:
                torch.cuda.synchronize(d)
        def all_at_once():
            for target, source in copies:
                target.copy_(source, non_blocking=True)
        return size * len(copies) / per_call(all_at_once, wait, calls=1, runs=15) / 1e3, "GB/s"

    on_gpu = torch.empty(n, dtype=torch.uint8, device="cuda:0")
    for kind in ("pinned", "pageable"):
        host = torch.zeros(n, dtype=torch.uint8, pin_memory=kind == "pinned")
        yield f"{name}: 256 MiB up, {kind}", *rate([(on_gpu, host)], n)
        yield f"{name}: 256 MiB down, {kind}", *rate([(host, on_gpu)], n)
        source = host[:small]
        yield f"{name}: 4 KiB up, {kind}", issue_time(
            lambda: source.to("cuda:0", non_blocking=True), torch.cuda.synchronize), "µs"
    if torch.cuda.device_count() < 2:
        return
    gigabyte = [[torch.empty(1 << 30, dtype=torch.uint8, device=f"cuda:{d}") for _ in range(2)]
                for d in range(2)]
    there, back = (gigabyte[1][0], gigabyte[0][0]), (gigabyte[0][1], gigabyte[1][1])
    yield f"{name}: 1 GiB between GPUs, one way", *rate([there], 1 << 30, (0, 1))
    yield f"{name}: 1 GiB between GPUs, both ways", *rate([there, back], 1 << 30, (0, 1))
    source = on_gpu[:small]
    yield f"{name}: 4 KiB between GPUs", issue_time(
        lambda: source.to("cuda:1", non_blocking=True),
        lambda: (torch.cuda.synchronize(0), torch.cuda.synchronize(1))), "µs"


def cupy_rows():
    import cupy
    a, b = cupy.random.rand(10, dtype=cupy.float32), cupy.random.rand(10, dtype=cupy.float32)
    yield f"CuPy {cupy.__version__} cuda: add of 10 floats", per_call(
        lambda: a + b, cupy.cuda.runtime.deviceSynchronize), "µs"


def cupy_kernels():
    """Kernels from source, as in bench_user_kernels.cc, beside one copy."""
    import cupy
    name, wait = f"CuPy {cupy.__version__} cuda", cupy.cuda.runtime.deviceSynchronize
    add = cupy.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add_two")
    small = cupy.ones(10, dtype=cupy.float32)
    yield f"{name}: call of a kernel of 10 floats", issue_time(lambda: add(small, small), wait), "µs"
    raw = cupy.RawKernel(
        'extern "C" __global__ void add_two(const float* x, const float* y, float* z) {'
        "  z[threadIdx.x] = x[threadIdx.x] + y[threadIdx.x]; }", "add_two")
    out = cupy.empty_like(small)
    yield f"{name}: call of a raw kernel", issue_time(
        lambda: raw((1,), (10,), (small, small, out)), wait), "µs"
    n = 100_000_000
    x, y, z, w = (cupy.ones(n, dtype=cupy.float32) for _ in range(4))
    k = cupy.ElementwiseKernel("T x, T y, T z", "T w", "w = x * y + z", "multiply_add")
    yield f"{name}: x*y+z 1e8, kernel", per_call(lambda: k(x, y, z, w), wait, calls=20), "µs"

    def multiply_add(x, y, z):  # CuPy compiles the function's name
        return x * y + z

    def softplus(x):
        return cupy.maximum(x, 0) + cupy.log1p(cupy.exp(-cupy.abs(x)))

    fused, soft = cupy.fuse(multiply_add), cupy.fuse(softplus)
    yield f"{name}: x*y+z 1e8, fuse", per_call(lambda: fused(x, y, z), wait, calls=20), "µs"
    yield f"{name}: softplus written out 1e8, fuse", per_call(lambda: soft(x), wait, calls=20), "µs"
    norm = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
    yield f"{name}: norm 1e8, reduction kernel", per_call(lambda: norm(x), wait, calls=20), "µs"
    rows = x.reshape(-1, 1000)
    yield f"{name}: norms of 100000 rows, reduction kernel", per_call(
        lambda: norm(rows, axis=1), wait, calls=20), "µs"


def torch_random():
    """As in bench_random.cc."""
    import torch
    x, wait = torch.empty(100_000_000, device="cuda"), torch.cuda.synchronize
    for draw in (x.uniform_, x.normal_, x.exponential_):
        yield f"PyTorch {torch.__version__} cuda: {draw.__name__} 1e8", per_call(
            draw, wait, calls=20), "µs"


def cupy_random():
    import cupy
    name, wait = f"CuPy {cupy.__version__} cuda", cupy.cuda.runtime.deviceSynchronize
    rng, n = cupy.random.default_rng(1), 100_000_000
    for draw in (rng.random, rng.standard_normal, rng.standard_exponential):
        yield f"{name}: {draw.__name__} 1e8", per_call(
            lambda: draw(n, dtype=cupy.float32), wait, calls=20), "µs"


def numpy_functions(name, of, wait):
    """Functions that NumPy has, as in bench_numpy.cc: pairs of a name and a call."""
    for what, call in of.items():
        yield f"{name}: {what}", per_call(call, wait, calls=10), "µs"


def torch_numpy():
    import torch
    x = torch.randn(100_000_000, device="cuda")
    few = torch.randint(0, 1_000_000, (10_000_000,), device="cuda", dtype=torch.int32)
    rows, columns = x.reshape(-1, 1000), x.reshape(1000, -1)
    yield from numpy_functions(f"PyTorch {torch.__version__} cuda", {
        "copy 1e8": x.clone,
        "sort 1e8": lambda: torch.sort(x),
        "argsort 1e8": lambda: torch.argsort(x),
        "topk 100 of 1e8": lambda: torch.topk(x, 100),
        "unique 1e7": lambda: torch.unique(few),
        "histogram of 100 bins 1e8": lambda: torch.histc(x, 100),
        "cumsum 1e8": lambda: torch.cumsum(x, 0),
        "cumsum of rows of 1000, 1e8": lambda: torch.cumsum(rows, 1),
        "cumsum of columns of 1000, 1e8": lambda: torch.cumsum(columns, 0),
    }, torch.cuda.synchronize)


def cupy_numpy():
    import cupy
    x = cupy.random.standard_normal(100_000_000, dtype=cupy.float32)
    few = cupy.random.randint(0, 1_000_000, 10_000_000, dtype=cupy.int32)
    rows, columns = x.reshape(-1, 1000), x.reshape(1000, -1)
    yield from numpy_functions(f"CuPy {cupy.__version__} cuda", {
        "copy 1e8": x.copy,
        "sort 1e8": lambda: cupy.sort(x),
        "argsort 1e8": lambda: cupy.argsort(x),
        "argpartition 100 of 1e8": lambda: cupy.argpartition(x, 100),
        "unique 1e7": lambda: cupy.unique(few),
        "histogram of 100 bins 1e8": lambda: cupy.histogram(x, 100),
        "cumsum 1e8": lambda: cupy.cumsum(x),
        "cumsum of rows of 1000, 1e8": lambda: cupy.cumsum(rows, 1),
        "cumsum of columns of 1000, 1e8": lambda: cupy.cumsum(columns, 0),
    }, cupy.cuda.runtime.deviceSynchronize)


if __name__ == "__main__":
    for rows in (torch_rows, cupy_rows, torch_copies, torch_einsum, torch_linalg, cupy_linalg,
                 numpy_linalg, scipy_linalg, torch_kernels, cupy_kernels,
                 torch_random, cupy_random, torch_numpy, cupy_numpy, torch_networks, torch_adam,
                 mxnet_networks):
        if sys.argv[1:] and not any(word in rows.__name__ for word in sys.argv[1:]):
            continue
        try:
            for name, value, unit in rows():
                print(f"{name:66} {value:10.2f} {unit}", flush=True)
        except Exception as error:  # not installed, or without a GPU
            print(f"{rows.__name__}: {type(error).__name__}: {error}")

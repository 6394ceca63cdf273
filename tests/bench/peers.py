"""The same work in PyTorch and CuPy, to be run beside locus_bench on one machine.

    python3 tests/bench/peers.py

Prints microseconds: the median of several runs, each of many calls followed by one wait; GB/s for
large copies. A package or a GPU that is not there is said and left out.
"""

import statistics
import time


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


def torch_step(torch, device):
    torch.manual_seed(1)
    net = torch.nn.Sequential(
        torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128), torch.nn.ReLU(),
        torch.nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True)
    loss_fn = torch.nn.CrossEntropyLoss()
    image = torch.rand(64, 784, device=device)
    label = torch.randint(0, 10, (64,), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_fn(net(image), label).backward()
        optimizer.step()

    return step


def torch_rows():
    import torch
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    for device in devices:
        wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
        a, b = torch.rand(10, device=device), torch.rand(10, device=device)
        yield f"PyTorch {torch.__version__} {device}: add of 10 floats", per_call(lambda: a + b, wait)
        yield f"PyTorch {torch.__version__} {device}: training step", per_call(
            torch_step(torch, device), wait, calls=200)


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
        return size * len(copies) / per_call(all_at_once, wait, calls=1, runs=15) / 1e3

    on_gpu = torch.empty(n, dtype=torch.uint8, device="cuda:0")
    for kind in ("pinned", "pageable"):
        host = torch.zeros(n, dtype=torch.uint8, pin_memory=kind == "pinned")
        yield f"{name}: 256 MiB up, {kind}", rate([(on_gpu, host)], n)
        yield f"{name}: 256 MiB down, {kind}", rate([(host, on_gpu)], n)
        source = host[:small]
        yield f"{name}: 4 KiB up, {kind}", issue_time(
            lambda: source.to("cuda:0", non_blocking=True), torch.cuda.synchronize)
    if torch.cuda.device_count() < 2:
        return
    gigabyte = [[torch.empty(1 << 30, dtype=torch.uint8, device=f"cuda:{d}") for _ in range(2)]
                for d in range(2)]
    there, back = (gigabyte[1][0], gigabyte[0][0]), (gigabyte[0][1], gigabyte[1][1])
    yield f"{name}: 1 GiB between GPUs, one way", rate([there], 1 << 30, (0, 1))
    yield f"{name}: 1 GiB between GPUs, both ways", rate([there, back], 1 << 30, (0, 1))
    source = on_gpu[:small]
    yield f"{name}: 4 KiB between GPUs", issue_time(
        lambda: source.to("cuda:1", non_blocking=True),
        lambda: (torch.cuda.synchronize(0), torch.cuda.synchronize(1)))


def cupy_rows():
    import cupy
    a, b = cupy.random.rand(10, dtype=cupy.float32), cupy.random.rand(10, dtype=cupy.float32)
    yield f"CuPy {cupy.__version__} cuda: add of 10 floats", per_call(
        lambda: a + b, cupy.cuda.runtime.deviceSynchronize)


for rows in (torch_rows, cupy_rows, torch_copies):
    try:
        for name, value in rows():
            unit = "GB/s" if "MiB" in name or "GiB" in name else "us"
            print(f"{name:50} {value:9.2f} {unit}", flush=True)
    except Exception as error:  # not installed, or without a GPU
        print(f"{rows.__name__}: {type(error).__name__}: {error}")

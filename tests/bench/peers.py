"""The same work in PyTorch and CuPy, to be run beside locus_bench on one machine.

    python3 tests/bench/peers.py

Prints microseconds: the median of several runs, each of many calls followed by one wait. A package
or a GPU that is not there is said and left out.
"""

import statistics
import time


def per_call(call, wait, calls=2000, runs=7):
    call()
    wait()
    times = []
    for _ in range(runs):
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(times)


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


def cupy_rows():
    import cupy
    a, b = cupy.random.rand(10, dtype=cupy.float32), cupy.random.rand(10, dtype=cupy.float32)
    yield f"CuPy {cupy.__version__} cuda: add of 10 floats", per_call(
        lambda: a + b, cupy.cuda.runtime.deviceSynchronize)


for rows in (torch_rows, cupy_rows):
    try:
        for name, microseconds in rows():
            print(f"{name:50} {microseconds:9.2f} us", flush=True)
    except Exception as error:  # not installed, or without a GPU
        print(f"{rows.__name__}: {type(error).__name__}: {error}")

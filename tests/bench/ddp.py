"""PyTorch's DistributedDataParallel on two GPUs beside one, and its all_reduce: the steps and sums
of `locus_bench --benchmark_filter=collective/`, to be run beside it on one machine.

    python3 tests/bench/ddp.py

Prints microseconds: the median of several runs, each of many calls followed by one wait. TF32 is
off.
"""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from networks import lenet
from peers import per_call, torch_step


def mlp(*widths):
    layers = []
    for n, m in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(n, m), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def work(rank, world):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)

    def say(what, us):
        if rank == 0:
            print(f"PyTorch {torch.__version__}, {world} GPU{'s' if world > 1 else ''}: {what} "
                  f"{us:.1f} µs", flush=True)

    for name, net, images in (
            ("mlp 256", mlp(784, 256, 128, 10), torch.rand(256, 784)),
            ("wide mlp 4096", mlp(784, 2048, 2048, 10), torch.rand(4096, 784)),
            ("LeNet 1024", lenet(torch), torch.rand(1024, 1, 28, 28))):
        net = net.cuda()
        if world > 1:
            net = DistributedDataParallel(net, device_ids=[rank])
        step = torch_step(torch, net, images.cuda(), 10)
        for _ in range(30):
            step()
        say(name, per_call(step, torch.cuda.synchronize, calls=40))
    for kib in (4, 1 << 10, 256 << 10) if world > 1 else ():
        x = torch.zeros(kib << 8, device="cuda")
        calls = 20 if kib > 1 << 14 else 200
        say(f"all_reduce {kib} KiB", per_call(lambda: dist.all_reduce(x), torch.cuda.synchronize,
                                              calls=calls))
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    for n in (1, 2):
        mp.spawn(work, args=(n,), nprocs=n)

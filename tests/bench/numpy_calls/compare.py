"""Ops on cpu(0) beside the same NumPy calls, in turns in one run.

    python3 tests/bench/numpy_calls/compare.py build-bench/locus_bench [OP ...]

Without OPs, all that cases.py has. Prints microseconds, the slowest beside NumPy last. Each
number is the least of several rounds, and the first call does not count. Inputs have a million
elements, or as many as the name of the row says.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

import cases

DTYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "uint8": "u8",
          "int8": "i8", "bool": "bool", "float16": "f16"}


class Locus:
    """A process of locus_bench --calls (bench_calls.cc)."""

    def __init__(self, program, folder):
        self.folder, self.files = folder, 0
        self.process = subprocess.Popen([program, "--calls"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer or answer.startswith("error"):
            raise RuntimeError(f"{what}: {answer}")
        return answer

    def tensor(self, x):
        if not isinstance(x, np.ndarray):
            return x
        path = os.path.join(self.folder, str(self.files))
        self.files += 1
        x.tofile(path)
        return {"dtype": DTYPES[x.dtype.name], "shape": x.shape, "file": path}

    def prepare(self, op, inputs, attributes):
        self.ask({"op": op, "inputs": [self.tensor(x) for x in inputs],
                  "attributes": {name: self.tensor(v) for name, v in attributes.items()}})
        for name in os.listdir(self.folder):
            os.remove(os.path.join(self.folder, name))

    def time(self, calls):
        return float(self.ask(calls))


def numpy_time(call, calls):
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) * 1e6 / calls


def compare(locus, case):
    _, op, inputs, attributes, call = case
    locus.prepare(op, inputs, attributes)
    call()
    calls = int(min(max(5000 / max(numpy_time(call, 1), locus.time(1)), 1), 1000))
    ours, numpys, end = [], [], time.perf_counter() + 0.4
    while len(ours) < 5 or time.perf_counter() < end:
        numpys.append(numpy_time(call, calls))
        ours.append(locus.time(calls))
    return min(ours), min(numpys)


def main(program, ops):
    rows = []
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        locus = Locus(program, folder)
        for case in cases.all_cases():
            name, op, inputs, attributes, _ = case
            if ops and op not in ops:
                continue
            ours, numpys = compare(locus, case)
            dtype = inputs[0].dtype.name if inputs and isinstance(inputs[0], np.ndarray) else (
                attributes.get("dtype", ""))
            rows.append((ours / numpys, name, DTYPES.get(dtype, dtype), ours, numpys))
            print(f"{len(rows)} {name} {dtype}", end="\033[K\r", file=sys.stderr)
    print(f"{'op':30} {'dtype':8} {'Locus µs':>12} {'NumPy µs':>12} {'ratio':>7}")
    for ratio, name, dtype, ours, numpys in sorted(rows):
        print(f"{name:30} {dtype:8} {ours:12.1f} {numpys:12.1f} {ratio:7.2f}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], set(sys.argv[2:]))

"""How fast a machine is at the few things that a step is made of: measured here, or told."""

import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from arcset.errors import InputError
from arcset.files import parse_json, write_text
from arcset.launch import leave
from arcset.planning.setting import Setting

__all__ = ["LOGIT_PASSES", "Machine", "measure_exchange", "measure_machine"]

_MOST = 1 << 24  # entries of a matrix that is tried: 64 MB
_WIDEST = 1 << 13  # of its rows
_SECONDS = 0.12  # for each thing that is measured
_MESSAGE = 1 << 20  # entries: 4 MB
#: Times that a logit is read or written: scaled, its maximum, its power and their sum on the way
#: there; power, product, sum and factor on the way back.
LOGIT_PASSES = 18


@dataclass(frozen=True)
class Machine:
    """Rates of one process.

    Fields:
        name: where they come from.
        flops: multiplications and additions a second, in products of the step's shapes.
        convolving: the same in convolutions.
        passes: bytes a second, read and written, in the passes over a chunk's logits.
        bandwidth: the same in plain passes over a matrix that no cache holds.
        rows: bytes a second of rows that are fetched by number, and put back.
        network: bytes a second that a process sends to another; 0 if unknown.
        latency: seconds that a collective takes at least.
    """

    name: str
    flops: float
    convolving: float
    passes: float
    bandwidth: float
    rows: float
    network: float = 0.0
    latency: float = 0.0

    def but(self, **changes: Any) -> "Machine":
        """The same with some rates changed."""
        return replace(self, **changes)

    def save(self, path: Path) -> None:
        """Write it where `load` finds it."""
        write_text(path, json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Machine":
        """From a file that `save` has written; raises `InputError` for any other."""
        try:
            content = parse_json(path.read_text(encoding="utf-8"))
            found = cls(**content)
            rates = [value for key, value in content.items() if key != "name"]
            good = all(isinstance(rate, int | float) and math.isfinite(rate) for rate in rates)
            least = min(found.flops, found.convolving, found.passes, found.bandwidth, found.rows)
            good = good and least > 0 and min(found.network, found.latency) >= 0
        except (AttributeError, TypeError, ValueError):
            good = False
        if not good:
            raise InputError(
                f"{path} does not describe a machine; `arcset plan … --save-machine FILE` writes "
                "such a file"
            )
        return found


def measure_machine(setting: Setting, chunk: int) -> Machine:
    """This machine's rates at the shapes of a setting's step; in about a second."""
    batch, dim = min(setting.together, _WIDEST), min(setting.dim, _WIDEST)
    rows = max(min(chunk * setting.subcenters, _MOST // (batch + dim)), 16)
    weight, unit = torch.randn(rows, dim), torch.randn(batch, dim)
    logits, gradient = torch.empty(rows, batch), torch.empty(rows, dim)

    def products() -> None:
        torch.mm(weight, unit.T, out=logits)
        torch.mm(logits.T, weight)
        torch.mm(logits, unit, out=gradient)

    logits.normal_()
    flops = 3 * 2 * rows * dim * batch / _timed(products)
    spare = torch.empty_like(logits)

    def passes() -> None:
        for _ in range(2):  # there and back, in the operations of `arcset.centers.fused`
            logits.mul_(factors)
            torch.sub(logits, logits[0], out=spare).exp_()
            spare.sum(dim=0)
        torch.amax(logits, dim=0)
        torch.mul(logits, spare, out=spare).sum(dim=1)

    factors = torch.ones(rows, 1)
    passing = LOGIT_PASSES * logits.numel() * 4 / _timed(passes)
    large, other = torch.zeros(_MOST), torch.ones(_MOST)
    bandwidth = 3 * _MOST * 4 / _timed(lambda: large.add_(other))
    table = torch.zeros(_MOST // dim, dim, dtype=setting.dtype)
    drawn = torch.randperm(len(table))[: max(len(table) // 10, 1)].sort().values

    def fetching() -> None:
        table[drawn] = table[drawn]

    each = dim * setting.dtype.itemsize
    fetched = 2 * len(drawn) * each / _timed(fetching)
    convolving = _convolving() if setting.network else flops
    return Machine("this machine", flops, convolving, passing, bandwidth, fetched)


def _convolving() -> float:
    """Of a layer as they are in face networks: 3×3, 64 channels, 28×28."""
    images = torch.randn(16, 64, 28, 28, requires_grad=True)
    layer = torch.nn.Conv2d(64, 64, 3, padding=1, bias=False)

    def both() -> None:
        layer(images).sum().backward()

    return 3 * 2 * 16 * 28 * 28 * 64 * 64 * 9 / _timed(both)


def _timed(work: Callable[[], object]) -> float:
    """The median of the seconds that `work` takes, over a while."""
    work()
    found: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(found) < 3 or (time.perf_counter() < end and len(found) < 200):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return statistics.median(found)


def measure_exchange() -> tuple[float, float]:
    """Bytes a second between two processes here, through gloo, and seconds for a tiny message.

    Two processes are started for it. Where that fails, (0, 0): nothing is known.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "rates.json"
        both = [
            subprocess.Popen(
                [sys.executable, "-m", "arcset.planning.machine", str(result)],
                env={
                    **os.environ,
                    "RANK": str(rank),
                    "WORLD_SIZE": "2",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "OMP_NUM_THREADS": "1",
                },
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for rank in range(2)
        ]
        try:
            done = [process.wait(60) for process in both]
        except subprocess.TimeoutExpired:
            done = [1]
        finally:
            for process in both:
                process.kill()
                process.wait()
        if any(done) or not result.exists():
            return 0.0, 0.0
        speed, latency = json.loads(result.read_text(encoding="utf-8"))
        return speed, latency


def _exchange() -> None:
    """What each of the two processes does."""
    dist.init_process_group("gloo")
    message, tiny = torch.zeros(_MESSAGE), torch.zeros(1)
    seconds = _agreed(message)
    latency = _agreed(tiny)
    if dist.get_rank() == 0:
        Path(sys.argv[1]).write_text(json.dumps([_MESSAGE * 4 / seconds, latency]))
    dist.destroy_process_group()
    leave(0)


def _agreed(message: torch.Tensor) -> float:
    """Seconds of adding it up; of two processes each sends as many bytes as it has."""
    found = []
    for _ in range(8):
        dist.barrier()
        started = time.perf_counter()
        dist.all_reduce(message)
        found.append(time.perf_counter() - started)
    return statistics.median(found[2:])


if __name__ == "__main__":
    _exchange()

"""Verification over all pairs beside scikit-learn, and beside the products that it cannot avoid.

    python benchmarks/verification.py [--repeats 3] [--quick]

5,000, 20,000 and 50,000 embeddings, a billion pairs, beside nothing but their cosines: float32
products in the same blocks of the upper triangle. The smallest also beside all cosines in memory
and scikit-learn's roc_curve over them. In turns within one run. Then the peak memory of each over
its input, in a process of its own.

A table on the screen, every sample in verification.json.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from head import machine
from sklearn.metrics import roc_curve

from arcset.evaluation import pairs, verification

RESULTS = Path(__file__).parent / "results"
PER_CLASS = 10


def sample(count: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes that overlap, so that rates are neither 0 nor 1."""
    generator = np.random.default_rng(0)
    labels = np.arange(count) % max(2, count // PER_CLASS)
    rows = generator.standard_normal((labels.max() + 1, dim), dtype=np.float32)[labels]
    rows += 2 * generator.standard_normal((count, dim), dtype=np.float32)
    return rows, labels


def peer(rows: np.ndarray, labels: np.ndarray) -> float:
    """All pairs at once; what comes back is the false accept rate nearest below 1e-3."""
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    first, second = np.triu_indices(len(rows), k=1)
    cosines = (units @ units.T)[first, second]
    far, tar, _ = roc_curve(labels[first] == labels[second], cosines)
    return float(tar[far <= 1e-3].max())


def products(rows: np.ndarray, labels: np.ndarray) -> float:
    """The cosines of the upper triangle, by blocks, of which nothing is kept."""
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    height = min(2048, len(units))
    width = pairs.BLOCK // height
    memory = np.empty(height * width, dtype=np.float32)
    for top in range(0, len(units), height):
        for left in range(top, len(units), width):
            above, beside = units[top : top + height], units[left : left + width]
            out = memory[: len(above) * len(beside)].reshape(len(above), len(beside))
            np.matmul(above, beside.T, out=out)
    return float("nan")


def ours(rows: np.ndarray, labels: np.ndarray) -> float:
    return verification(rows, labels).tar_at_far[1e-3]


CONTENDERS = {"roc_curve": peer, "products": products, "arcset": ours}
CELLS = {
    "small": ("roc_curve", "products", "arcset"),
    "middle": ("products", "arcset"),
    "large": ("products", "arcset"),
}
LABELS = {
    "roc_curve": "scikit-learn, pairs in memory",
    "products": "bare products",
    "arcset": "arcset",
}


def measure(name: str, count: int, dim: int) -> dict[str, Any]:
    """Bytes over the input at the peak, after a small run for what is loaded with the first."""
    CONTENDERS[name](*sample(500, dim))
    rows, labels = sample(count, dim)
    machine.trim()
    start = machine.resident()
    peak, method = machine.peak_of(lambda: CONTENDERS[name](rows, labels))
    return {"bytes": peak - start, "input_bytes": rows.nbytes + labels.nbytes, "method": method}


def measure_apart(name: str, count: int, options: argparse.Namespace) -> dict[str, Any]:
    if not machine.PROC.exists():
        return {"skipped": "needs Linux"}
    words = [f"--measure={name}", f"--small={count}", f"--dim={options.dim}"]
    words += [f"--threads={options.threads}"]
    done = subprocess.run(
        [sys.executable, __file__, *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"verification.py --measure {name} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def run_cell(cell: str, count: int, options: argparse.Namespace) -> dict[str, Any]:
    rows, labels = sample(count, options.dim)
    names = CELLS[cell]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    values = {}
    company = machine.Company()
    for _ in range(options.repeats):
        for name in names:
            started = time.perf_counter()
            values[name] = CONTENDERS[name](rows, labels)
            seconds[name].append(time.perf_counter() - started)
    others = company.share()
    content = {"cell": cell, "count": count, "dim": options.dim, "others": others}
    content["contenders"] = {
        name: {
            "median": statistics.median(seconds[name]),
            "seconds": seconds[name],
            "tar_at_far_1e-3": None if np.isnan(values[name]) else values[name],
            "memory": measure_apart(name, count, options),
        }
        for name in names
    }
    return content


def table(content: dict[str, Any]) -> str:
    pairs = content["count"] * (content["count"] - 1) // 2
    rows = content["contenders"]
    ours = rows["arcset"]["median"]
    lines = [
        "",
        f"{content['count']:,} × {content['dim']}, {pairs:,} pairs, medians",
        f"{'':30}{'seconds':>9}{'arcset / it':>13}{'it / arcset':>13}{'MB over input':>15}",
    ]
    for name, row in rows.items():
        ratios = f"{ours / row['median']:13.2f}{row['median'] / ours:13.1f}"
        held = row["memory"].get("bytes")
        memory = "–" if held is None else f"{held / 2**20:,.0f}"
        lines.append(f"{LABELS[name]:30}{row['median']:9.2f}{ratios}{memory:>15}")
    if (content["others"] or 0) > 0.05:
        lines.append(f"NOT ALONE: others took {content['others']:.0%} of the processors")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", type=int, default=5_000)
    parser.add_argument("--middle", type=int, default=20_000)
    parser.add_argument("--large", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="1,000, 2,000 and 21,000, once each")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of verification.json")
    parser.add_argument("--measure", choices=list(CONTENDERS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.measure:
        print(json.dumps(measure(options.measure, options.small, options.dim)))
        return
    if options.quick:
        options.small, options.middle, options.large = 1_000, 2_000, 21_000
        options.repeats = 1
    content: dict[str, Any] = {"machine": machine.description(), "cells": []}
    print("{cpu}, {cores} cores, {threads} threads, torch {torch}".format(**content["machine"]))
    for cell in CELLS:
        content["cells"].append(run_cell(cell, getattr(options, cell), options))
        print(table(content["cells"][-1]), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "verification.json").write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()

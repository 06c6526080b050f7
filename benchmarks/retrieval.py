"""Recall@1 and MAP@R beside pytorch-metric-learning's AccuracyCalculator.

    python benchmarks/retrieval.py [--repeats 3] [--count 20000] [--dim 128] [--classes 1000,10]

Both get the same unit embeddings, in turns within one run. The peer ranks to the depth it needs
(k="max_bin_count"); its default, k=None, ranks everything and is shown where it fits in memory
and time: --everything.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from arcset.evaluation.retrieval import retrieval

RESULTS = Path(__file__).parent / "results"
PEER = "AccuracyCalculator"


def sample(count, dim, classes):
    """Classes that overlap, so that neither measure is 0 or 1."""
    generator = np.random.default_rng(0)
    labels = np.arange(count) % classes
    rows = generator.normal(size=(classes, dim))[labels] + 2 * generator.normal(size=(count, dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32), labels


def ours(rows, labels):
    found = retrieval(rows, labels, ks=(1,))
    return found.recall_at[1], found.map_at_r


def peer(k):
    measures = ("precision_at_1", "mean_average_precision_at_r")
    calculator = AccuracyCalculator(include=measures, k=k, device=torch.device("cpu"))

    def measure(rows, labels):
        found = calculator.get_accuracy(torch.from_numpy(rows), torch.from_numpy(labels))
        return tuple(found[name] for name in measures)

    return measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--classes", default="1000,10")
    parser.add_argument("--everything", action="store_true", help="the peer with k=None as well")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()

    contenders = {"arcset": ours}
    contenders[PEER] = peer("max_bin_count")
    if options.everything:
        contenders[f"{PEER}, k=None"] = peer(None)
    cells = []
    for classes in map(int, options.classes.split(",")):
        rows, labels = sample(options.count, options.dim, classes)
        seconds = {name: [] for name in contenders}
        values = {}
        for _ in range(options.repeats):
            for name, measure in contenders.items():
                started = time.perf_counter()
                values[name] = measure(rows, labels)
                seconds[name].append(time.perf_counter() - started)
        medians = {name: statistics.median(each) for name, each in seconds.items()}
        print(
            f"\n{options.count:,} × {options.dim}, {classes:,} classes, medians of"
            f" {options.repeats}, {torch.get_num_threads()} threads"
        )
        print(f"{'':28}{'seconds':>9}{'peer / it':>11}{'recall@1':>10}{'MAP@R':>10}")
        for name, median in medians.items():
            recall, precision = values[name]
            ratio = medians[PEER] / median
            print(f"{name:28}{median:9.2f}{ratio:11.2f}{recall:10.5f}{precision:10.6f}")
        cells.append({"classes": classes, "seconds": seconds, "medians": medians, "values": values})
    options.out.mkdir(parents=True, exist_ok=True)
    config = {key: value for key, value in vars(options).items() if key != "out"}
    config["threads"] = torch.get_num_threads()
    content = json.dumps({"config": config, "cells": cells}, indent=2)
    (options.out / "retrieval.json").write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

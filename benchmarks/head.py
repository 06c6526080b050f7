"""What the softmax over class centers costs beside the products that it cannot avoid.

    python benchmarks/head.py [--classes 1000,10000] [--batch 128] [--quick]

The floors are the three matrix products of forward and backward alone (x·Wᵀ, G·W, Gᵀ·x): into
memory that is there already, and into fresh memory, as autograd must. Against them, in turns
within one run: arcset's ArcFace in its modes, pytorch-metric-learning's, ArcFace with an arccos
of all logits, and two whole training steps, with torch's SGD on the centers and with the update
fused into backward. Then the peak memory of each, in a process of its own, in multiples of the
centers W.

Tables and bars on the screen; every sample in head.json, a picture in head.png. The largest
default size, a million classes, wants 24 GB and most of the time; let nothing else run meanwhile.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import torch
from head import machine, memory
from head.bars import bars
from head.contenders import CONTENDERS, Cell
from head.picture import picture
from head.table import bar_table, cell_table
from head.timing import time_cell

from arcset.files import write_text
from arcset.reports.style import save

RESULTS = Path(__file__).parent / "results"
CLASSES, QUICK = [1_000, 10_000, 100_000, 1_000_000], [1_000, 10_000]
ROUNDS = {2_000: 100, 20_000: 40, 200_000: 12}  # up to so many classes; beyond, 3


def parse() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.replace("_", "").split(",")]

    def names(text: str) -> list[str]:
        chosen = text.split(",")
        unknown = [name for name in chosen if name not in CONTENDERS]
        if unknown:
            known = ", ".join(CONTENDERS)
            raise argparse.ArgumentTypeError(f"no contender is called {unknown[0]!r}: {known}")
        return chosen

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=numbers, help="default: 1000,10000,100000,1000000")
    parser.add_argument("--batch", type=numbers, default=[128, 512])
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, help="default: 100 for 1,000 classes … 3 for 1e6")
    parser.add_argument("--only", type=names, help="contenders beside the floors, by name")
    parser.add_argument("--skip-peers", action="store_true", help="arcset and the floors only")
    parser.add_argument("--skip-memory", action="store_true", help="times only")
    parser.add_argument("--quick", action="store_true", help="1,000 and 10,000 classes, 5 repeats")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of head.json, head.png")
    parser.add_argument("--measure", choices=list(CONTENDERS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.classes = options.classes or (QUICK if options.quick else CLASSES)
    options.repeats = options.repeats or (5 if options.quick else None)
    return options


def participants(options: argparse.Namespace) -> list[str]:
    chosen = options.only or list(CONTENDERS)
    return [
        name
        for name, kind in CONTENDERS.items()
        if kind.kind == "floor" or (name in chosen and not (options.skip_peers and kind.peer))
    ]


def run_cell(cell: Cell, names: list[str], options: argparse.Namespace) -> dict[str, Any]:
    fitting = (count for most, count in ROUNDS.items() if cell.classes <= most)
    rounds = options.repeats or next(fitting, 3)
    company = machine.Company()
    times, left_out = time_cell(cell, names, rounds)
    others = company.share()
    rows: dict[str, Any] = {}
    for name in names:
        row: dict[str, Any] = {"label": CONTENDERS[name].label, "kind": CONTENDERS[name].kind}
        if name in left_out:
            row["skipped"] = left_out[name]
        else:
            samples = times[name]
            row["median"] = statistics.median(samples)
            row["quartiles"] = np.quantile(samples, [0.25, 0.75]).tolist()
            row["seconds"] = samples
        if not options.skip_memory:
            row["memory"] = memory.measure_apart(name, cell, options.threads)
        rows[name] = row
    return {
        **vars(cell),
        "weight_bytes": cell.weight_bytes,
        "rounds": rounds,
        "others": others,
        "contenders": rows,
    }


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    if options.measure:
        cell = Cell(options.classes[0], options.batch[0], options.dim)
        print(json.dumps(memory.measure(options.measure, cell)))
        return
    names = participants(options)
    content: dict[str, Any] = {"machine": machine.description(), "cells": [], "bars": []}
    print("{cpu}, {cores} cores, {threads} threads, torch {torch}".format(**content["machine"]))
    for classes in options.classes:
        for batch in options.batch:
            cell = Cell(classes, batch, options.dim)
            content["cells"].append(run_cell(cell, names, options))
            print(cell_table(content["cells"][-1]), flush=True)
            # After every cell, so that a long run that is broken off was not for nothing.
            content["bars"] = bars(content["cells"])
            write_text(options.out / "head.json", json.dumps(content, indent=2) + "\n")
            save(picture(content), options.out / "head.png")
    print(bar_table(content["bars"]))


if __name__ == "__main__":
    main()

"""Embeddings per second: the exported file in ONNX Runtime beside the run in eager torch.

    python benchmarks/export.py [--repeats 15] [--seconds 0.5] [--threads N] [--only glyph,…]

Both get the same uint8 images, as `Recognizer.embed_arrays` gets them, and give unit embeddings,
compared first; in turns within one run, with the same number of threads. torch runs channels-last,
as everywhere in arcset. A ratio is the median over the turns of those of neighbours in time, in
brackets the range of all. The bar is 1.0 for whole batches; single images are shown beside them.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from head import machine

from arcset.recognition import Recognizer
from arcset.recognition.export import export
from arcset.runs import Run, RunConfig
from arcset.runs.model import build_model

RESULTS = Path(__file__).parent / "results"
BAR = 1.0
SMALL, LARGE = ((1, 28, 28), 256), ((3, 112, 112), 32)  # of one image; images in a batch
NETWORKS = {
    "glyph": SMALL,
    "simple": SMALL,
    "conv4": SMALL,
    "mobilefacenet": LARGE,
    "iresnet18": LARGE,
}


def both(name, shape, folder):
    """A run with random weights, and its export."""
    random = np.random.default_rng(0)
    channels, height, width = shape
    inner = (height, width) if channels == 1 else (height, width, channels)
    images = random.integers(0, 256, (256, *inner), np.uint8)
    np.savez(folder / "images.npz", images=images, labels=np.arange(256) // 4)
    names = tuple(sorted(str(number) for number in range(64)))
    config = RunConfig(
        data=str(folder / "images.npz"), network=name, dim=128, shape=shape, class_names=names
    )
    run = Run.create(folder / name, config)
    network, loss = build_model(config)
    with torch.no_grad():  # as if trained: slopes differ, and batch norms know such images
        for module in network.modules():
            if isinstance(module, torch.nn.PReLU):
                module.weight.uniform_(-0.1, 0.5)
        pixels = torch.from_numpy(images[:64]).reshape(64, height, width, channels)
        network(pixels.permute(0, 3, 1, 2).float() / 127.5 - 1)
    run.save_model(network.state_dict(), loss.state_dict())
    done = export(run.path, folder / f"{name}.onnx")
    found = {
        "torch": Recognizer.load(run.path, device="cpu"),
        "ONNX Runtime": Recognizer.load(done.file, device="cpu"),
    }
    return found, images, done


def rate(recognizer, images, seconds):
    """Embeddings per second, over at least so long."""
    done, started = 0, time.perf_counter()
    while True:
        recognizer.embed_arrays(images)
        done += len(images)
        spent = time.perf_counter() - started
        if spent >= seconds:
            return done / spent


def measure(recognizers, images, options):
    for recognizer in recognizers.values():
        rate(recognizer, images, options.seconds)  # warms up
    rates = {name: [] for name in recognizers}
    for turn in range(options.repeats):
        order = list(recognizers.items())
        for name, recognizer in order if turn % 2 else reversed(order):
            rates[name].append(rate(recognizer, images, options.seconds))
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    company, cells = machine.Company(), []
    print(f"embeddings per second, medians of {options.repeats}, {options.threads} threads\n")
    print(
        f"{'network':15}{'image':>10}{'batch':>7}{'torch':>10}{'ONNX RT':>10}  ONNX RT / torch"
        f"{'':9}least cosine"
    )
    for name in options.only.split(","):
        shape, batch = NETWORKS[name]
        with tempfile.TemporaryDirectory() as folder:
            recognizers, images, done = both(name, shape, Path(folder))
            for size in (batch, 1):
                rates = measure(recognizers, images[:size], options)
                ratios = [
                    ours / theirs
                    for ours, theirs in zip(rates["ONNX Runtime"], rates["torch"], strict=True)
                ]
                medians = {key: statistics.median(values) for key, values in rates.items()}
                ratio = statistics.median(ratios)
                met = ("met" if ratio >= BAR else "MISSED") if size > 1 else ""
                pixels = "×".join(str(side) for side in shape[1:])
                spread = f"({min(ratios):.2f}–{max(ratios):.2f})"
                print(
                    f"{name:15}{pixels:>10}{size:>7}{medians['torch']:>10,.0f}"
                    f"{medians['ONNX Runtime']:>10,.0f}{ratio:>7.2f} {spread:14}{met:8}"
                    f"{done.min_cosine:.8f}",
                    flush=True,
                )
                cells.append(
                    {
                        "network": name,
                        "shape": list(shape),
                        "batch": size,
                        "rates": rates,
                        "ratio": ratio,
                        "met": ratio >= BAR if size > 1 else None,
                        "min_cosine": done.min_cosine,
                        "decisions": done.decisions,
                        "flips": done.flips,
                    }
                )
    share = company.share()
    if share is not None:
        print(f"\nothers took {share:.0%} of the processors meanwhile")
    options.out.mkdir(parents=True, exist_ok=True)
    config = {key: value for key, value in vars(options).items() if key != "out"}
    content = {"config": config, "machine": machine.description(), "others": share, "cells": cells}
    (options.out / "export.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

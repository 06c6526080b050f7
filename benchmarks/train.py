"""How much of the bare network's speed is left in training.

    python benchmarks/train.py [--repeats 5] [--threads N] [--only memory,augmented,…]

The floor of each cell is forward, backward and optimizer step of the same network on the same
batches, already float, with a constant gradient instead of a loss. Against it stands `arcset train`
by the clock on the wall, from the end of one epoch to the end of the next: shuffling, selecting,
scaling pixels, augmenting, loss, input checks, weight averaging, angles, progress, what an epoch
writes. One run of several epochs, a bare epoch after each; the first two of either warm up.

    memory     28×28 digits in memory, network glyph, no augmentation
    augmented  the same as the omniglot recipe trains: affine, rotations as classes, moving average
    packed     112×112 JPEGs, packed (`arcset data pack`), network mobilefacenet
    feeding    batches ready for the network, without one: ours as `augmented`, against a per-sample
               pipeline on the same PNG files, where PIL opens each image and warps it once and a
               torch DataLoader batches; without workers and with two, of which the faster counts
    loader     both pipelines train network mlp (one hidden layer, so that feeding counts), with the
               same loss and optimizer
    loader-simple, loader-glyph  the same with convolutions, whose steps take longer

Ratios are the median of those of neighbours in time, and in brackets the range of all.
"""

import argparse
import functools
import json
import math
import random
import statistics
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from arcset.data import as_float, load_dataset, pack, to_tensors
from arcset.runs import RunConfig
from arcset.runs.data import selection_for
from arcset.runs.model import add_data_settings, build_model
from arcset.runs.settings import recipe_settings
from arcset.training import train
from arcset.training.batches import TrainingBatches
from arcset.training.optimize import build_optimizer
from arcset.training.watchers import Silent

RESULTS = Path(__file__).parent / "results"
COMMON = {"dim": 128, "seed": 0, "snapshot": 0, "schedule": "constant"}
WARM_UP = 2


def bare_epoch(network, optimizer, batches, gradient) -> float:
    """Seconds of forward, backward and step over all batches."""
    started = time.perf_counter()
    network.train()
    for images in batches:
        embeddings = network(images)
        optimizer.zero_grad(set_to_none=True)
        embeddings.backward(gradient)
        optimizer.step()
    return time.perf_counter() - started


class InTurns(Silent):
    """After each epoch of a training that it watches, times something else in the same process."""

    def __init__(self, other):
        self.other, self.ours, self.theirs = other, [], []

    def started(self, name: str, done: int, steps: int) -> None:
        self.since = time.perf_counter()

    def epoch_ended(self, metrics: dict) -> None:
        self.ours.append(time.perf_counter() - self.since)
        self.theirs.append(self.other())
        self.since = time.perf_counter()


def in_turns(other, config, selection, repeats: int) -> tuple[list[float], list[float]]:
    """Seconds of each epoch of `other` and of training, in turns, without those that warm up."""
    clock = InTurns(other)
    with tempfile.TemporaryDirectory() as folder:
        train(
            config.replace(epochs=repeats + WARM_UP),
            Path(folder) / "run",
            device="cpu",
            selection=selection,
            watcher=clock,
        )
    return clock.theirs[WARM_UP:], clock.ours[WARM_UP:]


def floor_of(config, selection):
    """A function that times a bare epoch, and how many images that has."""
    network, loss = build_model(add_data_settings(config, selection), training=True)
    optimizer = build_optimizer(config, network, loss)
    images, _ = to_tensors(selection.train)
    count = len(images) // config.batch * config.batch  # whole batches only
    batches = [
        as_float(chunk).contiguous(memory_format=torch.channels_last)
        for chunk in images[:count].split(config.batch)
    ]
    gradient = torch.randn(config.batch, config.dim) / config.batch
    return lambda: bare_epoch(network, optimizer, batches, gradient), count


def recipe_config(data: str) -> RunConfig:
    settings = recipe_settings("omniglot", data)
    settings["options"] = {}
    return RunConfig(**{**settings, **COMMON, "data": data, "network": "glyph", "batch": 128})


def against_floor(config, selection, repeats: int) -> dict:
    bare, count = floor_of(config, selection)
    floor, ours = in_turns(bare, config, selection, repeats)
    floor = [seconds / count for seconds in floor]
    ours = [seconds / len(selection.train) for seconds in ours]
    return {"bare step": floor, "arcset": ours}


def memory(repeats: int) -> dict:
    config = RunConfig(data="mnist-sample", network="glyph", batch=128, **COMMON)
    return against_floor(config, selection_for(config), repeats)


def augmented(repeats: int) -> dict:
    config = recipe_config("mnist-sample")
    return against_floor(config, selection_for(config), repeats)


def packed(repeats: int) -> dict:
    """512 JPEGs of 64 identities, smooth noise, 112×112 RGB, packed and trained from the map."""
    draw = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "faces"
        for number in range(512):
            small = draw.integers(0, 255, (14, 14, 3), dtype=np.uint8)
            image = Image.fromarray(small).resize((112, 112), Image.Resampling.BICUBIC)
            target = folder / f"{number % 64:03d}" / f"{number:04d}.jpg"
            target.parent.mkdir(parents=True, exist_ok=True)
            image.save(target, quality=90)
        pack(folder, Path(place) / "pack")
        config = RunConfig(
            data=str(Path(place) / "pack"),
            network="mobilefacenet",
            batch=32,
            train_on="all",
            augment=("flip",),
            **COMMON,
        )
        return against_floor(config, selection_for(config), repeats)


class Files(torch.utils.data.Dataset):
    """What many a training script does: each image opened, warped and scaled by PIL and numpy."""

    def __init__(self, paths, labels):
        self.paths, self.labels = paths, labels

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int):
        with Image.open(self.paths[index]) as opened:
            image = opened.convert("L")
        angle, shear = (math.radians(random.uniform(-limit, limit)) for limit in (15, 10))
        across, down = (random.uniform(0.85, 1.15) for _ in range(2))
        left, up = (random.uniform(-0.06, 0.06) * side for side in image.size)
        a, b = math.cos(angle) * across, math.sin(angle + shear) * across
        c, d = -math.sin(angle) * down, math.cos(angle + shear) * down
        x, y = (side / 2 for side in image.size)
        matrix = (a, b, x - a * x - b * y + left, c, d, y - c * x - d * y + up)
        image = image.transform(
            image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR
        )
        pixels = torch.from_numpy(np.array(image, dtype=np.float32))
        return pixels[None] / 127.5 - 1, self.labels[index]


def per_sample_loader(config, selection, paths, workers: int):
    return torch.utils.data.DataLoader(
        Files(paths, selection.train.labels.tolist()),
        batch_size=config.batch,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )


def per_sample_epoch(config, selection, paths, workers: int):
    """A function that times an epoch of the per-sample pipeline."""
    data = per_sample_loader(config, selection, paths, workers)
    network, loss = build_model(add_data_settings(config, selection), training=True)
    optimizer = build_optimizer(config, network, loss)

    def epoch() -> float:
        started = time.perf_counter()
        network.train()
        for images, labels in data:
            value = loss(network(images.contiguous(memory_format=torch.channels_last)), labels)
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            optimizer.step()
        return time.perf_counter() - started

    return epoch


@contextmanager
def as_files(selection):
    """The training images as PNG files: their paths."""
    with tempfile.TemporaryDirectory() as place:
        paths = [Path(place) / f"{number}.png" for number in range(len(selection.train))]
        for path, image in zip(paths, selection.train.images, strict=True):
            Image.fromarray(image).save(path)
        yield paths


def against_files(selection, measured) -> dict:
    """Both pipelines' seconds per image, by the faster number of workers."""
    rows, count = {}, len(selection.train)
    with as_files(selection) as paths:
        for workers in (0, 2):
            theirs, ours = measured(paths, workers)
            rows[f"PIL, {workers} workers"] = (
                [seconds / count for seconds in theirs],
                [seconds / count for seconds in ours],
            )
    fastest = min(rows, key=lambda name: statistics.median(rows[name][0]))
    return {fastest: rows[fastest][0], "arcset": rows[fastest][1]}


def loader(repeats: int, network: str = "mlp") -> dict:
    config = recipe_config("mnist-sample").replace(network=network)
    selection = selection_for(config)

    def measured(paths, workers):
        epoch = per_sample_epoch(config, selection, paths, workers)
        return in_turns(epoch, config, selection, repeats)

    return against_files(selection, measured)


def feeding(repeats: int) -> dict:
    config = add_data_settings(
        recipe_config("mnist-sample"), selection_for(recipe_config("mnist-sample"))
    )
    selection = selection_for(config)
    feed, draw = TrainingBatches(config, selection.train, torch.device("cpu")), torch.Generator()

    def seconds_of(batches) -> float:
        started = time.perf_counter()
        for _ in batches:
            pass
        return time.perf_counter() - started

    def measured(paths, workers):
        data = per_sample_loader(config, selection, paths, workers)
        pairs = []
        for epoch in range(1, repeats + WARM_UP + 1):
            ours = seconds_of(feed.batch(index, draw) for index in feed.epoch(epoch))
            pairs.append((seconds_of(data), ours))
        return zip(*pairs[WARM_UP:], strict=True)

    return against_files(selection, measured)


FUNCTIONS = {
    "memory": memory,
    "augmented": augmented,
    "packed": packed,
    "feeding": feeding,
    "loader": loader,
    "loader-simple": functools.partial(loader, network="simple"),
    "loader-glyph": functools.partial(loader, network="glyph"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--only", default=",".join(FUNCTIONS))
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    load_dataset("mnist-sample")
    found = {}
    print(f"{torch.get_num_threads()} threads; medians of {options.repeats}")
    print(f"{'':14}{'':22}{'images/s':>10}{'ratio':>8}")
    for cell in options.only.split(","):
        rows = FUNCTIONS[cell](options.repeats)
        speeds = {name: 1 / statistics.median(values) for name, values in rows.items()}
        ratios = [theirs / ours for theirs, ours in zip(*rows.values(), strict=True)]
        for name, speed in speeds.items():
            print(f"{cell:14}{name:22}{speed:10,.0f}", end="" if name == "arcset" else "\n")
        ratio, low, high = statistics.median(ratios), min(ratios), max(ratios)
        print(f"{ratio:8.2f}  [{low:.2f}, {high:.2f}]", flush=True)
        found[cell] = {"images_per_second": speeds, "seconds_per_image": rows, "ratio": ratio}
    RESULTS.mkdir(exist_ok=True)
    content = {"config": vars(options), "cells": found}
    (RESULTS / "train.json").write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""Images per second: `arcset embed` into a folder of shards, beside the bare network.

    python benchmarks/embed.py [--repeats 5] [--seconds 8] [--only conv4,…] [--processes 1,2]

The bare network gets the same images, decoded and in memory, in the same chunks, and its embeddings
go nowhere. The sharded way lists them, reads and decodes them (image files), or reads them from a
pack, embeds them, and writes Parquet, with an fsync per shard. All three in turns within one run,
after a warm-up, by the same processes: one with as many threads as there are processors, or several
that share these. Starting up and loading the model are not counted. A ratio is the median over the
turns of the sharded way's rate over that of the bare network in the same turn.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from head import machine
from PIL import Image

from arcset.data import open_source
from arcset.data.selection import evaluation_images
from arcset.data.sources.pack import load_pack, pack
from arcset.distributed import join_group
from arcset.recognition.embed_many import Embedder, embed_many
from arcset.runs import Run, RunConfig
from arcset.runs.model import build_model

RESULTS = Path(__file__).parent / "results"
SMALL, LARGE = (1, 28, 28), (3, 112, 112)
NETWORKS = {"conv4": SMALL, "mobilefacenet": LARGE, "iresnet18": LARGE}
WAYS = ("bare", "files", "pack")
LEAST = 256  # images, so that two processes have something to share


def prepare(name, shape, count, folder):
    """A run with random weights, `count` image files in folders of ten, and a pack of them."""
    channels, height, width = shape
    random = np.random.default_rng(0)
    for number in range(count):
        place = folder / "files" / f"{number // 10:06d}" / f"{number:07d}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        # Smooth, as photos are: noise would be decoded far more slowly.
        coarse = random.integers(0, 256, (8, 8, channels), np.uint8)
        image = Image.fromarray(coarse[..., 0] if channels == 1 else coarse)
        image.resize((width, height), Image.Resampling.BICUBIC).save(place, quality=90)
    pack(folder / "files", folder / "pack", size=(height, width), channels=channels)
    names = tuple(f"{number:06d}" for number in range(-(-count // 10)))
    config = RunConfig(data="files", network=name, dim=512, shape=shape, class_names=names)
    run = Run.create(folder / "run", config)
    network, loss = build_model(config)
    run.save_model(network.state_dict(), loss.state_dict())


def bare(embedder, images, group):
    """This process's share of the chunks through the network, and nothing else."""
    size = embedder.chunk_size
    for start in range(group.rank * size, len(images), group.size * size):
        embedder.embed(images[start : start + size])


def work(folder, repeats):
    """What each process does; the first prints the seconds of each way, turn by turn."""
    group = join_group(torch.device("cpu"))
    embedder = Embedder(folder / "run", device="cpu", normalize=False)
    every = evaluation_images(load_pack(folder / "pack"), everything=True)
    images = np.asarray(every.images)
    embed_many(folder / "warm", open_source(str(folder / "pack")), embedder)  # imports, too
    seconds = {way: [] for way in WAYS}
    for turn in range(repeats):
        for way in WAYS if turn % 2 else reversed(WAYS):
            out = folder / f"out-{way}-{turn}"
            group.barrier()
            started = time.perf_counter()
            if way == "bare":
                bare(embedder, images, group)
            else:
                embed_many(out, open_source(str(folder / way)), embedder)
            group.barrier()
            seconds[way].append(time.perf_counter() - started)
            if group.is_main:
                shutil.rmtree(out, ignore_errors=True)
    if group.is_main:
        print(json.dumps(seconds))


def measured(folder, processes, repeats):
    """Seconds by way, of so many processes that share the processors."""
    threads = max(1, (os.cpu_count() or 1) // processes)
    own = [__file__, "--worker", str(folder), "--repeats", str(repeats)]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [sys.executable, *(launcher if processes > 1 else []), *own]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def images_for(name, shape, seconds):
    """How many images the bare network embeds in about so long, in this process."""
    config = RunConfig(data="x", network=name, dim=512, shape=shape, class_names=("a", "b"))
    network, _ = build_model(config)
    network.eval()
    batch = torch.zeros(64, *shape).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        network(batch)
        started = time.perf_counter()
        network(batch)
    return max(LEAST, int(64 * seconds / (time.perf_counter() - started)) // 64 * 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="that a turn takes, about")
    parser.add_argument("--count", type=int, help="images, instead of --seconds")
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--processes", default="1,2")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        work(options.worker, options.repeats)
        return

    cells = []
    print(f"images per second, medians of {options.repeats} turns, {os.cpu_count()} processors\n")
    print(
        f"{'network':15}{'image':>9}{'images':>9}{'processes':>11}{'bare':>10}{'files':>10}"
        f"{'pack':>10}{'files/bare':>12}{'pack/bare':>11}"
    )
    for name in options.only.split(","):
        shape = NETWORKS[name]
        count = options.count or images_for(name, shape, options.seconds)
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            prepare(name, shape, count, folder)
            for processes in map(int, options.processes.split(",")):
                seconds = measured(folder, processes, options.repeats)
                rates = {way: [count / spent for spent in seconds[way]] for way in WAYS}
                medians = {way: statistics.median(rates[way]) for way in WAYS}
                ratios = {
                    way: statistics.median(
                        ours / theirs
                        for ours, theirs in zip(rates[way], rates["bare"], strict=True)
                    )
                    for way in WAYS[1:]
                }
                print(
                    f"{name:15}{shape[1]:>5}×{shape[2]:<3}{count:>9,}{processes:>11}"
                    + "".join(f"{medians[way]:>10,.0f}" for way in WAYS)
                    + f"{ratios['files']:>12.2f}{ratios['pack']:>11.2f}",
                    flush=True,
                )
                cells.append(
                    {
                        "network": name,
                        "shape": list(shape),
                        "images": count,
                        "processes": processes,
                        "rates": rates,
                        "medians": medians,
                        "ratios": ratios,
                    }
                )
    options.out.mkdir(parents=True, exist_ok=True)
    config = {key: value for key, value in vars(options).items() if key not in ("out", "worker")}
    content = {"config": config, "machine": machine.description(), "cells": cells}
    (options.out / "embed.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

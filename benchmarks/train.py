"""How much of the bare network's speed is left in training.

    python benchmarks/train.py [--repeats 7] [--network simple] [--loss arcface]

The floor is forward, backward and optimizer step of the same network on the same images, already
float and batched, with a constant gradient instead of a loss. Against it, in turns within one
run: an epoch of `arcset train` as metrics.jsonl reports it (shuffling, selecting, scaling pixels,
loss, input checks, progress), and the same with everything around it (start, snapshots,
checkpoint, metrics).
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch

from arcset.data import as_float, load_dataset, select, to_tensors
from arcset.models import build_model, described
from arcset.runs import RunConfig
from arcset.training import train
from arcset.training.loop import build_optimizer

RESULTS = Path(__file__).parent / "results"


def bare_epoch(network, optimizer, batches, gradient) -> float:
    started = time.perf_counter()
    network.train()
    for images in batches:
        embeddings = network(images)
        optimizer.zero_grad(set_to_none=True)
        embeddings.backward(gradient)
        optimizer.step()
    return time.perf_counter() - started


def arcset_epoch(config) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        run = train(config, Path(folder) / "run", device="cpu")
        whole = time.perf_counter() - started
        return run.metrics()[0]["seconds"], whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--network", default="simple")
    parser.add_argument("--loss", default="arcface")
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()

    config = RunConfig(
        data="mnist-sample",
        network=options.network,
        loss=options.loss,
        dim=128,
        epochs=1,
        batch=options.batch,
        seed=0,
    )
    selection = select(load_dataset(config.data), None)
    network, loss = build_model(described(config, selection))
    optimizer = build_optimizer(config, network, loss)
    images, _ = to_tensors(selection.train)
    count = len(images) // config.batch * config.batch  # whole batches only, for both
    batches = [as_float(chunk) for chunk in images[:count].split(config.batch)]
    gradient = torch.randn(config.batch, config.dim) / config.batch

    floor, loop, whole = [], [], []
    for repeat in range(options.repeats + 1):
        bare = bare_epoch(network, optimizer, batches, gradient) / count
        inner, outer = (seconds / len(images) for seconds in arcset_epoch(config))
        if repeat:  # the first round warms up
            floor.append(bare)
            loop.append(inner)
            whole.append(outer)

    rows = {"bare step": floor, "arcset, training": loop, "arcset, all included": whole}
    speeds = {name: 1 / statistics.median(values) for name, values in rows.items()}
    print(
        f"{config.network}, batch {config.batch}, {config.loss}, {torch.get_num_threads()} threads"
    )
    print(f"{'':24}{'images/s':>12}{'of the floor':>14}")
    for name, speed in speeds.items():
        print(f"{name:24}{speed:12,.0f}{speed / speeds['bare step']:14.2f}")
    RESULTS.mkdir(exist_ok=True)
    content = {"config": vars(options), "images_per_second": speeds, "seconds_per_image": rows}
    (RESULTS / "train.json").write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""How much memory it takes to embed so many samples, in a process of its own.

python -m support.bulk_memory FOLDER COUNT
"""

import resource
import sys
from pathlib import Path

import numpy as np
import torch

from arcset.data import Source
from arcset.data.sources.base import Entry
from arcset.recognition.embed_many import Embedder, embed_many
from support.random_runs import random_run

PIXELS = np.zeros((10, 10), np.uint8)


class Many(Source):
    """Two samples of each identity, named as they are asked for; all look the same."""

    name = kind = "many"
    shape = (1, 10, 10)

    def __init__(self, count):
        self._count = count

    def entries(self):
        for number in range(self._count):
            label = f"identity {number // 2:09d}"
            path = f"{label}/image {number:09d}.png"
            yield Entry(path, label, path)

    def content(self, entry):
        return PIXELS


if __name__ == "__main__":
    torch.set_num_threads(1)
    place, count = Path(sys.argv[1]) / sys.argv[2], int(sys.argv[2])
    embedder = Embedder(random_run(place / "run", network="mlp").path, device="cpu")
    result = embed_many(place / "out", Many(count), embedder, shard_size=2000)
    assert result.samples == count
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)

"""A run judged on given pairs of images, as published face benchmarks have them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from arcset.data.batches import as_tensor
from arcset.data.sources.insightface_bin import read_verification_bin
from arcset.devices import choose_device
from arcset.errors import DataError, OptionError
from arcset.evaluation import FoldAccuracy, Verification, fold_accuracy, verification
from arcset.runs import Run
from arcset.runs.data import reading_of
from arcset.runs.model import embed, load_model

__all__ = ["JudgedPairs", "judge_pairs"]

_CHUNK = 256  # images decoded at a time


@dataclass(frozen=True)
class JudgedPairs:
    """What a run makes of given pairs.

    verification: ROC, TAR at FARs and so on over the pairs. folds: the accuracy of the protocol
    that such files come with, each fold at the threshold that suits the others.
    """

    file: str
    verification: Verification
    folds: FoldAccuracy

    def table(self) -> str:
        """For people."""
        return f"{self.verification.table()}\n\n{self.folds.table()}"

    def json(self) -> dict[str, Any]:
        """As one object."""
        return {
            "file": self.file,
            "verification": self.verification.json(),
            "fold_accuracy": self.folds.json(),
        }


def judge_pairs(run: Run, path: Path, *, device: str = "auto", folds: int = 10) -> JudgedPairs:
    """A run on InsightFace's verification file `path`, such as lfw.bin.

    Nothing in the file is executed. An image that cannot be read is an error: without it the pairs
    would be others than those that figures are published for.
    """
    reading = reading_of(run.config)
    if reading is None:
        raise OptionError(f"{run.path} takes no images, and {path} holds some")
    pairs = read_verification_bin(path)
    network, _ = load_model(run)
    place = choose_device(device)
    network = network.to(place)
    found = []
    for start in range(0, len(pairs.contents), _CHUNK):
        contents = pairs.contents[start : start + _CHUNK]
        images = np.stack(
            [
                reading.read(content, f"image {start + number} of {path}")
                for number, content in enumerate(contents)
            ]
        )
        found.append(embed(network, as_tensor(images, place)).cpu())
    if len(pairs.same) < folds:
        raise DataError(f"{path} holds {len(pairs.same)} pairs, too few for {folds} folds")
    embeddings = torch.cat(found)
    rows = np.arange(len(pairs.contents)).reshape(-1, 2)
    return JudgedPairs(
        path.name,
        verification(embeddings, pairs=rows, same=pairs.same),
        fold_accuracy(embeddings, rows, pairs.same, folds=folds),
    )

"""A step with some of the classes beside one with all of them, and beside others' ways."""

import gc
import statistics
import time

import torch
from torch import Tensor
from torch.nn import functional as F

import arcset

SCALE, MARGIN = 64.0, 0.5
SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}


def batches(classes: int, dim: int, batch: int, seed: int = 0):
    """Embeddings that want a gradient, and labels; new ones each time."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        embeddings = torch.randn(batch, dim, generator=generator).requires_grad_()
        yield embeddings, torch.randint(classes, (batch,), generator=generator)


def step(loss, embeddings: Tensor, labels: Tensor) -> float:
    """Seconds of forward, backward and the update in it."""
    started = time.perf_counter()
    loss(embeddings, labels).backward()
    return time.perf_counter() - started


def build(classes: int, dim: int, sample: float = 1.0):
    loss = arcset.build_loss(
        "arcface", dim, classes, scale=SCALE, margin=MARGIN, sample=sample, update="sgd"
    )
    loss.fuse_update("sgd", **SGD)
    return loss


def rates(classes: int, dim: int, batch: int, shares: list[float], rounds: int) -> dict:
    """Seconds a step for all classes and for each share of them; one loss, in turns.

    In each turn the first step is not counted: its buffers have another size than those of the
    turn before.
    """
    loss, data = build(classes, dim), batches(classes, dim, batch)
    seconds: dict[float, list[float]] = {share: [] for share in [1.0, *shares]}
    for _ in range(rounds):
        for share in seconds:
            loss.sample = share
            step(loss, *next(data))
            count = 2 if share == 1 else 4
            seconds[share] += [step(loss, *next(data)) for _ in range(count)]
    del loss
    gc.collect()
    return {
        "seconds": {str(share): found for share, found in seconds.items()},
        "median": {str(share): statistics.median(found) for share, found in seconds.items()},
    }


class WrittenOut:
    """Partial FC as one would write it in plain torch: the rows drawn, and autograd on those."""

    def __init__(self, classes: int, dim: int, sample: float) -> None:
        self.weight = F.normalize(torch.randn(classes, dim))
        self.momentum = torch.zeros_like(self.weight)
        self.count = int(classes * sample)

    def step(self, embeddings: Tensor, labels: Tensor) -> float:
        started = time.perf_counter()
        positive = labels.unique()
        chance = torch.rand(len(self.weight))
        chance[positive] = 2.0
        drawn = chance.topk(self.count).indices.sort().values  # (n,)
        places = torch.searchsorted(drawn, labels)
        rows = self.weight[drawn].requires_grad_()  # (n, D)
        cosines = F.normalize(embeddings) @ F.normalize(rows).T  # (B, n)
        column = places[:, None]
        target = cosines.gather(1, column).clamp(-1 + 1e-7, 1 - 1e-7)
        moved = torch.cos(torch.arccos(target) + MARGIN)
        logits = SCALE * cosines.scatter(1, column, moved)
        F.cross_entropy(logits, places).backward()
        with torch.no_grad():
            gradient = rows.grad.add(rows, alpha=SGD["weight_decay"])
            momentum = self.momentum[drawn].mul_(SGD["momentum"]).add_(gradient)
            self.momentum[drawn] = momentum
            self.weight[drawn] = rows.detach() - SGD["lr"] * momentum
        return time.perf_counter() - started


def peers(classes: int, dim: int, batch: int, sample: float, rounds: int) -> dict:
    """Seconds a step of ours and of Partial FC written out in plain torch, in turns."""
    ours, plain = build(classes, dim, sample), WrittenOut(classes, dim, sample)
    data = batches(classes, dim, batch)
    seconds: dict[str, list[float]] = {"arcset": [], "written out": []}
    for number in range(rounds + 1):
        found = step(ours, *next(data)), plain.step(*next(data))
        if number:
            seconds["arcset"].append(found[0])
            seconds["written out"].append(found[1])
    return {"seconds": seconds, "median": _medians(seconds)}


def whole(classes: int, dim: int, batch: int, rounds: int) -> dict:
    """Seconds a step of pytorch-metric-learning's ArcFaceLoss, over all classes."""
    from pytorch_metric_learning.losses import ArcFaceLoss

    loss = ArcFaceLoss(classes, dim, margin=28.6, scale=SCALE)
    optimizer = torch.optim.SGD(loss.parameters(), **SGD)
    data, seconds = batches(classes, dim, batch), []
    for _ in range(rounds + 1):
        embeddings, labels = next(data)
        started = time.perf_counter()
        optimizer.zero_grad()
        loss(embeddings, labels).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - started)
    return {"seconds": seconds[1:], "median": statistics.median(seconds[1:])}


def _medians(seconds: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(found) for name, found in seconds.items()}

"""Timing in turns: every round runs each contender once, in an order of its own."""

import gc
import random
import time
from collections.abc import Sequence

import torch

from head.contenders import CONTENDERS, Cell, Contender
from head.memory import shortage


def time_cell(
    cell: Cell, names: Sequence[str], rounds: int
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds of every counted round by contender, and why others are left out.

    All share one matrix of centers where their layout allows it. While they are small, they stay
    built from the first round to the last; where that would take gigabytes, each is built before
    its turn and dropped after it, off the clock.
    """
    contenders: list[Contender] = [CONTENDERS[name](cell) for name in names]
    kept = shortage(sum(contender.need for contender in contenders)) is None
    left_out = {}
    for contender in list(contenders):
        reason = None if kept else shortage(contender.need + cell.weight_bytes)
        if reason:
            left_out[contender.name] = reason
            contenders.remove(contender)
    weight = torch.empty(cell.classes, cell.dim).normal_()  # (C, D)
    weight /= cell.dim**0.5  # rows of about unit length, as a loss starts with
    if kept:
        for contender in contenders:
            contender.prepare(weight)
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for number in range(rounds + 1):
        embeddings, labels = cell.data(number)
        # Shuffled, as whoever always followed the same one would always find the same in the cache.
        for contender in random.Random(number).sample(contenders, len(contenders)):
            if not kept:
                contender.prepare(weight)
                if contender.warms:
                    contender.step(embeddings, labels)
            started = time.perf_counter()
            contender.step(embeddings, labels)
            elapsed = time.perf_counter() - started
            if not kept:
                contender.release()
                gc.collect()
            if number:  # the first round warms up
                seconds[contender.name].append(elapsed)
    return seconds, left_out

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from arcset.data.batches import balanced_batch_count, balanced_batches
from arcset.errors import OptionError


@st.composite
def _cases(draw: st.DrawFn) -> tuple[Tensor, int, int, int, int]:
    """Labels in any order with any numbers, P and K, seed and epoch."""
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=12))
    numbers = draw(
        st.lists(st.integers(0, 99), min_size=len(sizes), max_size=len(sizes), unique=True)
    )
    labels = torch.tensor(numbers).repeat_interleave(torch.tensor(sizes))
    shuffled = draw(st.permutations(labels.tolist()))
    per_batch = draw(st.integers(1, len(sizes)))
    return (
        torch.tensor(shuffled),
        per_batch,
        draw(st.integers(1, 6)),
        draw(st.integers(0, 2**40)),
        draw(st.integers(0, 50)),
    )


@given(_cases())
def test_the_guarantees(case: tuple[Tensor, int, int, int, int]) -> None:
    labels, per_batch, samples, seed, epoch = case
    batches = list(balanced_batches(labels, per_batch, samples, seed=seed, epoch=epoch))
    count = math.ceil(len(labels) / (per_batch * samples))
    assert len(batches) == count == balanced_batch_count(labels, per_batch, samples)
    sizes = {label: labels.tolist().count(label) for label in labels.tolist()}
    draws = dict.fromkeys(sizes, 0)
    used: dict[int, list[int]] = {label: [] for label in sizes}
    for index in batches:
        assert index.shape == (per_batch * samples,)
        rows = index.reshape(per_batch, samples).tolist()
        classes = [int(labels[row[0]]) for row in rows]
        assert len(set(classes)) == per_batch
        for label, row in zip(classes, rows, strict=True):
            assert {int(labels[sample]) for sample in row} == {label}
            assert len(set(row)) == min(samples, sizes[label])  # repeats only where there must be
            draws[label] += 1
            used[label] += row
    assert max(draws.values()) - min(draws.values()) <= 1
    for label, order in used.items():
        size = sizes[label]
        for begin in range(0, len(order), size):  # all samples before one comes again
            part = order[begin : begin + size]
            assert len(set(part)) == len(part)


def _order(seed: int, epoch: int, **options: str) -> list[int]:
    labels = torch.arange(100) % 9
    batches = balanced_batches(labels, 4, 3, seed=seed, epoch=epoch, **options)
    return torch.cat(list(batches)).tolist()


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    before = torch.random.get_rng_state()
    orders = {(seed, epoch): _order(seed, epoch) for seed in range(4) for epoch in range(4)}
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(99)
    for (seed, epoch), order in orders.items():
        assert _order(seed, epoch) == order
    assert len({tuple(order) for order in orders.values()}) == len(orders)


def test_more_classes_than_there_are_is_refused_at_once() -> None:
    labels = torch.tensor([3, 3, 8, 8])
    with pytest.raises(OptionError, match=r"classes_per_batch=3.* 2 "):
        balanced_batches(labels, 3, 1, seed=0, epoch=0)
    with pytest.raises(OptionError, match=r"classes_per_batch=3.* 2 "):
        balanced_batch_count(labels, 3, 1)

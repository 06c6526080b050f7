import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from arcset.data import (
    Dataset,
    ImageSet,
    Samples,
    as_float,
    batch_count,
    select,
    shuffled_batches,
    to_tensors,
)
from arcset.data.batches import balanced_batch_count, balanced_batches
from arcset.data.dataset import LazyRows
from arcset.data.rotated_classes import class_transforms
from arcset.errors import InputError, OptionError

COUNTS = st.integers(1, 300)
BATCHES = st.integers(1, 80)
SEEDS = st.integers(0, 2**40)


def test_floats_span_minus_one_to_one() -> None:
    pixels = torch.arange(256, dtype=torch.uint8)
    floats = as_float(pixels)
    assert floats.dtype == torch.float32
    assert (floats[0], floats[-1]) == (-1, 1)
    torch.testing.assert_close(floats, ((pixels.double() / 255 - 0.5) / 0.5).float())
    assert pixels[-1] == 255  # the argument stays as it was


def test_features_are_not_scaled() -> None:
    features = torch.tensor([0.0, 300.0])
    assert as_float(features) is features
    with pytest.raises(InputError, match=r"torch\.int32"):
        as_float(torch.zeros(2, dtype=torch.int32))


@pytest.mark.parametrize("shape", [(6, 4, 5), (6, 4, 5, 3), (6, 7)])
def test_samples_are_taken_as_to_tensors_has_them(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(0, 255, shape)
    pixels = values.astype(np.float32 if len(shape) == 2 else np.uint8)
    images = ImageSet(pixels, np.array([0, 0, 1, 1, 2, 2]), ("a", "b", "c"))
    samples, (whole, labels) = Samples(images), to_tensors(images)
    index = torch.tensor([5, 0, 3, 3])
    assert torch.equal(samples.take(index), whole[index])
    assert torch.equal(samples.labels, labels)
    assert len(samples) == 6


def test_samples_in_a_file_stay_there(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (9, 4, 5, 3), dtype=np.uint8)
    np.save(tmp_path / "images.npy", pixels)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    parts = [
        ImageSet(LazyRows(mapped, np.arange(6)), np.array([0, 1, 2, 0, 1, 2]), ("a", "b", "c")),
        ImageSet(LazyRows(mapped, np.arange(6, 9)), np.array([0, 1, 2]), ("a", "b", "c")),
    ]
    dataset = Dataset("packed", parts[0], parts[1], "free", held_out="all")
    chosen = select(dataset, "a,c")
    assert isinstance(chosen.train.images, LazyRows)
    assert np.array_equal(np.asarray(chosen.train.images), pixels[[0, 2, 3, 5]])
    assert chosen.unseen is not None
    assert isinstance(chosen.unseen.images, LazyRows)
    assert np.array_equal(np.asarray(chosen.unseen.images), pixels[[1, 4, 7]])
    everything = select(dataset, "a,c", train_on="all")
    assert everything.test is None
    assert np.array_equal(np.asarray(everything.train.images), pixels[[0, 3, 6, 2, 5, 8]])
    taken = Samples(everything.train).take(torch.tensor([2, 4]))
    assert np.array_equal(taken.permute(0, 2, 3, 1).numpy(), pixels[[6, 5]])


@given(COUNTS, BATCHES, SEEDS, st.integers(0, 1000))
def test_every_sample_comes_exactly_once(count: int, batch: int, seed: int, epoch: int) -> None:
    batches = list(shuffled_batches(count, batch, seed=seed, epoch=epoch))
    assert sorted(torch.cat(batches).tolist()) == list(range(count))
    assert len(batches) == batch_count(count, batch)
    sizes = [len(index) for index in batches]
    assert all(size == batch for size in sizes[:-1])
    assert sizes[-1] <= batch + 1
    if count > 1 and batch > 1:
        assert min(sizes) > 1  # batch normalization fails on a single sample


def test_turns_need_square_images() -> None:
    pixels, transforms = torch.zeros(2, 1, 5, 4), class_transforms("rotations")
    with pytest.raises(InputError, match=r"'rotations'.*5×4"):
        transforms.apply(pixels, torch.zeros(2, dtype=torch.int64))


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
def test_balanced_batches_hold_p_classes_with_k_samples_and_use_all_evenly(
    case: tuple[Tensor, int, int, int, int],
) -> None:
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


def test_more_classes_than_there_are_is_refused_at_once() -> None:
    labels = torch.tensor([3, 3, 8, 8])
    with pytest.raises(OptionError, match=r"classes_per_batch=3.* 2 "):
        balanced_batches(labels, 3, 1, seed=0, epoch=0)

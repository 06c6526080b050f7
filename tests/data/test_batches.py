from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

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
from arcset.data.dataset import LazyRows
from arcset.errors import InputError

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


def _order(seed: int, epoch: int) -> list[int]:
    return torch.cat(list(shuffled_batches(100, 7, seed=seed, epoch=epoch))).tolist()


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    orders = {(seed, epoch): _order(seed, epoch) for seed in range(4) for epoch in range(4)}
    torch.manual_seed(99)
    torch.rand(5)
    for (seed, epoch), order in orders.items():
        assert _order(seed, epoch) == order
    assert len({tuple(order) for order in orders.values()}) == len(orders)

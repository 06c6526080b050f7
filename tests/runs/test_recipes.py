"""Recipes fit the data that they are for, and own data gets what suits it."""

import os
from pathlib import Path

import numpy as np
import pytest

from arcset.data import Dataset, ImageSet
from arcset.data.split import hold_out_split
from arcset.errors import OptionError
from arcset.runs import RunConfig
from arcset.runs.data import selection_for
from arcset.runs.model import add_data_settings, build_model
from arcset.runs.settings import read_recipe, recipe_names, recipe_settings, suitable_settings
from arcset.training.batches import TrainingBatches
from support.datasets import loaded


def at_hand(name: str) -> Dataset:
    if not (Path(os.environ.get("ARCSET_DATA") or "no-such-folder") / name).is_dir():
        pytest.skip(f"{name} is not here: set ARCSET_DATA to a folder that holds {name}/")
    return loaded(name)


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_fits_its_data(name: str, tmp_path) -> None:
    recipe = read_recipe(name)
    config = RunConfig(data=recipe.data, **recipe_settings(name, recipe.data))
    config.save(tmp_path / "config.toml")
    assert RunConfig.load(tmp_path / "config.toml") == config
    dataset = at_hand(recipe.data)
    selection = selection_for(config, dataset=dataset)
    if config.hold_out is not None:
        split = hold_out_split(dataset, config.hold_out)
        assert len(split.validation) >= 2
        assert len(split.test) >= 2
        assert selection.validation is not None
        assert selection.unseen is not None
    config = add_data_settings(config, selection)
    build_model(config, training=True)
    TrainingBatches(config, selection.train, device="cpu")  # type: ignore[arg-type]


def test_a_recipe_that_is_not_there_is_answered_with_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"'omniglott'.*'omni"):
        recipe_settings("omniglott", "mnist")


def dataset(shape: tuple[int, ...], counts: list[int], **options: object) -> Dataset:
    labels = np.repeat(np.arange(len(counts)), counts)
    dtype = np.float32 if len(shape) == 1 else np.uint8
    names = tuple(f"c{number:04d}" for number in range(len(counts)))
    samples = ImageSet(np.zeros((len(labels), *shape), dtype), labels, names)
    return Dataset("mine", samples, None, "", held_out="all", **options)  # type: ignore[arg-type]


def settled(data: Dataset) -> RunConfig:
    """The configuration for it, if it can be trained with."""
    config = RunConfig(data="mine", **suitable_settings(data))
    selection = selection_for(config, dataset=data)
    config = add_data_settings(config, selection)
    build_model(config, training=True)
    TrainingBatches(config, selection.train, device="cpu")  # type: ignore[arg-type]
    return config


def test_small_images_large_ones_and_vectors() -> None:
    small = settled(dataset((48, 40), [4] * 25))
    assert (small.network, small.augment, small.optimizer) == ("glyph", ("affine",), "sgd")
    large = settled(dataset((49, 40, 3), [4] * 25))
    assert (large.network, large.augment, large.optimizer) == (
        "mobilefacenet",
        ("affine",),
        "adamw",
    )
    vectors = settled(dataset((300,), [4] * 25))
    assert (vectors.network, vectors.augment) == ("mlp", ())
    for config in (small, large, vectors):
        assert config.hold_out == {"validation": 0.2, "test": 0.2}
        assert config.new_classes == "none"  # a mirrored face is the same person
        assert config.train_on == "train"
        assert not config.invert
        assert config.recipe is None


@pytest.mark.parametrize(("images", "epochs"), [(50, 100), (64 * 50, 60), (64 * 5000, 10)])
def test_small_data_gets_three_thousand_steps(images: int, epochs: int) -> None:
    labels = np.arange(images) % 10
    one = ImageSet(np.zeros((images, 1, 1), np.uint8), labels, tuple("abcdefghij"))
    data = Dataset("mine", one, None, "", held_out="all")
    assert (suitable_settings(data)["batch"], suitable_settings(data)["epochs"]) == (64, epochs)


def test_of_few_identities_none_is_held_out() -> None:
    assert settled(dataset((8, 8), [3] * 19 + [1] * 50)).hold_out is None
    assert settled(dataset((8, 8), [3] * 20)).hold_out == {"validation": 0.2, "test": 0.2}
    apart = {"test": ("c0000", "c0001")}
    assert settled(dataset((8, 8), [3] * 40, apart=apart)).hold_out is None  # somebody said whom


@pytest.mark.parametrize(
    ("several", "single", "wanted"), [(20, 500, 4), (50, 7, 8), (90, 0, 9), (1680, 4069, 168)]
)
def test_a_tenth_of_those_that_can_be_judged_or_eight_or_a_fifth(
    several: int, single: int, wanted: int
) -> None:
    data = dataset((8, 8), [2] * several + [1] * single)
    split = hold_out_split(data, suitable_settings(data)["hold_out"])
    assert (len(split.validation), len(split.test)) == (wanted, wanted)
    assert max(*split.validation, *split.test) < f"c{several:04d}"

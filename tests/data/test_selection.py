from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcset.data import (
    Dataset,
    ImageSet,
    Split,
    load_dataset,
    make_split,
    parse_classes,
    select,
)
from arcset.errors import OptionError

DIGITS = tuple("0123456789")


def _dataset(classes: int, held_out: Literal["test", "all"] = "test") -> Dataset:
    """Every pixel of an image is the number of its class, so that no relabelling can hide it."""

    def part(each: int) -> ImageSet:
        labels = np.random.default_rng(each).permutation(np.repeat(np.arange(classes), each))
        images = np.broadcast_to(labels[:, None, None], (len(labels), 2, 2)).astype(np.uint8)
        return ImageSet(images, labels, tuple(str(label) for label in range(classes)))

    return Dataset("made", part(3), part(2), "free", held_out)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("0,2,5-7", "02567"),
        (" 9 , 0 - 1 ", "019"),
        ("7,3", "37"),
    ],
)
def test_lists_and_ranges(text: str, names: str) -> None:
    assert parse_classes(text, DIGITS) == tuple(names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "''"),
        ("4-0", "'4-0'"),
        ("0-4,3", "'0-4,3'.*'3'"),
        ("5-12", "'10'"),
        (f"0-{'9' * 5000}", "9{5000}"),
        ("cat", "'cat'.*8, 9$"),
    ],
)
def test_bad_lists_are_refused_in_the_words_of_the_user(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_classes(text, DIGITS)


def test_a_name_with_a_hyphen_is_no_range() -> None:
    assert parse_classes("1-2,x-y", ["x-y", "1", "1-2"]) == ("x-y", "1-2")


@given(st.data())
def test_no_unseen_class_ever_gets_into_training_or_test(data: st.DataObject) -> None:
    dataset = _dataset(data.draw(st.integers(2, 12), label="classes"))
    names = dataset.class_names
    known = data.draw(st.lists(st.sampled_from(names), min_size=2, unique=True), label="known")
    selection = select(dataset, ",".join(known))

    assert selection.name == "made"
    for kept, whole in ((selection.train, dataset.train), (selection.test, dataset.test)):
        assert kept.class_names == tuple(name for name in names if name in known)
        _agrees(kept, whole)
    if selection.unseen is None:
        assert set(known) == set(names)
    else:
        assert selection.unseen.class_names == tuple(name for name in names if name not in known)
        _agrees(selection.unseen, dataset.test)


def _agrees(kept: ImageSet, whole: ImageSet) -> None:
    """`kept` holds the images of its classes in `whole`, all of them, in order, named rightly."""
    expected = [pixels for pixels in whole.images if str(pixels[0, 0]) in kept.class_names]
    np.testing.assert_array_equal(kept.images, expected)
    shown = [str(pixels[0, 0]) for pixels in kept.images]
    assert [kept.class_names[label] for label in kept.labels] == shown
    assert set(kept.labels.tolist()) == set(range(len(kept.class_names)))


@pytest.mark.parametrize(("classes", "shown"), [("3", "'3'"), (None, "'all'")])
def test_one_class_is_not_enough(classes: str | None, shown: str) -> None:
    with pytest.raises(OptionError, match=shown):
        select(_dataset(1 if classes is None else 4), classes)


def _split(train: str, validation: str, test: str, data: str = "made") -> Split:
    parts = {"train": train, "validation": validation, "test": test}
    return Split(data, 0, (0.5, 0.2, 0.3), "identity", **{k: tuple(v) for k, v in parts.items()})


@given(st.data())
def test_a_split_keeps_its_three_parts_apart(data: st.DataObject) -> None:
    held_out: Literal["test", "all"] = data.draw(st.sampled_from(["test", "all"]))
    dataset = _dataset(data.draw(st.integers(6, 12), label="classes"), held_out)
    fractions = data.draw(st.sampled_from([(0.4, 0.3, 0.3), (0.5, 0.0, 0.5)]))
    seed = data.draw(st.integers(0, 99))
    try:
        split = make_split(dataset.class_names, fractions, seed=seed, data="made")
    except OptionError:
        return  # so few classes that a part would hold one
    selection = select(dataset, None, split)
    assert selection.split is split
    each = 2 if held_out == "test" else 5  # images of a class
    for part, names in (
        (selection.unseen, split.test),
        (selection.validation, split.validation),
    ):
        if part is None:
            assert names == ()
            continue
        assert set(part.class_names) == set(names)
        assert np.bincount(part.labels).tolist() == [each] * len(names)
        assert [str(pixels[0, 0]) for pixels in part.images] == [
            part.class_names[label] for label in part.labels
        ]
    assert set(selection.train.class_names) == set(split.train)
    _agrees(selection.train, dataset.train)
    _agrees(selection.test, dataset.test)


def test_splits_that_do_not_fit() -> None:
    with pytest.raises(OptionError, match="'0-1'"):
        select(_dataset(8), "0-1", _split("52", "", "61"))
    with pytest.raises(OptionError, match=r"'other'.*'made'"):
        select(_dataset(8), None, _split("52", "", "61", data="other"))
    with pytest.raises(OptionError, match=r"1 .*'made'.*'6'"):
        select(_dataset(6), None, _split("52", "", "61"))


def test_all_images_of_the_known_classes_can_be_trained_on() -> None:
    dataset = load_dataset("mnist-sample")
    chosen = select(dataset, "0-4", train_on="all")
    assert len(chosen.train) == 2500
    assert chosen.test is None
    assert chosen.unseen is not None
    assert len(chosen.unseen) == 500

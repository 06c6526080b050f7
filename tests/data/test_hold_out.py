import numpy as np
import pytest

from arcset.data import Dataset, ImageSet, select
from arcset.data.split import HoldOut, hold_out_split
from arcset.errors import OptionError

NAMES = tuple(f"{group}/{letter}" for group in "AB" for letter in "abcdefghij")


def dataset(counts: list[int] | None = None, **options: object) -> Dataset:
    labels = np.repeat(np.arange(20), counts or [3] * 20)
    images = np.zeros((len(labels), 2, 2), np.uint8)
    part = ImageSet(images, labels, NAMES)
    return Dataset("letters", part, None, "free", held_out="all", **options)  # type: ignore[arg-type]


def test_shares_hold_out_that_many_and_nobody_twice() -> None:
    split = hold_out_split(dataset(), {"validation": 0.1, "test": 0.2})
    assert (len(split.train), len(split.validation), len(split.test)) == (14, 2, 4)
    assert sorted((*split.train, *split.validation, *split.test)) == sorted(NAMES)
    assert split == hold_out_split(dataset(), {"validation": 0.1, "test": 0.2})


def test_identities_with_one_image_are_trained_on() -> None:
    counts = [1] * 14 + [2] * 6
    split = hold_out_split(dataset(counts), {"validation": 0.1, "test": 0.2})
    assert {*split.validation, *split.test} == set(NAMES[14:])


def test_identities_with_one_image_leave_too_few_to_hold_out() -> None:
    with pytest.raises(OptionError, match="1 of 20 identities, of which 1 have two images"):
        hold_out_split(dataset([1] * 19 + [2]), {"test": 0.34})


def test_patterns_name_whom_to_hold_out() -> None:
    split = hold_out_split(dataset(), {"validation": ["A/a", "A/b"], "test": ["B/[a-c]", "B/j"]})
    assert split.validation == ("A/a", "A/b")
    assert split.test == ("B/a", "B/b", "B/c", "B/j")
    assert split.by == "names"
    chosen = select(dataset(), None, split)
    assert chosen.unseen is not None
    assert chosen.unseen.class_names == split.test


def test_what_the_dataset_sets_apart_is_held_out_too() -> None:
    split = hold_out_split(dataset(apart={"test": ("A/a", "A/b")}), {"test": ["B/a"]})
    assert split.test == ("A/a", "A/b", "B/a")
    with pytest.raises(OptionError, match="'A/a'"):
        hold_out_split(dataset(apart={"test": ("A/a", "A/b")}), {"test": ["A/a"]})


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"test": 0.01}, "test = 0.01: .* 0 of 20 "),
        ({"validation": 0.05, "test": 0.2}, "validation = 0.05: .* 1 of 20 "),
        ({"test": 1.5}, r"test .*1\.5"),
        ({"tests": 0.1}, "'tests'"),
        ({"test": ["C/*"]}, r"'C/\*'"),
        ({"test": ["*"]}, "20 .*0 for train"),
    ],
)
def test_rules_that_do_not_fit_are_refused(rule: HoldOut, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        hold_out_split(dataset(), rule)

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcset.data import Dataset, ImageSet, Split, make_split, select
from arcset.data.split import HoldOut, hold_out_split
from arcset.errors import DataError, OptionError

LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
FRACTIONS = (0.7, 0.1, 0.2)  # where none are given
PARTS = ("train", "validation", "test")


def small() -> Split:
    return make_split(LETTERS, data="letters")


def changed(**changes: Any) -> dict[str, Any]:
    return {**small().json(), **changes}


@given(
    names=st.sets(st.text(min_size=1, max_size=4), min_size=30, max_size=34),
    seed=st.integers(0, 2**64),
    validation=st.sampled_from([0.0, 0.1, 0.25]),
    data=st.data(),
)
def test_every_class_is_in_one_part_and_the_order_of_the_names_does_not_matter(
    names: set[str], seed: int, validation: float, data: st.DataObject
) -> None:
    fractions = (0.6, validation, 0.4 - validation)
    split = make_split(names, fractions, seed=seed, data="d")
    members = [name for part in PARTS for name in getattr(split, part)]
    assert sorted(members) == sorted(names)
    assert all(list(getattr(split, part)) == sorted(getattr(split, part)) for part in PARTS)
    for part, share in zip(PARTS, fractions, strict=True):
        assert abs(len(getattr(split, part)) - share * len(names)) < 1
    assert bool(split.validation) == (validation > 0)
    shuffled = data.draw(st.permutations(sorted(names)))
    assert make_split(shuffled, fractions, seed=seed, data="d") == split


def test_the_draw_is_the_same_everywhere() -> None:
    """Frozen: a split that is drawn again next year must be this one."""
    split = make_split(LETTERS[:10], (0.6, 0.2, 0.2), seed=7, data="letters")
    assert (split.validation, split.test) == (("g", "h"), ("f", "j"))
    assert make_split(LETTERS, seed=1, data="letters") != make_split(LETTERS, data="letters")


def test_by_group_no_group_is_shared() -> None:
    names = [f"{group}/{member}" for group in LETTERS[:10] for member in range(1 + ord(group) % 5)]
    split = make_split(names, (0.6, 0.2, 0.2), data="groups", by="group")
    groups = [{name.split("/")[0] for name in getattr(split, part)} for part in PARTS]
    assert [len(part) for part in groups] == [6, 2, 2]
    assert set.union(*groups) == set(LETTERS[:10])
    assert sorted(split.train + split.validation + split.test) == sorted(names)
    with pytest.raises(OptionError, match="'lonely'"):
        make_split([*names, "lonely"], data="groups", by="group")


@pytest.mark.parametrize(
    ("names", "fractions", "message"),
    [
        ("abcdefghij", FRACTIONS, "1 for validation"),
        ("abcdefghij", (0.9, 0, 0.1), r"10 .*0\.9, 0, 0\.1 .*1 for test"),
        ("aabcdefghij", FRACTIONS, "'a'"),
        (LETTERS, (0.5, 0.2, 0.2), r"fractions .*0\.5, 0\.2, 0\.2"),
        (LETTERS, (float("nan"), 0.5, 0.5), "fractions"),
    ],
)
def test_what_does_not_fit_is_refused(names: Any, fractions: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_split(names, fractions, data="d")


def test_saved_and_loaded(tmp_path: Path) -> None:
    odd = ["Jiří", "a b", 'quo"te', "x/y", "no Unicode \udcff", *LETTERS]
    split = make_split(odd, (0.5, 0.2, 0.3), seed=3, data="odd")
    split.save(tmp_path / "made" / "split.json")
    assert Split.load(tmp_path / "made" / "split.json") == split
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["split.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "JSON"),
        ("[" * 100_000, "split"),
        (changed(version=2), "'version'"),
        ({}, "'data'"),
        (changed(test="ab"), "'test'"),
        (changed(fractions=[0.5, 0.6, 0.7]), "fractions"),
        (changed(train=["a", "b"], validation=[], test=["c", "a"]), "'a' .*train .*test"),
    ],
)
def test_files_that_are_no_split_are_named(tmp_path: Path, content: Any, message: str) -> None:
    path = tmp_path / "split.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DataError, match=message) as caught:
        Split.load(path)
    assert str(path) in str(caught.value)


def test_the_dataset_must_be_the_one_it_was_made_for() -> None:
    split = small()
    split.check("letters", [*LETTERS, "ä"])  # further classes do no harm: they appear nowhere
    with pytest.raises(OptionError, match=r"'letters'.*'mnist'"):
        split.check("mnist", LETTERS)
    with pytest.raises(OptionError, match=r"2 .*'letters'.*'[ab]'"):
        split.check("letters", LETTERS[2:])


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

"""Identities merged, renamed and removed, and what an earlier run keeps others from."""

import json
import re

import numpy as np
import pytest

from arcset import DataError, OptionError
from arcset.data import Dataset, ImageSet, Split, select
from arcset.data.mapping import ClassMapping
from arcset.runs.data import EarlierIdentities


def part(each: int) -> ImageSet:
    """Four identities; every pixel of an image is its place."""
    count = 4 * each
    pixels = np.repeat(np.arange(count, dtype=np.uint8), 4).reshape(count, 2, 2)
    paths = tuple(f"{row}.png" for row in range(count))
    return ImageSet(pixels, np.arange(count) % 4, ("ann", "ben", "ann 2", "cyd"), paths)


def dataset(**options: object) -> Dataset:
    return Dataset("people", part(3), part(2), "none", **options)


def written(tmp_path, text: str):
    place = tmp_path / "mapping.json"
    place.write_text(text)
    return place


def test_merging_and_removing_move_every_image(tmp_path) -> None:
    place = written(tmp_path, '{"ann 2": "ann", "ben": "", "cyd": null}')
    both = ClassMapping.load(place).apply(dataset())
    assert both.class_names == ("ann",)
    for found, before in ((both.train, part(3)), (both.test, part(2))):
        assert found is not None
        kept = np.flatnonzero(before.labels % 2 == 0)
        assert found.images[:, 0, 0].tolist() == kept.tolist()
        assert found.paths == tuple(f"{row}.png" for row in kept)
        assert found.labels.tolist() == [0] * len(kept)


@pytest.mark.parametrize(("text", "said"), [("{", "mapping.json"), ('{"a": 1}', "'a'")])
def test_what_is_no_mapping(tmp_path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=re.escape(said)):
        ClassMapping.load(written(tmp_path, text))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"ann 3": "ann"}, "'ann 3'"),
        ({"ann": "ben", "ben": "cyd"}, '"ann": "cyd"'),
        ({"ann": "ben", "ben": None}, '"ann": null'),
        (dict.fromkeys(("ann", "ben", "ann 2", "cyd")), "'people'"),
    ],
)
def test_what_cannot_be_meant(names: dict[str, str | None], said: str) -> None:
    with pytest.raises(OptionError, match=re.escape(said)):
        ClassMapping(names).apply(dataset())


def test_identities_that_the_data_sets_apart_stay_apart() -> None:
    apart = {"test": ("ann 2", "cyd")}
    found = ClassMapping({"ann 2": "cyd"}).apply(dataset(apart=apart))
    assert found.apart == {"test": ("cyd",)}
    with pytest.raises(OptionError, match=r"'ann 2' .*'ann'"):
        ClassMapping({"ann 2": "ann"}).apply(dataset(apart=apart))


def split(train: str, validation: str, test: str) -> Split:
    parts = [tuple(sorted(part)) for part in (train, validation, test)]
    return Split("letters", 0, (0.6, 0.2, 0.2), "names", *parts)


def test_a_split_gets_the_new_names() -> None:
    found = ClassMapping({"a": "A", "b": "A", "e": None}).split(split("abc", "", "defg"))
    assert (found.train, found.test) == (("A", "c"), ("d", "f", "g"))
    with pytest.raises(OptionError, match=r"'d' .*train .*test"):
        ClassMapping({"a": "d"}).split(split("abc", "", "defg"))


def test_nobody_that_an_earlier_run_knew_is_drawn_to_be_held_out() -> None:
    earlier = EarlierIdentities("old", frozenset("abg"), frozenset("cd"), frozenset("ef"))
    drawn = split("bcehij", "ak", "dgm")
    found = earlier.keep_parts(drawn, {"validation": 0.2, "test": 0.2})
    assert found.train == tuple("abghij")
    assert found.validation == tuple("cdk")
    assert found.test == tuple("em")
    assert json.dumps(found.json())


def test_one_left_for_validation_only_stays_unseen() -> None:
    found = EarlierIdentities("old", frozenset("ab")).keep_parts(
        split("cd", "ae", "fb"), {"test": 0.2}
    )
    assert (found.train, found.validation, found.test) == (tuple("abcd"), (), tuple("ef"))
    with pytest.raises(OptionError, match=r"1 .*test .*old"):
        EarlierIdentities("old", frozenset("abe")).keep_parts(
            split("cd", "ae", "fb"), {"test": 0.2}
        )


def test_holding_out_the_known_by_name_is_refused() -> None:
    people, earlier = dataset(), EarlierIdentities("old", frozenset({"cyd", "ann"}))
    named = Split("people", 0, (0.5, 0, 0.5), "names", ("ann", "ben"), (), ("ann 2", "cyd"))
    assert earlier.keep_parts(named, {"test": ("ann 2", "cyd")}).test == ("ann 2", "cyd")
    with pytest.raises(OptionError, match=r"1 .*old"):
        earlier.check(select(people, None, named))
    earlier.check(select(people, "ann,cyd"))

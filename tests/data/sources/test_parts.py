"""Which images are for testing, and who stays apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcset.data.sources.samples import apart_identities, for_testing


@pytest.mark.parametrize("count", range(1, 23))
def test_every_fifth_of_an_identity(count: int) -> None:
    testing = for_testing(["a"] * count, [f"a/{number}.png" for number in range(count)])
    assert testing.sum() == count // 5


@given(counts=st.lists(st.integers(1, 12), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_neither_order_nor_others_matter(counts: list[int], seed: int) -> None:
    names = [f"n{i}" for i, count in enumerate(counts) for _ in range(count)]
    paths = [f"{name}/{i}.png" for i, name in enumerate(names)]
    testing = dict(zip(paths, for_testing(names, paths), strict=True))
    order = np.random.default_rng(seed).permutation(len(names))
    again = for_testing([names[i] for i in order], [paths[i] for i in order])
    assert dict(zip([paths[i] for i in order], again, strict=True)) == testing
    first = [i for i, name in enumerate(names) if name == "n0"]
    alone = for_testing(["n0"] * len(first), [paths[i] for i in first])
    assert alone.tolist() == [testing[paths[i]] for i in first]


def test_rows_say_so() -> None:
    names = ["a", "a", "a", "a", "b", "b", "c", "c", "d"] + ["e"] * 5
    parts = ["train", "train", "validation", "test", "validation", "validation"]
    parts += ["validation", "test", "test"] + ["test"] * 5
    paths = [str(number) for number in range(len(names))]
    testing = for_testing(names, paths, parts)
    assert testing[:9].tolist() == [False, False, True, True] + [False] * 5
    assert testing[9:].sum() == 1  # of an identity apart every fifth, as without a table
    assert apart_identities(names, parts) == {"validation": ("b",), "test": ("c", "d", "e")}

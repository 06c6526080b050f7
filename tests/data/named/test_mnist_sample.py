import gzip
import os
import subprocess
import sys
import zlib
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from arcset.data import load_dataset
from support.datasets import FILES

TOOL = Path(__file__).parents[3] / "tools" / "make_mnist_sample.py"


def shipped(name: str) -> bytes:
    return (resources.files("arcset.data.named") / "mnist_sample" / name).read_bytes()


def test_every_digit_has_its_share() -> None:
    sample = load_dataset("mnist-sample")
    assert np.bincount(sample.train.labels).tolist() == [400] * 10
    assert np.bincount(sample.test.labels).tolist() == [100] * 10
    assert sample.train.images.shape[1:] == sample.test.images.shape[1:] == (28, 28)


def test_the_shipped_files_are_small_and_their_licence_stands_beside_them() -> None:
    assert sum(len(shipped(f"{file}.gz")) for file in FILES) < 1_000_000
    for note in ("README.md", "LICENSE"):
        text = shipped(note).decode()
        for words in ("CC BY-SA 3.0", "Yann LeCun", "Corinna Cortes", "Christopher J. C. Burges"):
            assert words in text


@pytest.mark.long
def test_the_tool_gives_the_shipped_files_again(full_mnist: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, str(TOOL), "--out", str(tmp_path)],
        env={**os.environ, "ARCSET_DATA": str(full_mnist.parent)},
        check=True,
        capture_output=True,
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{f}.gz" for f in FILES)
    for file in FILES:
        made = (tmp_path / f"{file}.gz").read_bytes()
        assert gzip.decompress(made) == gzip.decompress(shipped(f"{file}.gz"))
        if "ng" not in zlib.ZLIB_RUNTIME_VERSION:  # zlib-ng packs the same content differently
            assert made == shipped(f"{file}.gz")

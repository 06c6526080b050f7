"""`arcset data pack`, as a user types it."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from arcset.data import load_dataset
from arcset.data.dataset import LazyRows


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two people with six pictures each, of which one is broken, and a file that is no picture."""
    random = np.random.default_rng(0)
    for name in ("anna", "ben"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(6):
            pixels = random.integers(0, 256, (20, 30, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    (tmp_path / "photos" / "ben" / "3.png").write_bytes(b"broken")
    (tmp_path / "photos" / "readme.txt").write_text("my photos")
    return tmp_path / "photos"


def test_a_pack(arcset_command, photos):
    done = arcset_command("data", "pack", "photos", "--out", "p")
    assert done.code == 0
    for quoted in ("p: 11 images of 2 identities", "20×30"):
        assert quoted in done.out
    for quoted in (".txt", "ben/3.png"):
        assert quoted in done.err
    dataset = load_dataset("p")
    assert (len(dataset.train), dataset.name) == (9, "photos")
    assert isinstance(dataset.train.images, LazyRows)


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        (["--size", "16"], (16, 16, 3)),
        (["--size", "16x9"], (16, 9, 3)),
        (["--size", "16X9", "--channels", "1"], (16, 9)),
        (["--fit", "crop"], (20, 30, 3)),
    ],
)
def test_shapes(arcset_command, photos, options, shape):
    done = arcset_command("data", "pack", "photos", "--out", "p", "--json", *options)
    assert done.code == 0
    found = json.loads(done.out)
    assert (found["images"], found["identities"], found["training"]) == (11, 2, 9)
    assert found["skipped"] == [["ben/3.png", found["skipped"][0][1]]]
    assert found["bytes"] == sum(file.stat().st_size for file in Path("p").iterdir())
    dataset = load_dataset("p")
    assert dataset.train.images.shape[1:] == shape
    assert dataset.fit == found["reading"]["fit"] == ("crop" if "--fit" in options else "pad")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere"),
        (["photos/anna"], "'.'"),
        (["photos", "--size", "big"], "'big'"),
        (["photos", "--size", "0"], "height"),
        (["photos", "--channels", "2"], "1 or 3"),
        (["photos", "--fit", "zoom"], "'zoom'"),
    ],
)
def test_mistakes(arcset_command, photos, tmp_path, words, message):
    done = arcset_command("data", "pack", *words, "--out", "p")
    assert done.code == 2
    assert message in done.err.splitlines()[-1]
    assert "Traceback" not in done.err
    assert {file.name for file in tmp_path.iterdir()} == {"photos"}

import functools
import io
from pathlib import Path

import pytest
from PIL import Image

from arcset.data import load_dataset, locate, select
from arcset.errors import DataError

#: As many people and photos as the real set has.
COUNTS = {"Ben_Al-Two": 2, "Anna_One": 1, "Carl_Three": 3, "Dora_One": 1}
COUNTS |= {f"Person{number:03d}": 1 + (number < 78) for number in range(348)}


@functools.cache
def photo(number: int, side: int = 250, mode: str = "RGB") -> bytes:
    """A photo whose grey is its number × 20."""
    stream = io.BytesIO()
    Image.new("L", (side, side), 20 * number).convert(mode).save(stream, "JPEG")
    return stream.getvalue()


@pytest.fixture
def folder(cache: Path) -> Path:
    """352 people, of whom 80 have been photographed more than once."""
    for name, count in COUNTS.items():
        (cache / "lfw-sample" / name).mkdir(parents=True)
        for number in range(1, count + 1):
            (cache / "lfw-sample" / name / f"{name}_{number:04d}.jpg").write_bytes(photo(number))
    return cache / "lfw-sample"


def test_the_last_photo_of_whoever_has_two(folder: Path) -> None:
    (folder / "people.txt").write_text("a list")  # other files are passed over
    (folder / "Anna_One" / "Thumbs.db").write_text("a preview")
    (folder / "Anna_One" / "._Anna_One_0001.jpg").write_text("a shadow")
    (folder / ".git").mkdir()
    assert locate("lfw-sample") == str(folder)
    dataset = load_dataset("lfw-sample")
    assert dataset.class_names[:4] == ("Anna_One", "Ben_Al-Two", "Carl_Three", "Dora_One")
    assert dataset.train.images.shape == (353, 250, 250, 3)
    assert dataset.train.labels[:5].tolist() == [0, 1, 2, 2, 3]
    assert dataset.test.labels[:2].tolist() == [1, 2]
    assert (dataset.test.images[:2, 9, 9, 0] // 20).tolist() == [2, 3]
    unseen = select(dataset, "Ben_Al-Two,Dora_One").unseen
    assert unseen is not None
    assert unseen.labels[:4].tolist() == [0, 1, 1, 1]


def test_photos_that_do_not_fit(folder: Path) -> None:
    path = folder / "Anna_One" / "Anna_One_0001.jpg"
    path.write_bytes(photo(1, side=64))
    with pytest.raises(DataError, match=r"Anna_One_0001\.jpg .*64×64"):
        load_dataset("lfw-sample")
    path.write_bytes(photo(1))  # and a copy that broke off
    (folder / "Carl_Three" / "Carl_Three_0002.jpg").unlink()
    with pytest.raises(DataError, match=r"432 photos of 352 .*433 of 352"):
        load_dataset("lfw-sample")

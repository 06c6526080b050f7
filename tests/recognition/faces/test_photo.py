import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from arcset.data import Reading
from arcset.errors import DataError, InputError
from arcset.recognition.faces import read_photo

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 4, 3), np.uint8)


def file(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


@pytest.mark.parametrize("held", range(10))  # 0 and 9 mean nothing
def test_upright_whichever_way_the_camera_was_held(held: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = held
    content = file(Image.fromarray(PIXELS), exif=exif)
    found = read_photo(content)
    assert np.array_equal(found, Reading(3, *found.shape[:2], "stretch").read(content))
    assert found.shape == ((4, 6, 3) if 5 <= held <= 8 else (6, 4, 3))
    assert found.flags.c_contiguous


def test_a_path_bytes_an_image_and_an_array(tmp_path: Path) -> None:
    content = file(Image.fromarray(PIXELS))
    (tmp_path / "photo.png").write_bytes(content)
    for source in (
        tmp_path / "photo.png",
        str(tmp_path / "photo.png"),
        content,
        Image.fromarray(PIXELS),
        PIXELS,
    ):
        assert np.array_equal(read_photo(source), PIXELS)


def test_grey_and_transparent_photos_become_colours() -> None:
    grey = PIXELS[:, :, 0]
    for source in (grey, grey[:, :, None], file(Image.fromarray(grey))):
        assert np.array_equal(read_photo(source), np.repeat(grey[:, :, None], 3, 2))
    opaque = np.dstack((PIXELS, np.full((6, 4), 255, np.uint8)))
    assert np.array_equal(read_photo(opaque), PIXELS)
    deep = Image.fromarray(grey.astype(np.uint16) * 257)
    assert np.array_equal(read_photo(file(deep))[:, :, 0], grey)


def test_what_is_no_photo_is_named(tmp_path: Path) -> None:
    content = file(Image.fromarray(np.kron(PIXELS, np.ones((40, 40, 1), np.uint8))), "JPEG")
    (tmp_path / "cut.jpg").write_bytes(content[: len(content) // 2])
    (tmp_path / "words.jpg").write_text("no image")
    (tmp_path / "empty.jpg").touch()
    for name in ("cut", "words", "empty", "missing"):
        with pytest.raises(DataError, match=f"{name}.jpg"):
            read_photo(tmp_path / f"{name}.jpg")
    with pytest.raises(DataError, match="the photo"):
        read_photo(b"no image")
    for wrong in (np.zeros((3, 4)), np.zeros((0, 4), np.uint8), np.zeros((2, 3, 4, 3), np.uint8)):
        with pytest.raises(InputError, match="uint8"):
            read_photo(wrong)
    with pytest.raises(InputError, match="int"):
        read_photo(7)

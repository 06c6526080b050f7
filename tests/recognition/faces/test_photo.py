import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from arcset.errors import DataError, InputError
from arcset.recognition.faces import read_photo

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 4, 3), np.uint8)


def file(image: Image.Image, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG", **options)
    return stream.getvalue()


def test_every_kind_of_photo_comes_upright_in_colour_at_its_full_size(tmp_path: Path) -> None:
    content, grey = file(Image.fromarray(PIXELS)), PIXELS[:, :, 0]
    (tmp_path / "photo.png").write_bytes(content)
    name = tmp_path / "photo.png"
    for source in (name, str(name), content, Image.fromarray(PIXELS), PIXELS):
        assert np.array_equal(read_photo(source), PIXELS)
    for source in (grey, file(Image.fromarray(grey))):
        assert np.array_equal(read_photo(source), np.repeat(grey[:, :, None], 3, 2))
    exif = Image.Exif()
    exif[0x0112] = 6  # held so that it has to be turned right
    turned = read_photo(file(Image.fromarray(PIXELS), exif=exif))
    assert np.array_equal(turned, np.rot90(PIXELS, -1))
    for source, error, quoted in (
        (tmp_path / "missing.jpg", DataError, r"missing\.jpg"),
        (b"no image", DataError, "the photo"),
        (np.zeros((3, 4)), InputError, "uint8"),
        (7, InputError, "int"),
    ):
        with pytest.raises(error, match=quoted):
            read_photo(source)

"""A folder of pictures with something wrong in every way."""

from pathlib import Path

import pytest
from PIL import Image

from support.pictures import picture, save


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    """Two identities with six pictures each."""
    folder = tmp_path / "clean"
    for number, name in enumerate(("anna", "bert")):
        for place in range(6):
            save(picture(10 * number + place), folder / name / f"{place}.png")
    return folder


@pytest.fixture
def messy(clean: Path) -> Path:
    """The same, and with it whatever goes wrong."""
    folder = clean.rename(clean.parent / "messy")
    save(picture(0), folder / "bert" / "as anna 0.bmp")
    save(picture(1).convert("RGB"), folder / "carl" / "as anna 1.png")
    save(picture(1).convert("RGB"), folder / "dora" / "as anna 1.png")
    save(picture(2), folder / "anna" / "2 again.png")
    save(Image.new("L", (12, 16), 2), folder / "anna" / "black.png")
    save(Image.new("L", (12, 16), 2), folder / "bert" / "black.png")
    save(Image.new("RGB", (12, 16), (250, 120, 0)), folder / "bert" / "orange.png")
    save(picture(99, (40, 30)).convert("RGB"), folder / "dora" / "large.jpg")
    broken = save(picture(98), folder / "carl" / "broken.png")
    broken.write_bytes(broken.read_bytes()[:-60])
    (folder / "carl" / "text.jpg").write_text("no image")
    (folder / "emma").mkdir()
    (folder / "emma" / "empty.png").touch()
    (folder / "carl" / "notes.txt").write_text("no image either, and not called one")
    save(picture(97), folder / "stray.png")
    return folder

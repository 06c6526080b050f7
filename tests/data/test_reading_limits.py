"""Image files that are very large, damaged or none at all."""

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from arcset.data import Reading
from arcset.errors import DataError, InputError, OptionError
from support.image_files import COLOURS, GREY, RGB, saved


class TestLarge:
    """Photos far finer than needed are reduced in two steps, and hardly differ from one."""

    def test_bombs_are_refused_before_they_are_decoded(self) -> None:
        def chunk(name: bytes, content: bytes) -> bytes:
            checked = name + content
            return (
                struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))
            )

        for side, guarded in ((60_000, True), (13_378, False)):
            header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
            content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"")
            limit = Image.MAX_IMAGE_PIXELS
            try:
                if not guarded:
                    Image.MAX_IMAGE_PIXELS = None  # somebody switched PIL's own guard off
                with pytest.raises(DataError, match=r"huge\.png"):
                    GREY.read(content, "huge.png")
            finally:
                Image.MAX_IMAGE_PIXELS = limit

    def test_large_files_are_refused_unread(self, tmp_path: Path) -> None:
        file = tmp_path / "large.png"
        with file.open("wb") as sparse:
            sparse.truncate(268_435_457)
        with pytest.raises(DataError, match=r"large\.png .*268,435,457 bytes"):
            GREY.read(file)


class TestDamage:
    PHOTO = Image.fromarray(COLOURS).resize((40, 40))

    def test_files(self, tmp_path: Path) -> None:
        for name, content in {
            "cut.jpg": saved(self.PHOTO, "JPEG")[:-200],
            "empty.png": b"",
            "text.png": b"these are no pixels\n" * 20,
            "script.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n",
        }.items():
            (tmp_path / name).write_bytes(content)
            with pytest.raises(DataError, match=name) as raised:
                RGB.read(tmp_path / name)
            assert str(raised.value).startswith(str(tmp_path / name))
            assert "\n" not in str(raised.value)
            assert "0x" not in str(raised.value)

    def test_what_is_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"none\.png"):
            RGB.read(tmp_path / "none.png")
        with pytest.raises(DataError, match=str(tmp_path)):
            RGB.read(tmp_path)
        with pytest.raises(DataError, match=r"b\.png"):
            RGB.read("a\0b.png")

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
    def test_pipes_are_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.png")
        with pytest.raises(DataError, match=r"pipe\.png"):
            RGB.read(tmp_path / "pipe.png")

    @pytest.mark.parametrize(
        "kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "TGA", "JPEG2000", "ICO"]
    )
    @pytest.mark.filterwarnings("ignore")  # PIL's, about what it found
    def test_torn_and_flipped_bytes_never_crash(self, kind: str) -> None:
        whole = saved(self.PHOTO, kind)
        random = np.random.default_rng(5)
        for cut in random.integers(0, len(whole), 25).tolist():
            self._survives(whole[:cut])
        for _ in range(40):
            flipped = bytearray(whole)
            for at in random.integers(0, min(len(whole), 300), 4).tolist():
                flipped[at] = int(random.integers(0, 256))
            self._survives(bytes(flipped))

    def _survives(self, content: bytes) -> None:
        try:
            assert Reading(3, 8, 8).read(content, "torn").shape == (8, 8, 3)
        except DataError as error:
            if not str(error).startswith("torn"):
                raise

    def test_arrays_of_another_kind(self) -> None:
        for wrong in (
            np.zeros((4, 4), np.float32),
            np.zeros((4, 4, 2), np.uint8),
            np.zeros(4, np.uint8),
            np.zeros((0, 4), np.uint8),
        ):
            with pytest.raises(InputError, match="uint8"):
                GREY.read(wrong)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"channels": 2}, "channels.* 2"),
            ({"height": 0}, "height.* 0"),
            ({"width": 5000}, "width.* 5000"),
            ({"fit": "zoom"}, "fit.*pad, crop, stretch.*'zoom'"),
        ],
    )
    def test_readings_that_cannot_be(self, options: dict[str, object], words: str) -> None:
        with pytest.raises(OptionError, match=words):
            Reading(**{"channels": 1, "height": 4, "width": 4, **options})

"""Image files of every kind become arrays of one shape."""

import io
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from arcset.data import Reading
from arcset.data.decode_many import decode_many, in_chunks
from arcset.errors import DataError, InputError, OptionError
from support.image_files import COLOURS, FITS, GREY, RGB, SHADES, luma, saved


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "WEBP"])
def test_plain_colours(kind: str) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    content = saved(Image.fromarray(COLOURS), kind, **options)
    np.testing.assert_array_equal(RGB.read(content), COLOURS)
    np.testing.assert_array_equal(GREY.read(content), luma(COLOURS))


@pytest.mark.parametrize("kind", ["PPM", "TGA", "GIF", "JPEG2000"])
def test_plain_grey(kind: str) -> None:
    content = saved(Image.fromarray(SHADES), kind)
    np.testing.assert_array_equal(GREY.read(content), SHADES)
    np.testing.assert_array_equal(RGB.read(content), np.repeat(SHADES[..., None], 3, axis=2))


@pytest.mark.parametrize(("kind", "order"), [("PNG", "<u2"), ("TIFF", "<u2"), ("TIFF", ">u2")])
def test_sixteen_bits_lose_the_lower_eight(kind: str, order: str) -> None:
    deep = (np.arange(16, dtype=np.uint16).reshape(4, 4) * 4369).astype(order)
    np.testing.assert_array_equal(GREY.read(saved(Image.fromarray(deep), kind)), deep >> 8)


def test_floats() -> None:
    unit, byte = SHADES / np.float32(255), SHADES.astype(np.float32)
    for values in (unit, byte):
        content = saved(Image.fromarray(values.astype(np.float32)), "TIFF")
        np.testing.assert_array_equal(GREY.read(content), SHADES)
    for value in (-0.5, 256, np.nan):
        wrong = byte.copy()
        wrong[1, 1] = value
        with pytest.raises(DataError, match="depth"):
            GREY.read(saved(Image.fromarray(wrong), "TIFF"), "depth")


@pytest.mark.parametrize(("ink", "ground"), [(0, 255), (190, 255), (200, 0), (255, 0)])
def test_transparency_is_white_behind_dark_and_black_behind_bright(ink: int, ground: int) -> None:
    pixels = np.zeros((4, 4, 4), np.uint8)
    pixels[..., :3] = 7  # what is under full transparency does not matter
    pixels[0] = (ink, ink, ink, 255)
    pixels[1] = (ink, ink, ink, 51)  # a fifth
    grey = [ink, round(0.2 * ink + 0.8 * ground), ground, ground]
    for content in (
        saved(Image.fromarray(pixels), "PNG"),
        saved(Image.fromarray(pixels).convert("LA"), "PNG"),
    ):
        assert GREY.read(content)[:, 0].tolist() == pytest.approx(grey, abs=1)
        assert RGB.read(content)[:, 0, 2].tolist() == pytest.approx(grey, abs=1)
    np.testing.assert_array_equal(GREY.read(pixels), GREY.read(content))  # an array


@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
def test_animations_show_their_first_frame(kind: str) -> None:
    frames = [Image.new("L", (4, 4), shade) for shade in (40, 200, 250)]
    options = {"lossless": True} if kind == "WEBP" else {}
    content = saved(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    with Image.open(io.BytesIO(content)) as image:
        assert getattr(image, "n_frames", 1) == 3
    assert (GREY.read(content) == 40).all()


UPRIGHT = np.array([[10, 60, 110], [160, 210, 250]], np.uint8).repeat(8, 0).repeat(8, 1)
HELD: dict[int, Callable[[np.ndarray], np.ndarray]] = {  # how a camera held so sees what is upright
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.T,
    6: lambda a: np.rot90(a, 1),
    7: lambda a: np.rot90(a, 2).T,
    8: lambda a: np.rot90(a, -1),
}


@pytest.mark.parametrize(
    ("number", "kind"), [*((number, "JPEG") for number in HELD), (6, "PNG"), (6, "TIFF")]
)
def test_photos_are_turned_upright(number: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = number
    stored = Image.fromarray(np.ascontiguousarray(HELD[number](UPRIGHT)))
    content = saved(stored, kind, exif=exif, **({"quality": 100} if kind == "JPEG" else {}))
    found = Reading(1, 16, 24, fit="stretch").read(content)
    assert np.abs(found.astype(int) - UPRIGHT).max() <= 3


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_damaged_exif_does_not_matter() -> None:
    content = saved(Image.fromarray(UPRIGHT), "JPEG", quality=100, exif=b"Exif\0\0II*\0garbage")
    found = Reading(1, 16, 24).read(content)
    assert np.abs(found.astype(int) - UPRIGHT).max() <= 3


# Fitting into a shape.


WIDE = np.array([[0, 0, 100, 100, 200, 200]] * 2, np.uint8)  # 2×6


def test_pad_keeps_all_and_fills_with_the_border() -> None:
    found = Reading(1, 3, 3).read(WIDE)
    assert found.tolist() == [[100, 100, 100], [0, 100, 200], [100, 100, 100]]
    tall = Reading(1, 3, 3).read(np.ascontiguousarray(WIDE.T))
    assert tall.tolist() == found.T.tolist()


def test_crop_keeps_the_center() -> None:
    assert Reading(1, 2, 2, fit="crop").read(WIDE).tolist() == [[100, 100]] * 2
    assert Reading(1, 2, 4, fit="crop").read(WIDE).tolist() == [[0, 100, 100, 200]] * 2


@pytest.mark.parametrize("fit", FITS)
def test_invert_comes_last(fit: str) -> None:
    once = Reading(1, 3, 4, fit).read(WIDE)
    np.testing.assert_array_equal(Reading(1, 3, 4, fit, True).read(WIDE), 255 - once)


SIDES = st.integers(1, 60)


@given(
    colour=st.tuples(*[st.integers(0, 255)] * 3),
    size=st.tuples(SIDES, SIDES),
    asked=st.tuples(SIDES, SIDES),
    fit=st.sampled_from(FITS),
    channels=st.sampled_from([1, 3]),
)
def test_constant_images_stay_constant(
    colour: tuple[int, int, int],
    size: tuple[int, int],
    asked: tuple[int, int],
    fit: str,
    channels: int,
) -> None:
    reading = Reading(channels, *asked, fit=fit)
    found = reading.read(np.full((*size, 3), colour, np.uint8))
    assert found.shape == reading.shape
    assert found.dtype == np.uint8
    assert (found == (colour if channels == 3 else luma(np.array(colour)))).all()


def test_a_smaller_image_is_the_mean_of_what_it_covers() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (28 * 3, 28 * 5), np.uint8)
    blocks = pixels.reshape(28, 3, 28, 5).mean(axis=(1, 3))
    found = Reading(1, 28, 28, fit="stretch").read(pixels)
    assert np.abs(found - blocks).max() <= 1


def test_arrays_paths_and_images_are_read_alike(tmp_path: Path) -> None:
    photo = np.random.default_rng(7).integers(0, 256, (31, 45, 3), np.uint8)
    file = tmp_path / "photo.png"
    Image.fromarray(photo).save(file)
    reading = Reading(3, 12, 20)
    expected = reading.read(file)
    for source in (str(file), file.read_bytes(), Image.open(file), photo):
        np.testing.assert_array_equal(reading.read(source), expected)
    grey = photo[..., :1]
    np.testing.assert_array_equal(GREY.read(grey), GREY.read(grey[..., 0]))


@pytest.mark.parametrize("array", [np.zeros((4, 4)), np.zeros((4, 4, 2), np.uint8), np.zeros(0)])
def test_arrays_of_another_kind(array: np.ndarray) -> None:
    with pytest.raises(InputError, match="uint8"):
        GREY.read(array)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"channels": 2}, "channels.* 2"),
        ({"height": 0}, "height.* 0"),
        ({"width": 5000}, "width.* 5000"),
        ({"fit": "zoom"}, "fit.*pad, crop, stretch.*'zoom'"),
    ],
)
def test_readings_that_cannot_be(options: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Reading(**{"channels": 1, "height": 4, "width": 4, **options})


# Image files that are very large, damaged or none at all.


def test_bombs_are_refused_before_they_are_decoded() -> None:
    def chunk(name: bytes, content: bytes) -> bytes:
        checked = name + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    for side, guarded in ((60_000, True), (13_378, False)):
        header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
        content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"")
        limit = Image.MAX_IMAGE_PIXELS
        try:
            if not guarded:
                Image.MAX_IMAGE_PIXELS = None  # as a user may switch off PIL's own guard
            with pytest.raises(DataError, match=r"huge\.png"):
                GREY.read(content, "huge.png")
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def test_large_files_are_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "large.png"
    with file.open("wb") as sparse:
        sparse.truncate(268_435_457)
    with pytest.raises(DataError, match=r"large\.png .*268,435,457 bytes"):
        GREY.read(file)


PHOTO = Image.fromarray(COLOURS).resize((40, 40))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.jpg", saved(PHOTO, "JPEG")[:-200]),
        ("empty.png", b""),
        ("text.png", b"these are no pixels\n" * 20),
        ("script.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n"),
    ],
)
def test_files_that_are_no_images(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name) as raised:
        RGB.read(tmp_path / name)
    assert str(raised.value).startswith(str(tmp_path / name))
    assert "\n" not in str(raised.value)
    assert "0x" not in str(raised.value)


def test_what_is_no_file(tmp_path: Path) -> None:
    for path, name in (("none.png", "none.png"), ("", str(tmp_path)), ("a\0b.png", "b.png")):
        with pytest.raises(DataError, match=name):
            RGB.read(tmp_path / path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(DataError, match=r"pipe\.png"):
        RGB.read(tmp_path / "pipe.png")


@pytest.mark.parametrize(
    "kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "TGA", "JPEG2000", "ICO"]
)
@pytest.mark.filterwarnings("ignore")  # PIL's, about what it found
def test_torn_and_flipped_bytes_never_crash(kind: str) -> None:
    def survives(content: bytes) -> None:
        try:
            assert Reading(3, 8, 8).read(content, "torn").shape == (8, 8, 3)
        except DataError as error:
            if not str(error).startswith("torn"):
                raise

    whole = saved(PHOTO, kind)
    random = np.random.default_rng(5)
    for cut in random.integers(0, len(whole), 25).tolist():
        survives(whole[:cut])
    for _ in range(40):
        flipped = bytearray(whole)
        for at in random.integers(0, min(len(whole), 300), 4).tolist():
            flipped[at] = int(random.integers(0, 256))
        survives(bytes(flipped))


# Many images decoded by threads come in order, with the errors of those that cannot be.


def test_chunks_come_in_order_with_errors_in_place() -> None:
    def decode(number: int) -> str:
        if number == 3:
            raise DataError("3 is damaged")
        if number == 4:
            raise InputError("4 is no image")
        return str(number)

    found = list(decode_many(in_chunks(range(10), 4), decode))
    assert [len(chunk) for chunk in found] == [4, 4, 2]
    outcomes = [outcome for chunk in found for outcome in chunk]
    assert [number for number, _ in outcomes] == list(range(10))
    assert [type(outcome) for _, outcome in outcomes[2:6]] == [str, DataError, InputError, str]
    with pytest.raises(ZeroDivisionError):  # an error that is ours is not hidden
        list(decode_many([[1, 0]], lambda number: 1 / number))

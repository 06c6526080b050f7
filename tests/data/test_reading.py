"""Image files of every kind become arrays of one shape."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from arcset.data import Reading
from arcset.errors import DataError
from support.image_files import COLOURS, FITS, GREY, RGB, SHADES, luma, saved


class TestModes:
    @pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "WEBP"])
    def test_plain_colours(self, kind: str) -> None:
        content = saved(
            Image.fromarray(COLOURS), kind, **({"lossless": True} if kind == "WEBP" else {})
        )
        np.testing.assert_array_equal(RGB.read(content), COLOURS)
        np.testing.assert_array_equal(GREY.read(content), luma(COLOURS))

    @pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "TGA", "GIF", "JPEG2000"])
    def test_plain_grey(self, kind: str) -> None:
        content = saved(Image.fromarray(SHADES), kind)
        np.testing.assert_array_equal(GREY.read(content), SHADES)
        np.testing.assert_array_equal(RGB.read(content), np.repeat(SHADES[..., None], 3, axis=2))

    @pytest.mark.parametrize("kind", ["PNG", "TIFF"])
    @pytest.mark.parametrize("order", ["<u2", ">u2"])
    def test_sixteen_bits_lose_the_lower_eight(self, kind: str, order: str) -> None:
        deep = (np.arange(16, dtype=np.uint16).reshape(4, 4) * 4369).astype(order)
        image = Image.fromarray(deep)
        if kind == "PNG" and order == ">u2":
            np.testing.assert_array_equal(GREY.read(image), deep >> 8)
            return
        np.testing.assert_array_equal(GREY.read(saved(image, kind)), deep >> 8)

    def test_floats(self) -> None:
        unit, byte = SHADES / np.float32(255), SHADES.astype(np.float32)
        for values in (unit, byte):
            content = saved(Image.fromarray(values.astype(np.float32)), "TIFF")
            np.testing.assert_array_equal(GREY.read(content), SHADES)
        for value in (-0.5, 256, np.nan, np.inf):
            wrong = byte.copy()
            wrong[1, 1] = value
            with pytest.raises(DataError, match="depth"):
                GREY.read(saved(Image.fromarray(wrong), "TIFF"), "depth")

    @pytest.mark.parametrize(("ink", "ground"), [(0, 255), (190, 255), (200, 0), (255, 0)])
    def test_transparency_is_white_behind_dark_and_black_behind_bright(
        self, ink: int, ground: int
    ) -> None:
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

    @pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
    def test_animations_show_their_first_frame(self, kind: str) -> None:
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


class TestOrientation:
    @pytest.mark.parametrize(
        ("number", "kind"),
        [
            (number, kind)
            if kind == "JPEG" or number == 6
            else pytest.param(number, kind, marks=pytest.mark.long)
            for number in HELD
            for kind in ("PNG", "JPEG", "TIFF", "WEBP")
        ],
    )
    def test_upright(self, number: int, kind: str) -> None:
        exif = Image.Exif()
        exif[0x0112] = number
        stored = Image.fromarray(np.ascontiguousarray(HELD[number](UPRIGHT)))
        options = {"lossless": True} if kind == "WEBP" else {"quality": 100}
        content = saved(stored, kind, exif=exif, **(options if kind != "TIFF" else {}))
        found = Reading(1, 16, 24, fit="stretch").read(content)
        assert np.abs(found.astype(int) - UPRIGHT).max() <= 3

    @pytest.mark.filterwarnings("ignore:Corrupt EXIF")
    def test_damaged_exif_does_not_matter(self) -> None:
        content = saved(Image.fromarray(UPRIGHT), "JPEG", quality=100, exif=b"Exif\0\0II*\0garbage")
        found = Reading(1, 16, 24).read(content)
        assert np.abs(found.astype(int) - UPRIGHT).max() <= 3


class TestFit:
    WIDE = np.array([[0, 0, 100, 100, 200, 200]] * 2, np.uint8)  # 2×6

    def test_pad_keeps_all_and_fills_with_the_border(self) -> None:
        found = Reading(1, 3, 3).read(self.WIDE)
        assert found.tolist() == [[100, 100, 100], [0, 100, 200], [100, 100, 100]]
        tall = Reading(1, 3, 3).read(np.ascontiguousarray(self.WIDE.T))
        assert tall.tolist() == found.T.tolist()

    def test_crop_keeps_the_center(self) -> None:
        assert Reading(1, 2, 2, fit="crop").read(self.WIDE).tolist() == [[100, 100]] * 2
        assert Reading(1, 2, 4, fit="crop").read(self.WIDE).tolist() == [[0, 100, 100, 200]] * 2

    def test_invert_comes_last(self) -> None:
        for fit in FITS:
            once = Reading(1, 3, 4, fit).read(self.WIDE)
            np.testing.assert_array_equal(Reading(1, 3, 4, fit, True).read(self.WIDE), 255 - once)

    @given(
        colour=st.tuples(*[st.integers(0, 255)] * 3),
        height=st.integers(1, 60),
        width=st.integers(1, 60),
        asked=st.tuples(st.integers(1, 60), st.integers(1, 60)),
        fit=st.sampled_from(FITS),
        channels=st.sampled_from([1, 3]),
    )
    def test_constant_images_stay_constant(
        self,
        colour: tuple[int, int, int],
        height: int,
        width: int,
        asked: tuple[int, int],
        fit: str,
        channels: int,
    ) -> None:
        image = np.full((height, width, 3), colour, np.uint8)
        reading = Reading(channels, *asked, fit=fit)
        found = reading.read(image)
        assert found.shape == reading.shape
        assert found.dtype == np.uint8
        assert (found == (colour if channels == 3 else luma(np.array(colour)))).all()

    def test_a_smaller_image_is_the_mean_of_what_it_covers(self) -> None:
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
    for source in (str(file), file.read_bytes(), Image.open(file), photo, photo[:, :, :]):
        np.testing.assert_array_equal(reading.read(source), expected)
    grey = photo[..., :1]
    np.testing.assert_array_equal(GREY.read(grey), GREY.read(grey[..., 0]))

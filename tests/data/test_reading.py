"""Image files of every kind, whole and damaged, become arrays of one shape."""

import io
import os
import struct
import threading
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms

from arcset.data import Dataset, Reading, load_dataset
from arcset.data import opening as opening_module
from arcset.data.reading import FITS
from arcset.data.resizing import resized
from arcset.errors import DataError, InputError, OptionError

GREY, RGB = Reading(1, 4, 4), Reading(3, 4, 4)
SHADES = np.arange(16, dtype=np.uint8).reshape(4, 4) * 17  # 0, 17 … 255
COLOURS = np.random.default_rng(0).integers(0, 256, (4, 4, 3), np.uint8)


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def luma(rgb: np.ndarray) -> np.ndarray:
    """ITU-R 601, in the whole numbers that PIL uses."""
    weighted = rgb.astype(np.int64) @ np.array([19595, 38470, 7471])
    return ((weighted + 0x8000) >> 16).astype(np.uint8)


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

    def test_one_bit(self) -> None:
        content = saved(Image.fromarray(SHADES > 100), "PNG")
        with Image.open(io.BytesIO(content)) as image:
            assert image.mode == "1"
        np.testing.assert_array_equal(GREY.read(content), np.where(SHADES > 100, 255, 0))

    def test_palettes(self) -> None:
        image = Image.fromarray(COLOURS).quantize(16)
        content = saved(image, "PNG")
        np.testing.assert_array_equal(RGB.read(content), np.asarray(image.convert("RGB")))

    def test_palettes_with_transparency(self) -> None:
        image = Image.fromarray(np.array([[0, 1], [2, 1]], np.uint8), "L").copy()
        image.putpalette([200, 0, 0, 0, 100, 0, 0, 0, 50])
        assert image.mode == "P"
        content = saved(image, "PNG", transparency=1)
        white, red, blue = (255, 255, 255), (200, 0, 0), (0, 0, 50)
        assert Reading(3, 2, 2).read(content).tolist() == [
            [list(red), list(white)],
            [list(blue), list(white)],
        ]

    def test_a_transparent_colour_and_a_transparent_grey(self) -> None:
        colours = np.full((2, 2, 3), 60, np.uint8)
        colours[0, 0] = (1, 2, 3)
        content = saved(Image.fromarray(colours), "PNG", transparency=(1, 2, 3))
        assert Reading(3, 2, 2).read(content)[0, 0].tolist() == [255, 255, 255]
        content = saved(Image.fromarray(colours[..., 0]), "PNG", transparency=60)
        assert Reading(1, 2, 2).read(content).tolist() == [[1, 255], [255, 255]]

    def test_cmyk(self) -> None:
        inks = np.zeros((4, 4, 4), np.uint8)
        inks[..., 0], inks[0, :, 3] = 255, 255  # cyan, and black in the first row
        found = RGB.read(saved(Image.fromarray(inks, "CMYK"), "TIFF"))
        assert found[0, 0].tolist() == [0, 0, 0]
        assert found[1, 0].tolist() == [0, 255, 255]

    def test_ycbcr_and_hsv(self) -> None:
        for mode in ("YCbCr", "HSV"):
            image = Image.fromarray(COLOURS).convert(mode)
            expected = np.asarray(image.convert("RGB"))
            np.testing.assert_array_equal(RGB.read(image), expected)
            np.testing.assert_array_equal(GREY.read(image), luma(expected))
        content = saved(Image.fromarray(COLOURS).convert("YCbCr"), "TIFF")
        assert np.abs(RGB.read(content).astype(int) - COLOURS).max() <= 4

    def test_lab(self) -> None:
        srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
        image = ImageCms.profileToProfile(Image.fromarray(COLOURS), srgb, lab, outputMode="LAB")
        assert image is not None
        content = saved(image, "TIFF")
        with Image.open(io.BytesIO(content)) as again:
            assert again.mode == "LAB"
        assert np.abs(RGB.read(content).astype(int) - COLOURS).mean() < 4
        np.testing.assert_array_equal(GREY.read(content), luma(RGB.read(content)))

    @pytest.mark.parametrize("kind", ["PNG", "TIFF"])
    @pytest.mark.parametrize("order", ["<u2", ">u2"])
    def test_sixteen_bits_lose_the_lower_eight(self, kind: str, order: str) -> None:
        deep = (np.arange(16, dtype=np.uint16).reshape(4, 4) * 4369).astype(order)
        image = Image.fromarray(deep)
        if kind == "PNG" and order == ">u2":
            np.testing.assert_array_equal(GREY.read(image), deep >> 8)
            return
        np.testing.assert_array_equal(GREY.read(saved(image, kind)), deep >> 8)

    def test_eight_bits_in_sixteen_stay_as_they_are(self) -> None:
        image = Image.fromarray(SHADES.astype(np.uint16))
        np.testing.assert_array_equal(GREY.read(saved(image, "PNG")), SHADES)
        np.testing.assert_array_equal(GREY.read(Image.fromarray(SHADES.astype(np.int32))), SHADES)

    def test_thirty_two_bits(self) -> None:
        deep = SHADES.astype(np.int32) * 257
        np.testing.assert_array_equal(GREY.read(saved(Image.fromarray(deep), "TIFF")), SHADES)
        for wrong, span in ((deep - 1, "-1 to 65534"), (deep + 1, "1 to 65536")):
            with pytest.raises(DataError, match=f"scan.tif holds values from {span}, and only"):
                GREY.read(saved(Image.fromarray(wrong), "TIFF"), "scan.tif")

    def test_floats(self) -> None:
        unit, byte = SHADES / np.float32(255), SHADES.astype(np.float32)
        for values in (unit, byte):
            content = saved(Image.fromarray(values.astype(np.float32)), "TIFF")
            np.testing.assert_array_equal(GREY.read(content), SHADES)
        for value in (-0.5, 256, np.nan, np.inf):
            wrong = byte.copy()
            wrong[1, 1] = value
            with pytest.raises(DataError, match=r"depth holds floats from .* save it with 8 bits"):
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
            assert GREY.read(content)[:, 0].tolist() == grey
            assert RGB.read(content)[:, 0].tolist() == [[value] * 3 for value in grey]
        np.testing.assert_array_equal(GREY.read(pixels), GREY.read(content))  # an array

    def test_premultiplied_transparency(self) -> None:
        pixels = np.zeros((4, 4, 4), np.uint8)
        pixels[:2] = (100, 50, 20, 255)
        for mode in ("RGBa", "PA", "La"):
            image = Image.fromarray(pixels).convert("LA" if mode == "La" else "RGBA")
            if mode == "PA":
                image = Image.fromarray(pixels[..., :3]).quantize(8).convert("PA")
                image.putalpha(Image.fromarray(pixels[..., 3]))
            else:
                image = image.convert(mode)
            assert image.mode == mode
            found = RGB.read(image)
            assert (found[2:] == 255).all()
            grey = int(luma(np.array([100, 50, 20])))
            assert found[0, 0].tolist() == ([grey] * 3 if mode == "La" else [100, 50, 20])

    def test_all_transparent_is_white(self) -> None:
        assert (GREY.read(np.zeros((4, 4, 4), np.uint8)) == 255).all()

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
    @pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP"])
    @pytest.mark.parametrize("number", HELD)
    def test_upright(self, number: int, kind: str) -> None:
        exif = Image.Exif()
        exif[0x0112] = number
        stored = Image.fromarray(np.ascontiguousarray(HELD[number](UPRIGHT)))
        options = {"lossless": True} if kind == "WEBP" else {"quality": 100}
        content = saved(stored, kind, exif=exif, **(options if kind != "TIFF" else {}))
        found = Reading(1, 16, 24, fit="stretch").read(content)
        assert np.abs(found.astype(int) - UPRIGHT).max() <= 3

    def test_a_camera_held_upright_and_a_large_photo(self) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        wide = np.zeros((1500, 3000), np.uint8)
        wide[:, :1000] = 240  # seen left by the sensor, on top once it is upright
        content = saved(Image.fromarray(wide), "JPEG", exif=exif)
        found = Reading(1, 30, 15).read(content)
        assert (found[:9] > 230).all()
        assert (found[11:] < 10).all()

    @pytest.mark.parametrize("bad", [0, 9, 77])
    def test_nonsense_is_upright(self, bad: int) -> None:
        exif = Image.Exif()
        exif[0x0112] = bad
        content = saved(Image.fromarray(UPRIGHT), "PNG", exif=exif)
        np.testing.assert_array_equal(Reading(1, 16, 24).read(content), UPRIGHT)

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

    def test_the_border_is_that_of_each_channel(self) -> None:
        image = np.zeros((5, 15, 3), np.uint8)
        image[...] = (10, 20, 30)
        image[1:4, 2:13] = 255  # within the border
        found = Reading(3, 15, 15).read(image)
        assert found[0, 7].tolist() == found[14, 7].tolist() == [10, 20, 30]
        np.testing.assert_array_equal(found[5:10], image)

    def test_crop_keeps_the_center(self) -> None:
        assert Reading(1, 2, 2, fit="crop").read(self.WIDE).tolist() == [[100, 100]] * 2
        assert Reading(1, 2, 4, fit="crop").read(self.WIDE).tolist() == [[0, 100, 100, 200]] * 2

    def test_stretch_bends(self) -> None:
        assert Reading(1, 3, 3, fit="stretch").read(self.WIDE).tolist() == [[0, 100, 200]] * 3

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

    def test_the_same_size_is_the_same_image(self) -> None:
        for fit in FITS:
            np.testing.assert_array_equal(Reading(3, 4, 4, fit).read(COLOURS), COLOURS)


class TestLarge:
    """Photos far finer than needed are reduced in two steps, and hardly differ from one."""

    SMOOTH = resized(np.random.default_rng(3).integers(0, 256, (20, 30, 3), np.uint8), 2000, 3000)

    @pytest.mark.parametrize("fit", FITS)
    def test_png_as_in_one_step(self, fit: str) -> None:
        image = Image.fromarray(self.SMOOTH[..., 0])
        found = Reading(1, 28, 28, fit=fit).read(saved(image, "PNG", compress_level=1))
        inside = {"pad": (19, 28), "crop": (28, 28), "stretch": (28, 28)}[fit]
        pixels = self.SMOOTH[:, 500:2500, 0] if fit == "crop" else self.SMOOTH[..., 0]
        exact = resized(pixels, *inside)
        top = (28 - inside[0]) // 2
        difference = np.abs(found[top : top + inside[0]].astype(int) - exact)
        assert difference.max() <= 4  # although neighbours differ by up to 255
        assert difference.mean() < 1

    def test_jpeg_is_decoded_small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        content = saved(Image.fromarray(self.SMOOTH), "JPEG", quality=95)
        decoded = []
        load = Image.Image.load
        monkeypatch.setattr(
            Image.Image, "load", lambda image: decoded.append(image.size) or load(image)
        )
        found = Reading(3, 40, 60).read(content)
        assert max(size[0] for size in decoded) == 3000 // 4  # ≥ 8 times 60
        assert np.abs(found.astype(int) - resized(self.SMOOTH, 40, 60)).max() <= 3

    def test_a_line_of_a_million_pixels(self) -> None:
        image = np.zeros((1, 1_100_000), np.uint8)
        image[:, :550_000] = 200
        assert (
            Reading(1, 4, 4).read(image).tolist() == [[100] * 4, [200, 200, 0, 0]] + [[100] * 4] * 2
        )

    def test_bombs_are_refused_before_they_are_decoded(self) -> None:
        def chunk(name: bytes, content: bytes) -> bytes:
            checked = name + content
            return (
                struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))
            )

        for side, words in ((60_000, "decompression bomb"), (13_378, "megapixels are not read")):
            header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
            content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"")
            limit = Image.MAX_IMAGE_PIXELS
            try:
                if "bomb" not in words:
                    Image.MAX_IMAGE_PIXELS = None  # somebody switched PIL's own guard off
                with pytest.raises(DataError, match=rf"huge\.png .*{words}"):
                    GREY.read(content, "huge.png")
            finally:
                Image.MAX_IMAGE_PIXELS = limit

    def test_large_files_are_refused_unread(self, tmp_path: Path) -> None:
        file = tmp_path / "large.png"
        with file.open("wb") as sparse:
            sparse.truncate(opening_module.MOST_BYTES + 1)
        with pytest.raises(DataError, match=r"large\.png holds 268,435,457 bytes, and image files"):
            GREY.read(file)


class TestDamage:
    PHOTO = Image.fromarray(resized(COLOURS, 40, 40))

    def test_files(self, tmp_path: Path) -> None:
        contents = {
            "cut.jpg": saved(self.PHOTO, "JPEG")[:-200],
            "empty.png": b"",
            "text.png": b"these are no pixels\n" * 20,
            "script.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n",
        }
        words = {
            "cut.jpg": "[Tt]runcated",
            "empty.png": "is empty",
            "script.png": "cannot identify",
        }
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content)
            with pytest.raises(DataError, match=words.get(name, "cannot identify")) as raised:
                RGB.read(tmp_path / name)
            assert str(raised.value).startswith(str(tmp_path / name))
            assert "\n" not in str(raised.value)
            assert "0x" not in str(raised.value)

    def test_what_is_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"none\.png cannot be read: No such file"):
            RGB.read(tmp_path / "none.png")
        with pytest.raises(DataError, match="is no file"):
            RGB.read(tmp_path)
        with pytest.raises(DataError, match="cannot be read: embedded null"):
            RGB.read("a\0b.png")

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
    def test_pipes_are_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.png")
        with pytest.raises(DataError, match="is no file"):
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
            with pytest.raises(InputError, match="an image as an array is uint8"):
                GREY.read(wrong)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"channels": 2}, "1 or 3 channels, not 2"),
            ({"height": 0}, "1 to 4096 pixels a side, not 0×4"),
            ({"width": 5000}, "not 4×5000"),
            ({"fit": "zoom"}, "fit 'zoom' is unknown, expected one of: pad, crop, stretch"),
        ],
    )
    def test_readings_that_cannot_be(self, options: dict[str, object], words: str) -> None:
        with pytest.raises(OptionError, match=words):
            Reading(**{"channels": 1, "height": 4, "width": 4, **options})


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


def test_many_threads_read_alike() -> None:
    photos = [saved(Image.fromarray(resized(COLOURS, 50 + i, 60)), "PNG") for i in range(8)]
    expected = [RGB.read(photo) for photo in photos]
    found: dict[int, np.ndarray] = {}

    def read(number: int) -> None:
        found[number] = RGB.read(photos[number])

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, pixels in enumerate(expected):
        np.testing.assert_array_equal(found[number], pixels)


@pytest.fixture(scope="module")
def omniglot() -> Dataset:
    return load_dataset("omniglot")


@pytest.mark.parametrize("step", [40, pytest.param(1, marks=pytest.mark.long)])
def test_omniglot_is_read_from_its_drawings_exactly(
    step: int, at_hand: Callable[[str], Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    archive = at_hand("omniglot") / "images_background.zip"
    if not archive.is_file():
        pytest.skip(f"{archive} is not there")
    dataset = request.getfixturevalue("omniglot")
    assert dataset.test is not None
    drawers = {name: iter(range(1, 21)) for name in dataset.class_names}
    expected = {}  # by character and drawer: training images are the first sixteen, in order
    for part in (dataset.train, dataset.test):
        for label, image in zip(part.labels, part.images, strict=True):
            name = dataset.class_names[label]
            expected[name, next(drawers[name])] = image
    reading = Reading(1, 28, 28, invert=True)
    with zipfile.ZipFile(archive) as drawings:
        names = sorted(name for name in drawings.namelist() if name.endswith(".png"))[::step]
        for name in names:
            character, file = name.split("/", 1)[1].rsplit("/", 1)
            drawing = Path(drawings.extract(name, tmp_path))
            drawer = int(file.removesuffix(".png").split("_")[1])
            np.testing.assert_array_equal(
                reading.read(drawing), expected[character, drawer], err_msg=name
            )
    assert len(names) >= 400

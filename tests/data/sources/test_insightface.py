import contextlib
import math
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcset.errors import DataError
from support.datasets import list_samples
from support.recordio import MAGIC, head, image_payload, insightface_records, record, write_records

MAGICAL = b"abcd" + MAGIC + b"efgh" + MAGIC + MAGIC + b"ijk"  # cut where the magic is
IMAGES = [(7, b"\xff\xd8 one"), (7, b"\xff\xd8 two."), (0, MAGICAL), (3, b"\xff\xd8")]
NAMES = ["7", "7", "0", "3"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_records(tmp_path / "train.rec", insightface_records(IMAGES))
    return tmp_path


@pytest.mark.parametrize("index", [True, False])
def test_images_without_the_records_about_them(folder: Path, index: bool) -> None:
    if not index:  # the file is walked
        (folder / "train.idx").unlink()
    listing = list_samples(folder)
    assert (listing.kind, listing.path, len(listing)) == ("InsightFace records", folder, 4)
    assert list(listing.names) == NAMES
    assert list(listing.paths) == [f"train.rec#{key}" for key in (1, 2, 3, 4)]
    assert [listing.content(i) for i in range(4)] == [image for _, image in IMAGES]


@pytest.mark.parametrize("index", [True, False])
def test_records_that_are_all_images(tmp_path: Path, index: bool) -> None:
    # As when a set is shuffled: record 0 is an image, and the ids are those of before.
    records = [(i, image_payload(float(i % 2), b"image %d" % i, 10 - i)) for i in range(5)]
    write_records(tmp_path / "train.rec", records, index)
    listing = list_samples(tmp_path)
    order = range(5) if index else range(4, -1, -1)
    assert list(listing.names) == [str(i % 2) for i in order]
    assert [listing.content(i) for i in range(5)] == [b"image %d" % i for i in order]


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("behind", [b"image", b""])
def test_the_magic_within_a_header(tmp_path: Path, index: bool, behind: bytes) -> None:
    number = int.from_bytes(MAGIC, "little")  # as an id: the header itself is cut in two
    records = [(0, image_payload(5.0, MAGIC + b"x", 0)), (number, image_payload(6.0, b"y", number))]
    label = struct.unpack("<f", MAGIC)[0]
    payload = image_payload([4.0, label], behind, 8)
    write_records(tmp_path / "train.rec", [*records, (8, payload)], index)
    listing = list_samples(tmp_path)
    assert (tmp_path / "train.rec").read_bytes().count(MAGIC) == 6
    assert list(listing.names) == ["5", "4", "6"]
    assert (listing.content(0), listing.content(2)) == (MAGIC + b"x", b"y")
    if behind:
        assert listing.content(1) == behind
    else:
        with pytest.raises(DataError, match=r"record 8 .*train\.rec"):
            listing.content(1)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def damage(path: Path, place: int, content: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[place : place + len(content)] = content
    path.write_bytes(bytes(whole))


# Record 1 holds 8 + 24 + 8 + 6 bytes and 2 more up to a multiple of four: record 2 is at 48.
@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda rec: cut(rec, 216), "record 0 .*byte 216"),
        (lambda rec: cut(rec, 370), "record 7 .*byte 336"),
        (lambda rec: cut(rec, 0), "empty"),
        (lambda rec: damage(rec, 48, b"\0"), "record 2 .*byte 48"),
        (lambda rec: damage(rec, 4, head(5, 38)[4:]), "record 1 .*byte 0"),
        (lambda rec: damage(rec, 4, head(0, 20)[4:]), "record 1 .*20"),
        (lambda rec: damage(rec, 8, b"\xff" * 4), "record 1 .*4,294,967,295 labels"),
        (lambda rec: damage(rec, 32, struct.pack("<f", math.nan)), "label nan"),
    ],
)
def test_damage_is_named(folder: Path, harm: Callable[[Path], None], message: str) -> None:
    harm(folder / "train.rec")
    with pytest.raises(DataError, match=message) as caught:
        list_samples(folder)
    assert str(folder / "train.rec") in str(caught.value)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("", r"train\.idx"),
        ("1\t0\t0\n", r"train\.idx"),
        ("a\t0\n", r"train\.idx"),
        ("1\t2\n", "record 1 .*byte 2"),
        (f"1\t{2**63 - 1}\n", "record 1 .*byte 9,223"),
    ],
)
def test_a_damaged_index(folder: Path, index: str, message: str) -> None:
    (folder / "train.idx").write_text(index)
    with pytest.raises(DataError, match=message):
        list_samples(folder)


@pytest.mark.parametrize("past", [0.0, 2.5, -3.0, math.inf])
def test_a_record_0_that_announces_nonsense(tmp_path: Path, past: float) -> None:
    write_records(tmp_path / "train.rec", [(0, image_payload([past, 9.0], b"", 0))])
    with pytest.raises(DataError, match=r"record 0 .*train\.rec"):
        list_samples(tmp_path)


SMALL = b"".join(record(payload) for _, payload in insightface_records(IMAGES))


@given(index=st.booleans(), data=st.data())
def test_damage_anywhere_is_one_kind_of_error(
    tmp_path_factory: pytest.TempPathFactory, index: bool, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    write_records(folder / "train.rec", insightface_records(IMAGES), index)
    content = bytearray(SMALL)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    (folder / "train.rec").write_bytes(bytes(content))
    with contextlib.suppress(DataError):  # some changes do no harm; any other error is one
        listing = list_samples(folder)
        for i in range(len(listing)):
            assert isinstance(listing.content(i), bytes)

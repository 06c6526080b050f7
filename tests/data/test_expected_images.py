import contextlib
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from arcset.data.image import decode_expected
from arcset.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 3), np.uint8)
KINDS: dict[str, dict[str, Any]] = {
    "PNG": {"kind": "PNG", "mode": "1", "size": (6, 5)},
    "PPM": {"kind": "PPM", "mode": "L", "size": (6, 5)},
    "JPEG": {"kind": "JPEG", "mode": "RGB", "size": (6, 5)},
}


def encoded(kind: str, mode: str, size: tuple[int, int] = (6, 5)) -> bytes:
    image = Image.fromarray(PIXELS).resize(size[::-1]).convert(mode)
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def test_pixels_come_back() -> None:
    grey = np.array(Image.fromarray(PIXELS).convert("L"))
    np.testing.assert_array_equal(
        decode_expected(encoded("PPM", "L"), source="x", **KINDS["PPM"]), grey
    )
    bits = np.array(Image.fromarray(PIXELS).convert("1"))
    decoded = decode_expected(encoded("PNG", "1"), source="x", **KINDS["PNG"])
    assert (decoded.dtype, decoded.max()) == (np.uint8, 1)
    np.testing.assert_array_equal(decoded, bits)
    assert decode_expected(encoded("JPEG", "RGB"), source="x", **KINDS["JPEG"]).shape == (6, 5, 3)


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (encoded("PNG", "1", (5, 6)), "PNG", "5×6 .*6×5"),
        (encoded("PNG", "L"), "PNG", "type L.*type 1"),
        (encoded("PPM", "RGB"), "PPM", "type RGB"),
        (encoded("PPM", "L"), "PNG", ""),
        (encoded("JPEG", "RGB")[:-40], "JPEG", ""),
        (encoded("PPM", "L")[:-1], "PPM", ""),
        (b"", "PNG", ""),
    ],
)
def test_anything_else_is_refused(content: bytes, kind: str, message: str) -> None:
    with pytest.raises(DataError, match=f"^x .*{message}"):
        decode_expected(content, source="x", **KINDS[kind])


@given(kind=st.sampled_from(sorted(KINDS)), data=st.data())
def test_damage_anywhere_is_one_kind_of_error(kind: str, data: st.DataObject) -> None:
    content = bytearray(encoded(kind, KINDS[kind]["mode"]))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    with contextlib.suppress(DataError):  # some changes do no harm; any other error is one
        decode_expected(bytes(content), source="x", **KINDS[kind])

"""Verification files (.bin): pickles of which nothing is run and no more is held than they hold."""

import contextlib
import os
import pickle
import pickletools
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcset.errors import DataError
from support.datasets import read_pairs

LONG = pytest.mark.long
PROTOCOLS = range(6)
IMAGES = [bytes(range(256)), b'\xff\xd8 it\'s "two"\\\n\r\0', b"", b"\x80" * 300, *[b"same"] * 2]
SAME = [True, False, True]


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "lfw.bin"
    path.write_bytes(content)
    return path


def arrays(shape: Callable[[int], tuple[int, ...]]) -> list[Any]:
    return [np.frombuffer(image, np.uint8).reshape(shape(len(image))) for image in IMAGES]


FORMS: dict[str, tuple[Any, Any]] = {
    "lists": (IMAGES, SAME),
    "numbers": (IMAGES, [1, 0, 1]),
    "arrays": (arrays(lambda n: (n,)), SAME),
    "columns": ([array.copy() for array in arrays(lambda n: (n, 1))], SAME),
    "Fortran": ([np.asfortranarray(array) for array in arrays(lambda n: (1, n))], SAME),
    "numpy bools": (IMAGES, [np.bool_(value) for value in SAME]),
    "an array of bools": (IMAGES, np.array(SAME)),
    "an array of bytes": (IMAGES, np.array(SAME, np.uint8)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("protocol", [2, 4, *(pytest.param(p, marks=LONG) for p in (0, 1, 3, 5))])
def test_what_python_3_writes(tmp_path: Path, form: str, protocol: int) -> None:
    content = pickle.dumps(FORMS[form], protocol)
    assert read_pairs(written(tmp_path, content)) == (IMAGES, SAME)
    # The names that numpy 1 had.
    older = content.replace(b"numpy._core.", b"numpy.core.")
    if older == content or protocol < 4:  # later protocols count the bytes of names
        assert read_pairs(written(tmp_path, older)) == (IMAGES, SAME)


def quoted(image: bytes) -> bytes:
    """As Python 2's repr."""
    return repr(image).encode()[1:]


PYTHON_2 = {
    0: b"((lp0\n"
    + b"".join(b"S%s\np%d\na" % (quoted(image), i) for i, image in enumerate(IMAGES, 1))
    + b"(lp9\nI01\naI00\naI01\natp10\n.",
    2: b"\x80\x02]q\x00("
    + b"".join(
        (b"U%c" % len(image) if len(image) < 256 else b"T" + len(image).to_bytes(4, "little"))
        + image
        for image in IMAGES
    )
    + b"e]q\x01(\x88\x89\x88e\x86q\x02.",
}


@pytest.mark.parametrize("protocol", PYTHON_2)
def test_what_python_2_writes(tmp_path: Path, protocol: int) -> None:
    content = PYTHON_2[protocol]
    assert pickle.loads(content, encoding="bytes") == (IMAGES, SAME)  # it is what it should be
    assert read_pairs(written(tmp_path, content)) == (IMAGES, SAME)


def refused(path: Path, quoted: str = "") -> None:
    """It is no verification file, and the error names it."""
    with pytest.raises(DataError) as caught:
        read_pairs(path)
    assert str(path) in str(caught.value)
    assert quoted in str(caught.value)
    assert "\n" not in str(caught.value)


class Calls:
    """Pickles as a call of `function` with `arguments`."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.how = function, arguments

    def __reduce__(self) -> Any:
        return self.how


def test_a_shell_command_is_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    evil = Calls(os.system, f"touch {mark}")
    pickle.loads(pickle.dumps(evil))
    assert mark.exists()  # it would do harm
    mark.unlink()
    for protocol in PROTOCOLS:
        for shape in ((IMAGES, SAME, evil), ([evil] * 2, [True]), (IMAGES, evil), evil):
            refused(written(tmp_path, pickle.dumps(shape, protocol)), "posix.system")
    assert not mark.exists()


#: What pickles hold that are no images and answers.
OTHER = [
    {},
    (IMAGES, SAME, SAME),
    (b"image", SAME),
    (IMAGES, None),
    ([*IMAGES[:-1], "text"], SAME),
    ([*IMAGES[:-1], np.zeros((8, 8), np.uint8)], SAME),
    (IMAGES, [True, False, 2]),
    (IMAGES[:-1], SAME),
    ([], []),
]


@pytest.mark.parametrize("protocol", [2, *(pytest.param(p, marks=LONG) for p in (0, 5))])
def test_other_data(tmp_path: Path, protocol: int) -> None:
    for value in OTHER:
        refused(written(tmp_path, pickle.dumps(value, protocol)))


def state(shape: bytes, elements: bytes = b"C\4abcd") -> bytes:
    """An array of bytes in protocol 4 with this shape, as commands."""
    kind = b"cnumpy\ndtype\n\x8c\2u1\x85R"
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85C\1btR"
    return b"\x80\4](" + empty + b"(K\1(" + shape + b"t" + kind + b"\x89" + elements + b"tbe."


@pytest.mark.parametrize(
    "shape",
    [
        b"\x8a\x08" + b"\xff" * 7 + b"\x7f",  # far more than there is memory for
        b"K\3",
        *(pytest.param(shape, marks=LONG) for shape in (b"K\4K\4", b"J\xff\xff\xff\xff", b"N")),
    ],
)
def test_arrays_whose_shape_is_wrong(tmp_path: Path, shape: bytes) -> None:
    refused(written(tmp_path, state(shape)))


def again(count: int) -> bytes:
    """One text, made into bytes again and again."""
    text = b"X" + (100_000).to_bytes(4, "little") + b"a" * 100_000 + b"q\0X\6\0\0\0latin1q\1"
    return b"\x80\2" + text + b"c_codecs\nencode\nq\2](" + b"h\2h\0h\1\x86R" * count + b"e."


def laughs(levels: int) -> bytes:
    """A list that holds 50 times a list that holds 50 times …"""
    lists = (b"]q%c(" % i + b"h%c" % (i - 1) * 50 + b"e" for i in range(1, levels))
    return b"(]q\0" + b"".join(lists) + b"l."


BOMBS = {
    "a length": b"\x80\x04\x8e" + (2**62).to_bytes(8, "little") + b"a",
    "a bytearray's length": b"\x80\x05\x96" + (2**62).to_bytes(8, "little") + b"a",
    "a text's length": b"\x80\x04\x8d" + (2**62).to_bytes(8, "little") + b"a",
    "an integer's length": b"\x80\x02\x8b\xff\xff\xff\x7fa",
    "a place in the memo": b"]r\xff\xff\xff\xff.",
    "lists of lists of lists": laughs(99),
    "nesting": b"(" * 40_000 + b"t" * 40_000 + b".",
    "one text again and again": again(10_000),
    "a key of pairs of pairs": b"}K\1" + b"2\x86" * 60 + b"Ns.",
    "a set of pairs of pairs": b"\x80\4(K\1" + b"2\x86" * 60 + b"\x91.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_memory_is_bounded(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, BOMBS[name])
    tracemalloc.start()
    try:
        refused(path)
        assert tracemalloc.get_traced_memory()[1] < 300 * len(BOMBS[name]) + (16 << 20)
    finally:
        tracemalloc.stop()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    refused(tmp_path / "none.bin")
    refused(tmp_path)
    huge = tmp_path / "huge.bin"
    with huge.open("wb") as file:
        file.truncate(1 << 33)  # a sparse file: it takes no room
    refused(huge, f"{1 << 33:,} bytes")


@given(protocol=st.sampled_from(PROTOCOLS), form=st.sampled_from(sorted(FORMS)), data=st.data())
def test_damage_anywhere_is_one_kind_of_error(
    tmp_path_factory: pytest.TempPathFactory, protocol: int, form: str, data: st.DataObject
) -> None:
    content = bytearray(pickletools.optimize(pickle.dumps(FORMS[form], protocol)))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    folder = tmp_path_factory.mktemp("damaged")
    with contextlib.suppress(DataError):  # some changes do no harm; any other error is one
        read_pairs(written(folder, bytes(content)))


def call(name: bytes, arguments: bytes) -> bytes:
    """A call in protocol 2, with the arguments as commands."""
    return b"\x80\x02c" + name + b"\n(" + arguments + b"tR."


#: 2⁴⁰, as a command.
GIANT = b"\x8a\x06" + (1 << 40).to_bytes(6, "little")

#: Commands by which a pickle asks for objects, code, registered extensions, or more than it holds.
HAND_WRITTEN = [
    b"cos\nsystem\n.",
    b"(S'ls'\nios\nsystem\n.",
    b"(cos\nsystem\nS'ls'\no.",
    b"\x80\x02cbuiltins\nobject\n)\x81.",
    b"\x80\x02\x82\x01.",
    b"Pid\n.",
    b"\x80\x05\x97.",
    call(b"__builtin__\nbytes", b"K\x7f"),
    call(b"__builtin__\nbytes", GIANT),
    call(b"_codecs\nencode", b"X\1\0\0\0aX\3\0\0\0hex"),
    call(b"numpy\ndtype", b"X\2\0\0\0O8"),
    call(b"numpy\nndarray", GIANT),
    call(b"numpy.core.multiarray\n_reconstruct", b"cnumpy\nndarray\n" + GIANT + b"\x85C\1b"),
    call(
        b"numpy.core.numeric\n_frombuffer",
        b"C\4abcdcnumpy\ndtype\nX\2\0\0\0u1\x85R" + GIANT + b"\x85X\1\0\0\0C",
    ),
    b"\x80\x02c_codecs\nencode\nN}X\x0c\0\0\0__defaults__)s\x86b.",
    b"\x80\x02c_codecs\nencode\n)b.",
    b"\x80\x02]K\x01b.",
    b"\xff",
    b"",
]


@pytest.mark.parametrize("content", HAND_WRITTEN, ids=repr)
def test_what_no_program_writes(tmp_path: Path, content: bytes) -> None:
    refused(written(tmp_path, content))

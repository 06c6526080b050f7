import errno
import os
import stat
import zlib

import pytest

from arcset import DataError, OptionError
from arcset.files import (
    parse_json,
    parse_toml,
    reading,
    replacing,
    replacing_folder,
    write_bytes,
    write_text,
)


def test_writes_into_new_folders(tmp_path):
    write_text(tmp_path / "new" / "a.txt", "θ")
    assert (tmp_path / "new" / "a.txt").read_bytes() == "θ".encode()


def test_failure_keeps_what_was_there_and_leaves_nothing_beside(tmp_path):
    path = tmp_path / "a.bin"
    write_bytes(path, b"old")

    def interrupted():
        with replacing(path) as part:
            part.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.bin"]


def test_files_are_readable_by_others_as_usual(tmp_path):
    write_text(tmp_path / "a.txt", "x")
    plain = tmp_path / "b.txt"
    plain.write_text("x")
    mode = stat.S_IMODE((tmp_path / "a.txt").stat().st_mode)
    assert mode == stat.S_IMODE(plain.stat().st_mode)


def fails(path, make):
    """What is raised where the block that writes `path` raises `make(part)`."""

    def write():
        with replacing(path) as part:
            part.write_bytes(b"half")
            raise make(part)

    with pytest.raises((OSError, OptionError)) as caught:
        write()
    assert list(path.parent.iterdir()) == []
    return caught.value


def test_errors_name_the_file_and_not_its_part(tmp_path):
    path = tmp_path / "a.bin"
    full = os.strerror(errno.ENOSPC)
    for make in (
        lambda part: OSError(errno.ENOSPC, full),  # as a failed write says it
        lambda part: OSError(errno.ENOSPC, full, str(part)),
        lambda part: OSError(errno.ENOSPC, f"{full}: {part}"),
    ):
        found = fails(path, make)
        assert (found.errno, found.filename) == (errno.ENOSPC, str(path))
        assert ".part" not in str(found)
    found = fails(path, lambda part: OptionError(f"{part} gives no embedding"))
    assert str(found) == f"{path} gives no embedding"
    found = fails(path, lambda part: FileNotFoundError(errno.ENOENT, "gone", "/other"))
    assert found.filename == "/other"


def test_a_place_where_nothing_can_be_written_is_named(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"a{250}'$"):  # with the part's ending it is too long
        write_text(tmp_path / ("a" * 250), "x")
    with pytest.raises(IsADirectoryError, match=r"folder'$"):
        write_text(tmp_path / "folder", "x")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


DEEP = 100_000


@pytest.mark.parametrize("text", ["[" * DEEP, '{"a":' * DEEP, "9" * 5000, "{", b"\xff\xff"])
def test_json_is_read_or_a_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * DEEP, "a" + ".a" * 3000 + " = 1", "a = 9" + "9" * 5000, "="],
    ids=lambda text: text[:12],
)
def test_toml_is_read_or_a_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        parse_toml(text)


def test_whatever_a_library_raises_at_a_file_is_one_sentence(tmp_path):
    path = tmp_path / "a.npz"
    for error in (zlib.error("bad\n data"), NotImplementedError(), MemoryError(), KeyError("x")):
        with pytest.raises(DataError) as caught, reading(path, "npz file"):
            raise error
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(OptionError, match="ours"), reading(path, "npz file"):
        raise OptionError("ours")
    with pytest.raises(KeyboardInterrupt), reading(path, "npz file"):
        raise KeyboardInterrupt


def test_a_folder_takes_its_place_whole_or_not_at_all(tmp_path):
    path = tmp_path / "made"
    with replacing_folder(path) as part:
        (part / "below").mkdir()
        (part / "below" / "one.txt").write_text("one")
        assert not path.exists()
    with pytest.raises(IsADirectoryError), replacing_folder(path) as part:
        part.write_text("a folder is no file")
    assert [file.name for file in path.rglob("*")] == ["below", "one.txt"]
    with replacing_folder(path) as part:
        (part / "three.txt").write_text("three")
    assert [file.name for file in path.rglob("*")] == ["three.txt"]
    assert list(tmp_path.iterdir()) == [path]

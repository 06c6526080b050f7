import stat

import pytest

from arcset.files import replacing, write_bytes, write_text


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

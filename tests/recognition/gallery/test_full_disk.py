"""A full disk: nothing is half done, and the message says what is true."""

import io
import resource
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

from arcset import DataError, Gallery
from arcset.cli import main
from support.disks import leave, small_disk
from support.galleries import Projection, bytes_of, check_kept, unit

NAMES = [f"subject {number}" for number in range(400)]


@pytest.fixture
def full(tmp_path):
    """A gallery whose log is not in its file yet, on a disk without room for both.

    Changes are committed to the log, which still fits; the file itself cannot grow.
    """
    with (
        small_disk(tmp_path / "disk", "2m") as disk,
        Gallery.open(disk / "people.db", dim=64) as gallery,
    ):
        gallery.enroll_many(NAMES, embeddings=unit(400, 64))
        leave(disk, 48_000)
        yield gallery


CHANGES = {
    "remove": lambda gallery: gallery.remove("subject 7"),
    "remove_sample": lambda gallery: gallery.remove_sample(8),
    "rename": lambda gallery: gallery.rename("subject 7", "renamed"),
    "merge": lambda gallery: gallery.merge("subject 7", "subject 8"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_was_made_is_said_to_be_made(full, change):
    with pytest.raises(DataError) as caught:
        CHANGES[change](full)
    assert "subject 7" not in full
    message = str(caught.value)
    assert ("sample 8" if change == "remove_sample" else "'subject 7'") in message
    assert f"arcset gallery compact {full.path}" in message
    assert "nothing was changed" not in message
    assert "not made" not in message
    assert "\n" not in message


def test_the_command_in_the_message_overwrites_the_bytes(full, capsys):
    row = unit(400, 64)[7].tobytes()
    with pytest.raises(DataError):
        full.remove("subject 7")
    assert row in bytes_of(full.path)
    (full.path.parent / "others").unlink()
    with pytest.raises(SystemExit) as stopped:
        main(["gallery", "compact", str(full.path)])
    assert not stopped.value.code
    assert str(full.path) in capsys.readouterr().out
    assert row not in bytes_of(full.path)
    assert len(full) == 399


def test_a_change_that_was_not_made_is_said_not_to_be_made(full):
    leave(full.path.parent, 0)
    with pytest.raises(DataError, match=r"people\.db.*nothing was changed"):
        full.remove("subject 7")
    assert "subject 7" in full


def test_many_samples_of_which_the_first_were_enrolled(full):
    rows = unit(10_000, 64)
    (full.path.parent / "others").unlink()
    leave(full.path.parent, 1_500_000)
    with pytest.raises(DataError, match=r"4,096 of 10,000.*people\.db"):
        full.enroll_many(["many"] * 10_000, embeddings=rows)
    assert full.sample_count == 400 + 4096


def test_compacting_without_room_leaves_the_gallery_as_it_was(full):
    with pytest.raises(DataError, match=r"people\.db"):
        full.compact()
    assert [one.name for one in full.subjects()] == NAMES


def test_a_gallery_that_was_moved_to_another_model_belongs_to_it(tmp_path):
    before, after = Projection(seed=1, dim=64), Projection(seed=2, dim=64)
    with (
        small_disk(tmp_path / "disk", "2m") as disk,
        Gallery.open(disk / "people.db", before, keep_images=True) as gallery,
    ):
        gallery.enroll_many(NAMES, [picture(number) for number in range(400)])
        leave(disk, 220_000)
        with pytest.raises(DataError, match=r"people\.db.*'projection-2'.*gallery compact"):
            gallery.migrate(after)
        assert gallery.identify(picture(3), threshold=0.9).subject == "subject 3"
        assert gallery.model_name == "projection-2"


def picture(number):
    out = io.BytesIO()
    pixels = np.random.default_rng(number).integers(0, 255, (8, 8), dtype=np.uint8)
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def fill_up(gallery, rows):
    """Enroll until that fails; how many were acknowledged, and the message."""
    for number, row in enumerate(rows):
        try:
            gallery.enroll(f"new {number}", embeddings=row)
        except DataError as error:
            return number, str(error)
    raise AssertionError("the disk was never full")


def check_full(gallery, path, count, message):
    assert "\n" not in message
    assert str(path) in message
    assert (len(gallery), gallery.sample_count) == (40 + count, 40 + count)
    check_kept(gallery)


def small_gallery(path):
    """A closed gallery of 40 subjects."""
    with Gallery.open(path, dim=64) as gallery:
        gallery.enroll_many(NAMES[:40], embeddings=unit(40, 64))
    return path


def test_a_disk_that_becomes_full(tmp_path):
    rows = unit(3000, 64)
    with small_disk(tmp_path / "disk", "900k") as disk:
        path = small_gallery(disk / "g.db")
        (disk / "other").write_bytes(bytes(500_000))
        with Gallery.open(path) as gallery:
            count, message = fill_up(gallery, rows)
            check_full(gallery, path, count, message)
            with pytest.raises(DataError, match=r"g\.db"):
                gallery.enroll_many(["many"] * 3000, embeddings=rows)
            check_full(gallery, path, count, message)
        with Gallery.open(path) as gallery:
            check_full(gallery, path, count, message)
        leave(disk, 0)
        with pytest.raises(DataError, match=r"new\.db"):
            Gallery.open(disk / "new.db", dim=3)
        (disk / "others").unlink()
        assert {file.name for file in disk.iterdir()} <= {"g.db", "g.db-wal", "g.db-shm", "other"}
        (disk / "other").unlink()
        with Gallery.open(path) as gallery:
            check_full(gallery, path, count, message)
            gallery.enroll("room again", embeddings=rows[0])
            gallery.remove("new 0")
            assert len(gallery) == 40 + count


@contextmanager
def files_of_at_most(size):
    """The same without a file system of its own: a limit on the size of files."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_files_that_may_not_grow(tmp_path):
    path = small_gallery(tmp_path / "g.db")
    with Gallery.open(path) as gallery:
        with files_of_at_most(path.stat().st_size + 65536):
            count, message = fill_up(gallery, unit(3000, 64))
            check_full(gallery, path, count, message)
        gallery.enroll("room again", embeddings=unit(1, 64))
        check_kept(gallery)


def test_making_one_is_all_or_nothing(tmp_path):
    with files_of_at_most(20_000), pytest.raises(DataError):
        Gallery.open(tmp_path / "g.db", dim=3)
    assert list(tmp_path.iterdir()) == []

"""A full disk: nothing is half done, and the message says what is true."""

import resource
from contextlib import contextmanager

import pytest

from arcset import DataError, Gallery
from arcset.cli import main
from support.disks import leave, small_disk
from support.galleries import Projection, bytes_of, check_kept, picture, unit

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


def test_a_change_that_was_made_is_said_to_be_made(full):
    """And the command in the message erases the bytes."""
    row = unit(400, 64)[7].tobytes()
    with pytest.raises(DataError, match=r"'subject 7'.*gallery compact .*people\.db") as caught:
        full.remove("subject 7")
    assert "nothing was changed" not in str(caught.value)
    assert "subject 7" not in full
    assert row in bytes_of(full.path)
    (full.path.parent / "others").unlink()
    with pytest.raises(SystemExit) as stopped:
        main(["gallery", "compact", str(full.path)])
    assert not stopped.value.code
    assert row not in bytes_of(full.path)
    assert len(full) == 399


def test_a_change_that_was_not_made_is_said_not_to_be_made(full):
    leave(full.path.parent, 0)
    with pytest.raises(DataError, match=r"people\.db.*nothing was changed"):
        full.remove("subject 7")
    with pytest.raises(DataError, match=r"people\.db"):
        full.compact()
    assert [one.name for one in full.subjects()] == NAMES


def test_many_samples_of_which_the_first_were_enrolled(full):
    rows = unit(10_000, 64)
    (full.path.parent / "others").unlink()
    leave(full.path.parent, 1_500_000)
    with pytest.raises(DataError, match=r"4,096 of 10,000.*people\.db"):
        full.enroll_many(["many"] * 10_000, embeddings=rows)
    assert full.sample_count == 400 + 4096


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


def test_a_move_for_which_there_is_no_room_changes_nothing(tmp_path):
    before, after = Projection(seed=1, dim=16), Projection(seed=2, dim=256)
    with Gallery.open(tmp_path / "people.db", before, keep_images=True) as gallery:
        gallery.enroll_many(NAMES, [picture(number) for number in range(400)])
        with files_of_at_most(200_000), pytest.raises(DataError, match="nothing was changed"):
            gallery.migrate(after)
        assert gallery.model_name == "projection-1"
        assert gallery.identify(picture(3), threshold=0.9).subject == "subject 3"
        check_kept(gallery)


@contextmanager
def files_of_at_most(size):
    """A full disk without a file system of its own: a limit on the size of files."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def enroll_one_by_one(gallery, rows):
    for number, row in enumerate(rows):
        gallery.enroll(f"new {number}", embeddings=row)


def test_files_that_may_not_grow(tmp_path):
    path, rows = tmp_path / "g.db", unit(3000, 64)
    with Gallery.open(path, dim=64) as gallery:
        with files_of_at_most(path.stat().st_size + 65536):
            with pytest.raises(DataError, match=r"g\.db") as caught:
                enroll_one_by_one(gallery, rows)
            assert "\n" not in str(caught.value)
            assert (count := len(gallery)) > 2
            assert gallery.sample_count == count
            with pytest.raises(DataError, match=r"g\.db"):
                gallery.enroll_many(["many"] * 3000, embeddings=rows)
            check_kept(gallery)
        gallery.enroll("room again", embeddings=rows[0])
        gallery.remove("new 0")
        assert len(gallery) == gallery.sample_count == count
        check_kept(gallery)


def test_making_one_is_all_or_nothing(tmp_path):
    with files_of_at_most(20_000), pytest.raises(DataError):
        Gallery.open(tmp_path / "g.db", dim=3)
    assert list(tmp_path.iterdir()) == []

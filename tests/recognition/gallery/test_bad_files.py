"""Files that are no gallery, damaged, made to do harm, or where nothing can be written."""

import os
import re
import resource
import shutil
import sqlite3
import subprocess
from contextlib import closing, suppress

import numpy as np
import pytest

from arcset import ArcsetError, DataError, Gallery, OptionError
from support.disks import small_disk
from support.galleries import Projection, check_kept, unit

LONG = pytest.mark.long


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    place = tmp_path_factory.mktemp("whole") / "people.db"
    with Gallery.open(place, dim=64) as gallery:
        gallery.enroll_many([f"subject {number}" for number in range(40)], embeddings=unit(40, 64))
    return place


@pytest.fixture
def path(tmp_path, whole):
    """A closed gallery of 40 subjects, of one sample each, with the numbers 1 to 40."""
    return shutil.copy(whole, tmp_path / "people.db")


def refused(path, kind=DataError, quoted=None, **options):
    """One line, which names the file."""
    with pytest.raises(kind, match=quoted) as caught:
        Gallery.open(path, **options)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def changed(path, *statements):
    """Run SQL on the file, as somebody who wants to do harm can."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA foreign_keys = OFF")
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_files_that_are_no_gallery(tmp_path):
    (tmp_path / "text").write_text("hello\n" * 1000)
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_bytes(b"SQLite format 3\x00")
    changed(tmp_path / "other", "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)")
    for name in ("text", "empty", "short", "other", "."):
        refused(tmp_path / name)
    refused(tmp_path / "missing", OptionError)
    refused(tmp_path / "missing", read_only=True)
    before = sorted(file.name for file in tmp_path.iterdir())
    assert before == ["empty", "other", "short", "text"]
    (tmp_path / "file").touch()
    refused(tmp_path / "file" / "g.db", dim=3)


def test_a_later_format(path):
    with closing(sqlite3.connect(path)) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
    changed(path, f"PRAGMA user_version = {version + 1}")
    refused(path, quoted=f"{version + 1}.*{version}")


@pytest.mark.parametrize(
    "share", [0.5, 0.999, pytest.param(0.2, marks=LONG), pytest.param(0.9, marks=LONG)]
)
def test_a_cut_file(path, share):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    refused(path)


def test_damaged_anywhere(path):
    """Wherever a piece is overwritten there is an answer or one sentence, and never a crash."""
    whole, probes = path.read_bytes(), unit(3, 64, seed=5)
    with Gallery.open(path) as gallery:
        expected = gallery.search(probes, 3)[0]
    rng, outcomes = np.random.default_rng(0), set()
    for trial in range(80):
        start = int(rng.integers(0, len(whole) - 16))
        damage = rng.bytes(8) if trial % 2 else b"\xff" * 8
        path.write_bytes(whole[:start] + damage + whole[start + 8 :])
        try:
            with Gallery.open(path, read_only=True) as gallery:
                names, scores = gallery.search(probes, 3)
                gallery.subjects()
            assert np.isfinite(scores).all()
            outcomes.add("same" if names == expected else "other")
        except ArcsetError as error:
            outcomes.add("refused" if re.fullmatch(f".*{path}.*", str(error)) else str(error))
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)
    assert {"same", "refused"} <= outcomes <= {"same", "refused", "other"}


#: The two dictionaries are all that is said here about the tables of a gallery.
HARM = {
    "a trigger": ["CREATE TRIGGER t AFTER INSERT ON samples BEGIN DELETE FROM subjects; END"],
    "a view": ["CREATE VIEW v AS SELECT * FROM samples"],
    "a view for a table": ["DROP TABLE images", "CREATE VIEW images AS SELECT 1 AS id"],
    "an index": ["CREATE INDEX i ON samples (abs(subject))"],
    "a table": ["CREATE TABLE t (x)"],
    "a virtual table": ["CREATE VIRTUAL TABLE f USING fts5 (x)"],
    "a column": ["ALTER TABLE samples ADD COLUMN x DEFAULT 7"],
    "no table": ["DROP TABLE images"],
}


@pytest.mark.parametrize("harm", HARM)
def test_a_schema_that_none_has(path, harm):
    changed(path, *HARM[harm])
    refused(path)


VALUES = {
    "NaN": f"UPDATE samples SET embedding = x'{np.full(64, np.nan, '<f4').tobytes().hex()}'",
    "zeros": "UPDATE samples SET embedding = zeroblob(256) WHERE id = 7",
    "a short embedding": "UPDATE samples SET embedding = x'00' WHERE id = 7",
    "text": "UPDATE samples SET embedding = 'text' WHERE id = 7",
    "a huge number": f"UPDATE samples SET subject = {2**62} WHERE id = 7",
    "a text number": "UPDATE samples SET subject = 'x' WHERE id = 7",
    "dim": "UPDATE meta SET value = '63' WHERE key = 'dim'",
    "no dim": "DELETE FROM meta WHERE key = 'dim'",
    "a huge dim": "UPDATE meta SET value = '1000000000' WHERE key = 'dim'",
    "a dim of words": "UPDATE meta SET value = 'many' WHERE key = 'dim'",
    "scoring": "UPDATE meta SET value = 'worst' WHERE key = 'scoring'",
}


@pytest.mark.parametrize("value", VALUES)
def test_values_that_none_has(path, value):
    changed(path, VALUES[value])
    refused(path)


COUNTS = {
    "a low number": "UPDATE samples SET subject = 5 WHERE id = 7",
    "a negative sample": "UPDATE samples SET id = -5 WHERE id = 7",
    "a huge sample": f"UPDATE samples SET id = {2**62} WHERE id = 40",
    "a missing sample": "DELETE FROM samples WHERE id = 7",
    "gone": "UPDATE meta SET value = '-1000000000' WHERE key = 'gone'",
}


@pytest.mark.parametrize("value", COUNTS)
def test_counts_that_do_not_fit(path, value):
    """Goes with rows that are overwritten in place, and so are as many as were ever made."""
    changed(path, COUNTS[value])
    refused(path)


def said_by(path, ask):
    """What `ask` refuses, in one short line that names the file; nothing where it answers."""
    try:
        ask()
    except ArcsetError as error:
        said = str(error)
    else:
        return ""
    assert str(path) in said
    assert said.isprintable()
    assert len(said) < 400
    return said


NAMES = {
    "not Unicode": "CAST(x'ff41' AS TEXT)",
    "too long": "hex(zeroblob(200))",
    "empty": "''",
    "a line break": "'a' || char(10) || 'b'",
    "a command to the terminal": "'a' || char(27) || '[2J'",
    "a number": "7",
    "another one's": "'subject 4'",
}


def check_names_are_refused(gallery, path):
    """By whatever tells the names of several, of whom two may have the same one."""
    out = path.with_name("out.parquet")
    assert said_by(path, gallery.subjects)
    assert said_by(path, gallery.labelled)
    assert said_by(path, lambda: gallery.search(unit(40, 64)[3:5], 3))
    assert said_by(path, lambda: gallery.export(out))
    assert not out.exists()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_checked_when_they_are_read(path, name):
    """Also by those who have the gallery open while somebody writes them."""
    with Gallery.open(path) as watching:
        changed(path, f"UPDATE subjects SET name = {NAMES[name]} WHERE name = 'subject 3'")
        check_names_are_refused(watching, path)
    with Gallery.open(path) as gallery:
        check_names_are_refused(gallery, path)
        assert said_by(path, lambda: "subject 5" in gallery)
        assert said_by(path, lambda: gallery.enroll("new", embeddings=unit(1, 64)))
        assert said_by(path, lambda: gallery.remove("subject 5"))
        assert len(gallery) == 40


def test_a_calibration_that_none_has(path):
    changed(
        path,
        "INSERT INTO meta VALUES ('thresholds', '{\"kind\": 1}')",
        "INSERT INTO meta VALUES ('calibrated', 'x')",
    )
    with Gallery.open(path) as gallery:
        assert said_by(path, lambda: gallery.thresholds)


#: A value of a wrong type, and what cannot be told then.
TYPES = {
    "source": ("UPDATE samples SET source = 5", {"samples", "export"}),
    "digest": ("UPDATE samples SET digest = 'text'", {"samples"}),
    "time of a sample": ("UPDATE samples SET added = 'today'", {"samples", "export"}),
    "a time beyond all": (f"UPDATE samples SET added = {2**62}", {"samples", "export"}),
    "time of a subject": ("UPDATE subjects SET added = 'today'", {"subjects"}),
    "image": ("INSERT INTO images VALUES (7, 'text')", {"image", "export"}),
    "no subject": ("DELETE FROM subjects WHERE name = 'subject 6'", {"subjects", "labelled"}),
}


@pytest.mark.parametrize("value", TYPES)
def test_columns_of_a_wrong_type(path, value):
    statement, expected = TYPES[value]
    changed(path, "UPDATE meta SET value = 'yes' WHERE key = 'keep_images'", statement)
    asked = {
        "samples": lambda: gallery.samples("subject 6"),
        "export": lambda: gallery.export(path.with_name("out.parquet")),
        "subjects": lambda: gallery.subjects(),
        "image": lambda: gallery.image(7),
        "labelled": lambda: gallery.labelled(),
    }
    with Gallery.open(path) as gallery:
        for name in expected:
            assert said_by(path, asked[name])
    assert not path.with_name("out.parquet").exists()


@pytest.mark.parametrize("key", ["dim", "model", "digest", "scoring", "epoch", "gone"])
@pytest.mark.parametrize("value", ["x'00ff'", "5.5", "hex(zeroblob(5000)) || char(10)"])
def test_settings_of_a_wrong_type(path, key, value):
    changed(path, f"UPDATE meta SET value = {value} WHERE key = '{key}'")
    said = said_by(path, lambda: Gallery.open(path).close())
    assert said or (key == "model" and value.startswith("hex"))  # any text is a name


@pytest.mark.parametrize("sample", ["'x'", "x'00'", "1.5", str(2**62)])
def test_a_journal_that_none_wrote(path, sample):
    """It is read by whoever has the gallery open while another one changes it."""
    with Gallery.open(path) as gallery:
        changed(path, f"INSERT INTO journal VALUES (99, {sample})")
        with suppress(DataError):
            gallery.search(unit(1, 64), 1)
        changed(path, f"UPDATE samples SET subject = {2**40} WHERE id = 7")
        changed(path, "INSERT INTO journal VALUES (100, 7)")
        with pytest.raises(DataError, match=r"people\.db"):
            gallery.search(unit(1, 64), 1)


def test_another_models_gallery(tmp_path):
    one, other = Projection(seed=1), Projection(seed=2)
    Gallery.open(tmp_path / "g.db", one).close()
    with pytest.raises(OptionError, match=r"g\.db.*'projection-1'.*'projection-2'"):
        Gallery.open(tmp_path / "g.db", other)
    refused(tmp_path / "g.db", OptionError, "dim=3.*16", dim=3)
    with Gallery.open(tmp_path / "plain.db", dim=16) as gallery:
        gallery.enroll("anna", embeddings=unit(1, 16))
    with pytest.raises(OptionError, match=r"plain\.db"):
        Gallery.open(tmp_path / "plain.db", one)
    Gallery.open(tmp_path / "empty.db", dim=16).close()
    with pytest.raises(OptionError, match=r"'projection-3'.* 5 .*16"):
        Gallery.open(tmp_path / "empty.db", Projection(seed=3, dim=5))
    Gallery.open(tmp_path / "empty.db", one).close()  # from now on for this one
    with pytest.raises(OptionError, match=r"empty\.db.*'projection-1'.*'projection-2'"):
        Gallery.open(tmp_path / "empty.db", other)
    for wrong in (0, -1, 1.5, "16", True, 10**9):
        with pytest.raises(OptionError, match="dim"):
            Gallery.open(tmp_path / "new.db", dim=wrong)
    with pytest.raises(OptionError, match=r"dim=3.*projection-1.*16"):
        Gallery.open(tmp_path / "new.db", one, dim=3)
    assert not (tmp_path / "new.db").exists()


def test_opened_for_reading(path):
    with Gallery.open(path, read_only=True) as gallery:
        for change in (
            lambda: gallery.enroll("new", embeddings=unit(1, 64)),
            lambda: gallery.remove("subject 1"),
            lambda: gallery.rename("subject 1", "x"),
            gallery.compact,
            lambda: gallery.set_thresholds(None),
        ):
            with pytest.raises(DataError, match=r"people\.db"):
                change()
        assert len(gallery) == 40


def test_a_medium_that_cannot_be_written(tmp_path, path):
    with small_disk(tmp_path / "disk", "4m") as disk:
        shutil.copy(path, disk / "g.db")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with Gallery.open(disk / "g.db") as gallery:
            assert gallery.read_only
            assert len(gallery) == 40
            assert gallery.identify(embedding=unit(1, 64)[0], threshold=0.9)
            with pytest.raises(DataError, match=r"\.db"):
                gallery.enroll("new", embeddings=unit(1, 64))
        refused(disk / "new.db", dim=3)


def test_changes_that_are_not_in_the_file_yet_on_such_a_medium(tmp_path, path):
    with small_disk(tmp_path / "disk", "4m") as disk:
        with Gallery.open(path) as gallery:
            gallery.enroll("new", embeddings=unit(1, 64))
            for end in ("", "-wal"):
                shutil.copy(f"{path}{end}", disk / f"g.db{end}")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        refused(disk / "g.db", quoted=r"g\.db-wal")


def test_a_folder_that_cannot_be_written(tmp_path, path):
    if os.geteuid() == 0:
        pytest.skip("root can write everywhere")
    path.parent.chmod(0o555)
    try:
        with Gallery.open(path) as gallery:
            assert gallery.identify(embedding=unit(1, 64)[0], threshold=0.9)
            with pytest.raises(DataError, match=r"\.db"):
                gallery.enroll("new", embeddings=unit(1, 64))
    finally:
        path.parent.chmod(0o755)


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


def test_a_full_disk(tmp_path, path):
    rows = unit(3000, 64)
    with small_disk(tmp_path / "disk", "900k") as disk:
        shutil.copy(path, disk / "g.db")
        (disk / "other").write_bytes(bytes(500_000))
        with Gallery.open(disk / "g.db") as gallery:
            count, message = fill_up(gallery, rows)
            check_full(gallery, disk / "g.db", count, message)
            with pytest.raises(DataError, match=r"g\.db"):
                gallery.enroll_many(["many"] * 3000, embeddings=rows)
            check_full(gallery, disk / "g.db", count, message)
        with Gallery.open(disk / "g.db") as gallery:
            check_full(gallery, disk / "g.db", count, message)
        with suppress(OSError), (disk / "more").open("wb", buffering=0) as file:
            while file.write(bytes(4096)):  # to the last byte
                pass
        refused(disk / "new.db", dim=3)
        (disk / "more").unlink()
        assert {file.name for file in disk.iterdir()} <= {"g.db", "g.db-wal", "g.db-shm", "other"}
        (disk / "other").unlink()
        with Gallery.open(disk / "g.db") as gallery:
            check_full(gallery, disk / "g.db", count, message)
            gallery.enroll("room again", embeddings=rows[0])
            gallery.remove("new 0")
            assert len(gallery) == 40 + count


def test_files_that_may_not_grow(path):
    """The same without a file system of its own: a limit on the size of files."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Gallery.open(path) as gallery:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 65536, before[1]))
        try:
            count, message = fill_up(gallery, unit(3000, 64))
            check_full(gallery, path, count, message)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        gallery.enroll("room again", embeddings=unit(1, 64))
        assert len(gallery) == 41 + count
    with Gallery.open(path) as gallery:
        assert len(gallery) == 41 + count


def test_making_one_is_all_or_nothing(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(DataError):
            Gallery.open(tmp_path / "g.db", dim=3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []

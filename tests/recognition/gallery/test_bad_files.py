"""Files that are no gallery, damaged, made to do harm, or where nothing can be written."""

import os
import re
import shutil
import sqlite3
import subprocess
from contextlib import closing

import numpy as np
import pytest

from arcset import ArcsetError, DataError, Gallery, OptionError
from support.disks import small_disk
from support.galleries import unit

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


def changed(path, statements):
    """Run SQL on the file, as somebody who wants to do harm can."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA foreign_keys = OFF; {statements}")


def test_files_that_are_no_gallery(tmp_path):
    (tmp_path / "text").write_text("hello\n" * 1000)
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_bytes(b"SQLite format 3\x00")
    changed(tmp_path / "other", "CREATE TABLE t (x); INSERT INTO t VALUES (1)")
    for name in ("text", "empty", "short", "other", "."):
        refused(tmp_path / name)
    refused(tmp_path / "missing", OptionError)
    refused(tmp_path / "missing", read_only=True)
    before = sorted(file.name for file in tmp_path.iterdir())
    assert before == ["empty", "other", "short", "text"]
    (tmp_path / "file").touch()
    refused(tmp_path / "file" / "g.db", dim=3)


@pytest.mark.parametrize("other", [-1, 1])
def test_another_format(path, other):
    with closing(sqlite3.connect(path)) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
    changed(path, f"PRAGMA user_version = {version + other}")
    refused(path, quoted=f"{version + other}.*{version}")


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


#: What makes a file no gallery's.
HARM = {
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON samples BEGIN DELETE FROM subjects; END",
    "a view": "CREATE VIEW v AS SELECT * FROM samples",
    "a view for a table": "DROP TABLE images; CREATE VIEW images AS SELECT 1 AS id",
    "an index": "CREATE INDEX i ON samples (abs(subject))",
    "a table": "CREATE TABLE t (x)",
    "a virtual table": "CREATE VIRTUAL TABLE f USING fts5 (x)",
    "a column": "ALTER TABLE samples ADD COLUMN x DEFAULT 7",
    "no table": "DROP TABLE images",
    "no dim": "DELETE FROM meta WHERE key = 'dim'",
    "a huge dim": "UPDATE meta SET value = '1000000000' WHERE key = 'dim'",
    "scoring": "UPDATE meta SET value = 'worst' WHERE key = 'scoring'",
    **{
        f"{key} {value}": f"UPDATE meta SET value = {value} WHERE key = '{key}'"
        for key in ("dim", "digest", "scoring")
        for value in ("x'00ff'", "5.5", "hex(zeroblob(5000)) || char(10)")
    },
}


@pytest.mark.parametrize("harm", HARM)
def test_a_file_that_no_gallery_made(path, harm):
    changed(path, HARM[harm])
    refused(path)


#: What all of the gallery can be asked.
QUESTIONS = {
    "search": lambda gallery: gallery.search(unit(40, gallery.dim)[5:7], 3),
    "labelled": lambda gallery: gallery.labelled(),
    "subjects": lambda gallery: gallery.subjects(),
    "samples": lambda gallery: gallery.samples("subject 6"),
    "image": lambda gallery: gallery.image(7),
    "export": lambda gallery: gallery.export(gallery.path.with_name("out.parquet")),
    "thresholds": lambda gallery: gallery.thresholds,
}


def refusals(gallery):
    """The questions that are refused, each in one short line that names the file."""
    found = {}
    for name, ask in QUESTIONS.items():
        try:
            ask(gallery)
        except ArcsetError as error:
            found[name] = str(error)
    for message in found.values():
        assert str(gallery.path) in message
        assert message.isprintable()
        assert len(message) < 400
    assert gallery.path.with_name("out.parquet").exists() != ("export" in found)
    return found.keys()


ROWS, NAMES = {"search", "labelled"}, {"search", "labelled", "subjects", "export"}
NAN = np.full(64, np.nan, "<f4").tobytes().hex()

#: Values that no gallery wrote, and what is refused then at least.
VALUES = {
    "NaN": (f"UPDATE samples SET embedding = x'{NAN}'", ROWS),
    "zeros": ("UPDATE samples SET embedding = zeroblob(256) WHERE id = 7", ROWS),
    "a short embedding": ("UPDATE samples SET embedding = x'00' WHERE id = 7", {*ROWS, "export"}),
    "text": ("UPDATE samples SET embedding = 'text' WHERE id = 7", {*ROWS, "export"}),
    "another dim": ("UPDATE meta SET value = '63' WHERE key = 'dim'", {*ROWS, "export"}),
    "a huge number": (f"UPDATE samples SET subject = {2**62} WHERE id = 7", ROWS),
    "a text number": ("UPDATE samples SET subject = 'x' WHERE id = 7", ROWS),
    "a negative sample": ("UPDATE samples SET id = -5 WHERE id = 7", {"image"}),
    "no subject": ("DELETE FROM subjects WHERE name = 'subject 6'", {*ROWS, "samples"}),
    "a name of bytes": ("UPDATE subjects SET name = x'00ff' WHERE id = 7", NAMES),
    "a name not Unicode": ("UPDATE subjects SET name = CAST(x'ff41' AS TEXT) WHERE id = 7", NAMES),
    "a long name": ("UPDATE subjects SET name = hex(zeroblob(200)) WHERE id = 7", NAMES),
    "an empty name": ("UPDATE subjects SET name = '' WHERE id = 7", NAMES),
    "a line break": ("UPDATE subjects SET name = 'a' || char(10) WHERE id = 7", NAMES),
    "an escape": ("UPDATE subjects SET name = char(27) || '[2J' WHERE id = 7", NAMES),
    "source": ("UPDATE samples SET source = x'00'", {"samples", "export"}),
    "digest": ("UPDATE samples SET digest = 'text'", {"samples", "export"}),
    "time of a sample": ("UPDATE samples SET added = 'today'", {"samples", "export"}),
    "a time beyond all": (f"UPDATE samples SET added = {2**62}", {"samples", "export"}),
    "time of a subject": ("UPDATE subjects SET added = 'today'", {"subjects"}),
    "image": ("INSERT INTO images VALUES (7, 'text')", {"image", "export"}),
    "a calibration": (
        "INSERT INTO meta VALUES ('thresholds', '{\"kind\": 1}'), ('calibrated', 'x')",
        {"thresholds"},
    ),
}


@pytest.mark.parametrize("value", VALUES)
def test_values_that_no_gallery_wrote(path, value):
    """Those who have the gallery open meanwhile get an answer or one sentence, too."""
    statement, expected = VALUES[value]
    with Gallery.open(path) as watching:
        assert refusals(watching) == set()
        path.with_name("out.parquet").unlink()
        changed(path, statement)
        refusals(watching)
        path.with_name("out.parquet").unlink(missing_ok=True)
    with Gallery.open(path) as gallery:
        assert expected <= refusals(gallery)


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

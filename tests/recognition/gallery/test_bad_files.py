"""Files that are no gallery, damaged, made to do harm, or where nothing can be written."""

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


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "people.db"
    with Gallery.open(path, dim=64) as gallery:
        gallery.enroll_many([f"subject {number}" for number in range(40)], embeddings=unit(40, 64))
    return path


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
    (tmp_path / "link").symlink_to("nothing")
    (tmp_path / "short").write_bytes(b"SQLite format 3\x00")
    changed(tmp_path / "other", "CREATE TABLE t (x); INSERT INTO t VALUES (1)")
    before = sorted(tmp_path.iterdir())
    for path in (*before, tmp_path):
        refused(path, dim=3)
    assert (tmp_path / "link").is_symlink()
    refused(tmp_path / "missing", OptionError)
    refused(tmp_path / "missing", read_only=True)
    refused(tmp_path / "text" / "g.db", dim=3)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("other", [-1, 1])
def test_another_format(path, other):
    with closing(sqlite3.connect(path)) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
    changed(path, f"PRAGMA user_version = {version + other}")
    refused(path, quoted=f"{version + other}.*{version}")


@pytest.mark.parametrize("share", [0.5, 0.999])
def test_a_cut_file(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    refused(path)


def test_damaged_anywhere(path):
    """Wherever a piece is overwritten there is an answer or one sentence, and never a crash."""
    content, probes = path.read_bytes(), unit(3, 64, seed=5)
    with Gallery.open(path) as gallery:
        expected = gallery.search(probes, 3)[0]
    rng, outcomes = np.random.default_rng(0), set()
    for trial in range(80):
        start = int(rng.integers(0, len(content) - 16))
        damage = rng.bytes(8) if trial % 2 else b"\xff" * 8
        path.write_bytes(content[:start] + damage + content[start + 8 :])
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
    "a view for a table": "DROP TABLE images; CREATE VIEW images AS SELECT 1 AS id",
    "an index": "CREATE INDEX i ON samples (abs(subject))",
    "a virtual table": "CREATE VIRTUAL TABLE f USING fts5 (x)",
    "a column": "ALTER TABLE samples ADD COLUMN x DEFAULT 7",
    "no dim": "DELETE FROM meta WHERE key = 'dim'",
    "a huge dim": "UPDATE meta SET value = '1000000000' WHERE key = 'dim'",
    "a long digest": "UPDATE meta SET value = hex(zeroblob(5000)) || char(10) WHERE key = 'digest'",
    "scoring": "INSERT OR REPLACE INTO meta VALUES ('scoring', x'00ff')",
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
    messages = {}
    for name, ask in QUESTIONS.items():
        try:
            ask(gallery)
        except ArcsetError as error:
            messages[name] = str(error)
    for message in messages.values():
        assert str(gallery.path) in message
        assert message.isprintable()
        assert len(message) < 400
    return messages.keys()


ROWS, NAMES = {"search", "labelled"}, {"search", "labelled", "subjects", "export"}
NAN = np.full(64, np.nan, "<f4").tobytes().hex()

#: Values that no gallery wrote, and what is refused then at least.
VALUES = {
    "NaN": (f"UPDATE samples SET embedding = x'{NAN}'", ROWS),
    "a short embedding": ("UPDATE samples SET embedding = x'00' WHERE id = 7", {*ROWS, "export"}),
    "a huge number": (f"UPDATE samples SET subject = {2**62} WHERE id = 7", ROWS),
    "a text number": ("UPDATE samples SET subject = 'x' WHERE id = 7", ROWS),
    "no subject": ("DELETE FROM subjects WHERE name = 'subject 6'", {*ROWS, "samples"}),
    "a name not Unicode": ("UPDATE subjects SET name = CAST(x'ff41' AS TEXT) WHERE id = 7", NAMES),
    "an escape": ("UPDATE subjects SET name = char(27) || '[2J' WHERE id = 7", NAMES),
    "a digest": ("UPDATE samples SET digest = 'text'", {"samples", "export"}),
    "a time beyond all": (f"UPDATE samples SET added = {2**62}", {"samples", "export"}),
    "an image": ("INSERT INTO images VALUES (7, 'text')", {"image", "export"}),
    "a calibration": ("INSERT INTO meta VALUES ('thresholds', '{\"kind\": 1}')", {"thresholds"}),
}


@pytest.mark.parametrize("value", VALUES)
def test_values_that_no_gallery_wrote(path, value):
    """Those who have the gallery open meanwhile get an answer or one sentence, too."""
    statement, expected = VALUES[value]
    with Gallery.open(path) as watching:
        assert refusals(watching) == set()
        changed(path, statement)
        refusals(watching)
    path.with_name("out.parquet").unlink()
    with Gallery.open(path) as gallery:
        refused_now = refusals(gallery)
    assert expected <= refused_now
    assert path.with_name("out.parquet").exists() != ("export" in refused_now)


def test_a_medium_that_cannot_be_written(tmp_path, path):
    with small_disk(tmp_path / "disk", "4m") as disk:
        shutil.copy(path, disk / "g.db")
        with Gallery.open(path) as gallery:
            gallery.enroll("new", embeddings=unit(1, 64))
            for end in ("", "-wal"):  # with changes that are not in the file yet
                shutil.copy(f"{path}{end}", disk / f"open.db{end}")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with Gallery.open(disk / "g.db") as gallery:
            assert gallery.read_only
            assert len(gallery) == 40
            assert gallery.identify(embedding=unit(1, 64)[0], threshold=0.9)
            with pytest.raises(DataError, match=r"\.db"):
                gallery.enroll("new", embeddings=unit(1, 64))
        refused(disk / "new.db", dim=3)
        refused(disk / "open.db", quoted=r"open\.db-wal")

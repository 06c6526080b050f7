"""A gallery in a folder of Milvus Lite: what is kept, what is refused, and addresses."""

import fcntl
import subprocess
import sys

import numpy as np
import pytest

from arcset.errors import DataError, InputError, OptionError
from arcset.evaluation.calibration import make_thresholds
from arcset.recognition.gallery import Gallery
from arcset.recognition.gallery.milvus import about
from arcset.recognition.gallery.milvus.address import TOKEN, Address
from support.galleries import Place, unit

ELSEWHERE = """
import os, sys, numpy as np
from arcset.recognition.gallery import Gallery
gallery = Gallery.open(sys.argv[1])
print(sorted((one.name, one.samples) for one in gallery.subjects()))
gallery.enroll("carl", embeddings=np.eye(4)[3])
sys.stdout.flush()
os._exit(1)  # without closing anything
"""


def elsewhere(path):
    """Another process looks, enrolls somebody and ends all at once; what it printed."""
    command = [sys.executable, "-c", ELSEWHERE, path]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def test_kept_by_one_process_after_the_other(tmp_path):
    path = f"milvus:{tmp_path}/new folder/people.db/faces"
    with Gallery.open(path, dim=4) as gallery:
        gallery.enroll("anna", embeddings=np.eye(4)[:2])
        with Gallery.open(path) as same:  # this process may open it as often as it likes
            same.enroll("ben", embeddings=np.eye(4)[2])
        assert len(gallery) == 2
        gallery.enroll("ben", embeddings=np.eye(4)[2])
    assert elsewhere(path) == "[('anna', 2), ('ben', 2)]"
    with Gallery.open(path) as gallery:  # what a process did that ended in an instant is there
        assert [one.name for one in gallery.subjects()] == ["anna", "ben", "carl"]
        assert gallery.identify(embedding=np.eye(4)[3], threshold=0.9).subject == "carl"


def test_one_process_at_a_time(tmp_path):
    path = f"milvus:{tmp_path}/people.db/faces"
    Gallery.open(path, dim=4).close()
    with (tmp_path / "people.db" / "LOCK").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as the other process has it
        with pytest.raises(DataError, match="does another process have it open") as caught:
            Gallery.open(path)
        assert "\n" not in str(caught.value)
    Gallery.open(path).close()


def test_without_pymilvus(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(OptionError, match=r"pymilvus is missing.*pip install 'arcset\[milvus\]'"):
        Gallery.open(f"milvus:{tmp_path}/people.db/faces", dim=4)
    with Gallery.open(tmp_path / "people.db", dim=4) as gallery:  # files do without
        gallery.enroll("anna", embeddings=np.eye(4)[0])
    assert [file.name for file in tmp_path.iterdir()] == ["people.db"]


def test_nothing_is_made_where_nothing_can_be(tmp_path):
    with pytest.raises(OptionError, match="name a model or the dimension"):
        Gallery.open(f"milvus:{tmp_path}/people.db/faces")
    with pytest.raises(OptionError, match="cannot keep images"):
        Gallery.open(f"milvus:{tmp_path}/people.db/faces", dim=4, keep_images=True)
    with pytest.raises(DataError, match="does not exist"):
        Gallery.open(f"milvus:{tmp_path}/people.db/faces", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder_of_milvus(tmp_path):
    with Gallery.open(tmp_path / "people.db", dim=4) as gallery:
        gallery.enroll("anna", embeddings=np.eye(4)[0])
    before = (tmp_path / "people.db").read_bytes()
    with pytest.raises(DataError, match="is it of another kind") as caught:
        Gallery.open(f"milvus:{tmp_path}/people.db/faces", dim=4)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "people.db").read_bytes() == before


def test_what_milvus_cannot_hold(lite):
    place = Place("milvus", lite)
    with pytest.raises(OptionError, match="Milvus takes up to 32768"):
        Gallery.open(place("large"), dim=40_000)
    with Gallery.open(place("g"), dim=4) as gallery:
        with pytest.raises(InputError, match="longer than the 65,535 bytes"):
            gallery.enroll("anna", embeddings=np.eye(4)[0], sources=["é" * 40_000])
        assert (len(gallery), gallery.sample_count) == (0, 0)
        gallery.enroll("anna", embeddings=np.eye(4)[0], sources=["é" * 30_000])
        assert gallery.samples("anna")[0].source == "é" * 30_000
    place.clear()


def test_a_calibration_in_many_parts(lite, monkeypatch):
    place = Place("milvus", lite)
    rows = np.repeat(unit(60, 4), 2, axis=0) + 0.1 * unit(120, 4, seed=1)
    first = make_thresholds(rows, np.arange(120) // 2, galleries=[20])
    second = make_thresholds(rows[20:], np.arange(100) // 2, galleries=[20])
    monkeypatch.setattr(about, "_PART", 3000)
    with Gallery.open(place("g"), dim=4) as gallery:
        for made in (first, second):
            gallery.set_thresholds(made)
            assert gallery.thresholds.json() == made.json()
        keys = gallery._connection.query(gallery._collections.about, 'key like "cal%"', ["key"])
        assert len(keys) == -(-len(about.json.dumps(second.json())) // 3000)  # none of the first
        gallery._connection.delete(gallery._collections.about, [keys[1]["key"]])
    with Gallery.open(place("g")) as gallery:
        with pytest.raises(DataError, match="its calibration is not whole"):
            _ = gallery.thresholds
        gallery.set_thresholds(None)
        assert gallery.thresholds is None
    place.clear()


def test_damaged_settings_are_told(lite):
    place = Place("milvus", lite)
    with Gallery.open(place("g"), dim=4) as gallery:
        gallery._about.write(dim="many")
        with pytest.raises(DataError, match="is damaged in its settings"):
            gallery.identify(embedding=np.eye(4)[0], threshold=0.5)
        gallery._about.write(dim=None)
    with pytest.raises(DataError, match="it does not say its 'dim'"):
        Gallery.open(place("g"))
    place.clear()


def test_secrets_are_not_shown(monkeypatch):
    address = Address.parse("milvus://anna:s%2Fecret@db.example:9/base/people?secure=true")
    assert (address.uri, address.database) == ("https://db.example:9", "base")
    assert address.token == "anna:s/ecret"
    assert "ecret" not in f"{address} {address!r}"
    assert str(address) == "milvus://db.example:9/base/people"
    monkeypatch.setenv(TOKEN, "key")
    assert Address.parse("milvus://db.example/people").token == "key"
    assert Address.parse(address) is address


@pytest.mark.parametrize(
    "text",
    [
        "milvus://anna:secret@host/people#here",
        "milvus://anna:secret@[host/people",
        "milvus://anna:secret@host:port/people",
        "milvus://anna:se#secret@host/people",
        "milvus://anna:se?secret@host/people",
        "milvus://anna:se/secret@host/people",
        "milvus://anna:se/?index=secret@host/people",
    ],
)
def test_secrets_are_not_shown_in_errors(text):
    with pytest.raises(OptionError, match="is no address in Milvus") as caught:
        Address.parse(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "milvus:",
        "milvus://",
        "milvus://host",
        "milvus://host/",
        "milvus://host/a/b/c",
        "milvus://host:port/people",
        "milvus://host:99999/people",
        "milvus://host/people#here",
        "milvus://host/people?index=",
        "milvus://host/people?consistency=sometimes",
        "milvus://host/people?secure=yes",
        "milvus://host/people?colour=red",
        "milvus://host/2people",
        "milvus://host/peo-ple",
        "milvus://host/" + "p" * 300,
        "milvus:people",
        "milvus:people.sqlite/faces",
        "milvus:people.db/faces?secure=true",
    ],
)
def test_what_is_no_address(text):
    with pytest.raises(OptionError, match="expected") as caught:
        Gallery.open(text, dim=4)
    assert "\n" not in str(caught.value)

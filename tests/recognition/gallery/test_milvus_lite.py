"""A gallery in a folder of Milvus Lite: what is kept, what is refused, and addresses."""

import fcntl
import sys

import numpy as np
import pytest

from arcset import DataError, Gallery, OptionError
from arcset.recognition.gallery.milvus_address import Address
from support.gallery_watching import finished
from support.gallery_writer import enroll_one


def test_kept_by_one_process_after_the_other(tmp_path):
    path = f"milvus:{tmp_path}/new folder/people.db/faces"
    with Gallery.open(path, dim=4) as gallery:
        gallery.enroll("anna", embeddings=np.eye(4)[:2])
        with Gallery.open(path) as same:  # this process may open it as often as it likes
            same.enroll("ben", embeddings=np.eye(4)[2])
        assert len(gallery) == 2
        gallery.enroll("ben", embeddings=np.eye(4)[2])
    (seen,) = finished(enroll_one, path=path, name="carl", row=[0, 0, 0, 1])
    assert seen == {"anna": 2, "ben": 2, "carl": 1}
    with Gallery.open(path) as gallery:  # what a process did that ended in an instant is there
        assert [one.name for one in gallery.subjects()] == ["anna", "ben", "carl"]
        assert gallery.identify(embedding=np.eye(4)[3], threshold=0.9).subject == "carl"


def test_one_process_at_a_time(tmp_path):
    path = f"milvus:{tmp_path}/people.db/faces"
    Gallery.open(path, dim=4).close()
    with (tmp_path / "people.db" / "LOCK").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as the other process has it
        with pytest.raises(DataError, match=r"people\.db") as caught:
            Gallery.open(path)
        assert "\n" not in str(caught.value)
    Gallery.open(path).close()


def test_without_pymilvus(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(OptionError, match=r"pymilvus.*arcset\[milvus\]"):
        Gallery.open(f"milvus:{tmp_path}/people.db/faces", dim=4)
    with Gallery.open(tmp_path / "people.db", dim=4) as gallery:  # files do without
        gallery.enroll("anna", embeddings=np.eye(4)[0])
    assert [file.name for file in tmp_path.iterdir()] == ["people.db"]


def test_nothing_is_made_where_nothing_can_be(tmp_path):
    with pytest.raises(OptionError, match="faces"):
        Gallery.open(f"milvus:{tmp_path}/people.db/faces")
    with pytest.raises(OptionError, match="faces"):
        Gallery.open(f"milvus:{tmp_path}/people.db/faces", dim=4, keep_images=True)
    with pytest.raises(DataError, match="faces"):
        Gallery.open(f"milvus:{tmp_path}/people.db/faces", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder_of_milvus(tmp_path):
    with Gallery.open(tmp_path / "people.db", dim=4) as gallery:
        gallery.enroll("anna", embeddings=np.eye(4)[0])
    before = (tmp_path / "people.db").read_bytes()
    with pytest.raises(DataError, match=r"people\.db") as caught:
        Gallery.open(f"milvus:{tmp_path}/people.db/faces", dim=4)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "people.db").read_bytes() == before


def test_what_milvus_cannot_hold(milvus):
    with pytest.raises(OptionError, match=r"40000.*32768"):
        Gallery.open(milvus("large"), dim=40_000)
    with Gallery.open(milvus("g"), dim=4) as gallery:
        gallery.enroll("anna", embeddings=np.eye(4)[0], sources=["é" * 30_000])
        assert gallery.samples("anna")[0].source == "é" * 30_000


def test_secrets_are_not_shown(monkeypatch):
    address = Address.parse("milvus://anna:s%2Fecret@db.example:9/base/people?secure=true")
    assert (address.uri, address.database) == ("https://db.example:9", "base")
    assert address.token == "anna:s/ecret"
    assert "ecret" not in f"{address} {address!r}"
    assert str(address) == "milvus://db.example:9/base/people"
    monkeypatch.setenv("ARCSET_MILVUS_TOKEN", "key")
    assert Address.parse("milvus://db.example/people").token == "key"
    assert Address.parse(address) is address


NO_ADDRESSES = """
milvus: milvus:// milvus://host milvus://host/ milvus://host/a/b/c milvus://host:port/people
milvus://host:99999/people milvus://host/people#here milvus://host/people?index=
milvus://host/people?consistency=sometimes milvus://host/people?secure=yes
milvus://host/people?colour=red milvus://host/2people milvus://host/peo-ple milvus:people
milvus:people.sqlite/faces milvus:people.db/faces?secure=true milvus:people.db/faces?index=diskann
milvus://anna:secret@host/people#here milvus://anna:secret@[host/people
milvus://anna:secret@host:port/people milvus://anna:se#secret@host/people
milvus://anna:se?secret@host/people milvus://anna:se/secret@host/people
milvus://anna:12/secret@host/people milvus://anna:se/?index=secret@host/people
"""


@pytest.mark.parametrize("text", NO_ADDRESSES.split())
def test_what_is_no_address(text):
    with pytest.raises(OptionError, match=r"milvus:|\?\w+=") as caught:
        Gallery.open(text, dim=4)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)

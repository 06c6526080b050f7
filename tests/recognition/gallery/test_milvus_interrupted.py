"""Milvus has no transactions: whatever is interrupted, wherever, is done whole or not at all.

Goes with the states of subjects, their claims and their healing. Until then one operation is
interrupted in `make test`, and the others in `make test-all`.
"""

from contextlib import suppress

import numpy as np
import pytest

from arcset.errors import DataError
from arcset.recognition.gallery import Gallery
from arcset.recognition.gallery.milvus import changing
from arcset.recognition.gallery.milvus.connection import Connection
from support.galleries import unit

WRITES = ("insert", "upsert", "delete")


class Killed(BaseException):
    """Stands for the end of the process."""


def state(gallery):
    """All that anybody can see, in several ways."""
    found = {one.name: one.samples for one in gallery.subjects()}
    rows, owners = gallery.labelled()
    assert {name: owners.count(name) for name in owners} == found
    assert len(gallery) == len(found)
    assert gallery.search(rows, 1)[0] == [(owner,) for owner in owners]
    for name, count in found.items():
        assert len(gallery.samples(name)) == count
    assert gallery.verify(owners[-1], embedding=rows[-1], threshold=0.999).same
    return sorted(found.items())


def filled(path):
    gallery = Gallery.open(path, dim=8)
    gallery.enroll_many([*"aabbb", "c"], embeddings=unit(6, 8))
    return gallery


OPERATIONS = {
    "enroll somebody new": lambda gallery: gallery.enroll("new", embeddings=unit(3, 8, 1)),
    "enroll several": lambda gallery: gallery.enroll_many("xyxy", embeddings=unit(4, 8, 1)),
    "enroll somebody known": lambda gallery: gallery.enroll("a", embeddings=unit(3, 8, 1)),
    "remove": lambda gallery: gallery.remove("b"),
    "remove a sample": lambda gallery: gallery.remove_sample(1),
    "remove the last sample": lambda gallery: gallery.remove_sample(6),
    "rename": lambda gallery: gallery.rename("a", "z"),
    "merge": lambda gallery: gallery.merge("a", "b"),
}


@pytest.mark.parametrize(
    "what",
    [one if one == "merge" else pytest.param(one, marks=pytest.mark.long) for one in OPERATIONS],
)
def test_killed_anywhere(milvus, monkeypatch, what):
    """Before the first write, the second, …: the state is the one before, or the one after."""
    operation, call = OPERATIONS[what], Connection.call
    writes = allowed = 0
    dead = False

    def counted(self, method, *args, **options):
        nonlocal writes, dead
        if method in WRITES:
            writes += 1
            dead = dead or writes > allowed
        if dead:
            raise Killed
        return call(self, method, *args, **options)

    with filled(milvus("after")) as gallery:
        before = state(gallery)
        operation(gallery)
        after, reference = state(gallery), gallery.subjects()
    assert before != after
    for limit in range(20):
        path = milvus(f"g{limit}")
        gallery = filled(path)
        writes, allowed, dead = 0, limit, False
        with monkeypatch.context() as patch:
            patch.setattr(Connection, "call", counted)
            with suppress(Killed):
                operation(gallery)
        gallery.close()
        with Gallery.open(path, read_only=True) as reader:
            seen = state(reader)
        assert seen in (before, after)
        with monkeypatch.context() as patch:
            patch.setattr(changing, "LONGEST_ENROLLMENT", 0.0)
            patch.setattr(changing, "LONGEST_MERGE", 0.0)
            with Gallery.open(path) as healed:
                assert state(healed) == seen
                assert healed._changes.subjects.unfinished() == []
                assert healed.sample_count == sum(count for _, count in seen)
                if seen == before and dead:
                    operation(healed)
                    assert [one.name for one in healed.subjects()] == [
                        one.name for one in reference
                    ]
        if not dead:
            break
    else:
        pytest.fail("it never came to its end")
    assert limit >= 1
    assert seen == after


@pytest.mark.long
def test_killed_while_it_is_made(milvus, monkeypatch):
    """Wherever that was, the next one makes what is lacking."""
    call, calls, allowed = Connection.call, 0, 0

    def as_a_server(self, method, *args, **options):
        nonlocal calls
        calls += method in ("create_collection", "create_index", "upsert")
        if calls > allowed:
            raise Killed
        if method == "load_collection" and not call(self, "list_indexes", *args):
            raise DataError("there is no index to be loaded")  # Lite does not mind
        return call(self, method, *args, **options)

    monkeypatch.setattr(Connection, "call", as_a_server)
    for limit in range(20):
        calls, allowed, path = 0, limit, milvus(f"g{limit}")
        with suppress(Killed):
            Gallery.open(path, dim=8).close()
        ended = calls <= allowed
        allowed = 1000
        with Gallery.open(path, dim=8) as gallery:
            gallery.enroll("a", embeddings=unit(1, 8))
            assert state(gallery) == [("a", 1)]
        if ended:
            break
    assert 5 < limit < 19


@pytest.mark.long
def test_what_others_do_at_this_moment_is_left_alone(milvus):
    """Unfinished and young: somebody is at it."""
    with filled(milvus("g")) as one:
        people = one._changes.subjects
        (person,) = people.find(["a"])["a"]
        people.put([person._replace(state=changing.COMING, changed=changing.now())])
        with Gallery.open(milvus("g")) as other:
            assert state(other) == [("b", 3), ("c", 1)]
            assert other.sample_count == 6
        people.put([person])
        assert state(one) == [("a", 2), ("b", 3), ("c", 1)]


@pytest.mark.long
def test_mergers_of_mergers_that_nobody_finished(milvus, monkeypatch):
    """a was merged into b, and b into c, before anybody moved a sample."""
    with filled(milvus("g")) as gallery:
        people = gallery._changes.subjects
        a, b, c = (people.find([name])[name][0] for name in "abc")
        people.put([a._replace(name="", state=b.number), b._replace(name="", state=c.number)])
        assert state(gallery) == [("c", 6)]
    monkeypatch.setattr(changing, "LONGEST_MERGE", 0.0)
    with Gallery.open(milvus("g")) as gallery:
        assert state(gallery) == [("c", 6)]
        assert gallery._changes.subjects.unfinished() == []
        assert gallery._changes.samples.count([c.number]) == 6
        gallery.remove("c")
        assert (len(gallery), gallery.sample_count) == (0, 0)


@pytest.mark.long
def test_an_import_that_is_interrupted_leaves_nobody(milvus, tmp_path, monkeypatch):
    with filled(milvus("source")) as gallery:
        gallery.export(tmp_path / "g.parquet")
    monkeypatch.setattr("arcset.recognition.gallery.parquet._BATCH", 2)
    call = Connection.call
    count = 0

    def failing(self, method, *args, **options):
        nonlocal count
        count += method == "insert"
        if count > 4:
            raise Killed
        return call(self, method, *args, **options)

    with Gallery.open(milvus("g"), dim=8) as gallery:
        with monkeypatch.context() as patch:
            patch.setattr(Connection, "call", failing)
            with pytest.raises(Killed):
                gallery.import_file(tmp_path / "g.parquet")
        assert len(gallery) == 0
        assert gallery.subjects() == ()
        assert gallery.search(np.eye(8)[:1])[0] == [()]
        monkeypatch.setattr(changing, "LONGEST_BATCH", 0.1)  # it is not waited for any longer
        assert gallery.import_file(tmp_path / "g.parquet")
        assert state(gallery) == [("a", 2), ("b", 3), ("c", 1)]

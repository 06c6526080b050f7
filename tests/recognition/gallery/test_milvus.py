"""A gallery in Milvus that several processes ask and change, and a server that comes and goes.

In `make test` it is in a folder of Milvus Lite; in `make test-all` on a real server, too.
"""

import os
import random
import signal
import socket
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pymilvus
import pytest

from arcset import DataError, Gallery, OptionError
from arcset.data.embeddings import EmbeddingSet, write_embeddings
from arcset.recognition.gallery.enroll import import_embeddings
from arcset.recognition.gallery.milvus import Client, MilvusGallery
from support.galleries import brute_force, unit
from support.gallery_watching import killed
from support.gallery_writer import enroll_again_and_again, enroll_on
from support.milvus_server import milvus_server

LONG = pytest.mark.long


@pytest.fixture(params=["lite", pytest.param("server", marks=LONG)])
def location(request, make_location):
    return make_location(request.param)


def listed(gallery):
    return {one.name: one.samples for one in gallery.subjects()}


def test_under_strong_consistency_each_sees_what_the_other_did(location):
    path = f"{location('seen')}?consistency=strong"
    with Gallery.open(path, dim=4) as one, Gallery.open(path) as other:
        one.enroll("anna", embeddings=np.eye(4)[:2])
        assert other.search(np.eye(4)[:1], 1)[0] == [("anna",)]
        other.enroll("ben", embeddings=np.eye(4)[2])
        assert one.identify(embedding=np.eye(4)[2], threshold=0.9).subject == "ben"
        one.rename("ben", "benjamin")
        assert other.identify(embedding=np.eye(4)[2], threshold=0.9).subject == "benjamin"
        other.enroll("ben", embeddings=np.eye(4)[3])  # a name that is free again
        assert set(listed(one)) == {"anna", "ben", "benjamin"}
        one.merge("ben", "anna")
        assert (len(other), other.sample_count) == (2, 4)
        assert other.verify("anna", embedding=np.eye(4)[3], threshold=0.9).same
        with Gallery.open(path, scoring="mean"):
            pass
        assert one.search(np.eye(4)[:1], 1)[1] == pytest.approx(1 / 3)
        other.remove("anna")
        assert one.search(np.eye(4)[:1], 5)[0] == [("benjamin",)]
        one.compact()
        assert listed(other) == {"benjamin": 1}


def test_a_session_sees_its_own_changes_at_once(location):
    with Gallery.open(location("own"), dim=8) as gallery:
        for step in range(5):
            rows = unit(3, 8, step)
            gallery.enroll(f"{step}", embeddings=rows)
            assert gallery.search(rows[:1], 1)[0] == [(f"{step}",)]
            assert (len(gallery), gallery.sample_count) == (2, 6) if step else (1, 3)
            if step:
                assert gallery.remove(f"{step - 1}") == 3
                assert gallery.subjects()[0].name == f"{step}"
                assert (len(gallery), gallery.sample_count) == (1, 3)
        gallery.rename("4", "four")
        assert listed(gallery) == {"four": 3}
    with Gallery.open(location("own"), read_only=True) as gallery:  # and all that was there before
        assert listed(gallery) == {"four": 3}


def test_a_session_sees_what_others_did_a_moment_later(location):
    with Gallery.open(location("others"), dim=4) as one, Gallery.open(location("others")) as other:
        one.enroll("anna", embeddings=np.eye(4)[0])
        assert len(one) == 1
        other.enroll("ben", embeddings=np.eye(4)[1])
        deadline = time.monotonic() + 20
        while len(one) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert one.search(np.eye(4)[1], 1)[0] == [("ben",)]


def test_a_rename_that_breaks_off_loses_nothing(location, monkeypatch):
    with Gallery.open(location("renamed"), dim=4) as gallery:
        gallery.enroll("anna", embeddings=np.eye(4)[:2], sources=["1.png", "2.png"])
        with monkeypatch.context() as patch:
            patch.setattr(pymilvus.MilvusClient, "delete", broken)
            with pytest.raises(DataError, match="renamed"):
                gallery.rename("anna", "anne")
        assert listed(gallery) == {"anna": 2, "anne": 2}
        gallery.remove("anna")
        assert [sample.source for sample in gallery.samples("anne")] == ["1.png", "2.png"]


def broken(*args, **options):
    raise pymilvus.MilvusException(message="broken")


def test_an_import_that_breaks_off_drops_nothing_that_is_stored(location, monkeypatch, tmp_path):
    """Even where the rows are not counted yet, as under a weak consistency."""
    write_embeddings(tmp_path / "rows.npz", EmbeddingSet.of(np.eye(4), range(4)))
    count, add = Client.count, MilvusGallery._add

    def count_late(client, level=None):
        return count(client, level) if level == "Strong" else 0

    def break_off(gallery, batches):
        add(gallery, batches)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Client, "count", count_late)
        patch.setattr(MilvusGallery, "_add", break_off)
        with pytest.raises(KeyboardInterrupt):
            import_embeddings(location("broken"), tmp_path / "rows.npz")
    with Gallery.open(location("broken")) as gallery:
        assert gallery.sample_count == 4


def test_sizes_that_could_not_be_read_are_asked_for_again(location, monkeypatch):
    with Gallery.open(location("sizes"), dim=4) as gallery:
        gallery.enroll_many("ab", embeddings=np.eye(4)[:2])
        with monkeypatch.context() as patch:
            patch.setattr(Client, "walk", broken)
            with pytest.raises(pymilvus.MilvusException):
                len(gallery)
        assert (len(gallery), gallery.sample_count) == (2, 2)


def test_a_gallery_that_cannot_be_made_leaves_nothing(location, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(pymilvus.MilvusClient, "load_collection", broken)
        with pytest.raises(DataError, match="half"):
            Gallery.open(location("half"), dim=4)
        patch.setattr(
            pymilvus.MilvusClient, "get_server_version", lambda *args, **options: "v2.2.16"
        )
        with pytest.raises(DataError, match=r"2\.2\.16.*2\.3"):
            Gallery.open(location("half"), dim=4)
    assert not Gallery.exists(location("half"))


def test_a_gallery_that_was_half_made_is_made_whole(location):
    path = location("half")
    collection = path.rpartition("/")[2]
    Gallery.open(path, dim=4).close()
    client = client_of(path)
    client.release_collection(collection)
    client.drop_index(collection, "embedding")
    with Gallery.open(path) as gallery:
        gallery.enroll("anna", embeddings=np.eye(4)[0])
        assert listed(gallery) == {"anna": 1}


def client_of(path):
    base = path.rpartition("/")[0].removeprefix("milvus:")
    return pymilvus.MilvusClient(f"http:{base}" if base.startswith("//127") else base)


def test_the_collection_of_another_program(location):
    path = location("foreign")
    collection, client = path.rpartition("/")[2], client_of(path)
    client.create_collection(collection, dimension=4)
    client.insert(collection, [{"id": 1, "vector": [0, 0, 0, 1]}])
    with pytest.raises(DataError, match="foreign"):
        Gallery.open(path, dim=4)
    rows = client.query(collection, filter="id == 1", consistency_level="Strong")
    assert [row["id"] for row in rows] == [1]


def test_the_index_that_there_is(location):
    path = location("graph")
    with Gallery.open(f"{path}?index=hnsw", dim=8) as gallery:
        rows = unit(200, 8)
        gallery.enroll_many([f"{number}" for number in range(200)], embeddings=rows)
        names, scores = gallery.search(rows, 1)
        assert sum(name == (f"{number}",) for number, name in enumerate(names)) > 190
        assert scores[0, 0] == pytest.approx(1)
    Gallery.open(path).close()
    with pytest.raises(OptionError, match=r"hnsw.*flat"):
        Gallery.open(f"{path}?index=flat")


@LONG
@pytest.mark.parametrize("scoring", ["max", "mean"])
def test_a_subject_of_more_samples_than_milvus_gives_at_once(location, scoring):
    rng = np.random.default_rng(0)
    crowd = np.eye(8)[0] + 0.01 * rng.normal(size=(17_000, 8))
    rows = np.concatenate([crowd, rng.normal(size=(40, 8))])
    names = ["crowd"] * len(crowd) + [f"{number}" for number in range(40)]
    with Gallery.open(location("crowd"), dim=8, scoring=scoring) as gallery:
        gallery.enroll_many(names, embeddings=rows)
        held, owners = gallery.labelled()
        assert owners == tuple(names)
        samples = {name: held[-40 + int(name)][None] for name in names[-40:]}
        probe = np.eye(8, dtype=np.float32)[0]
        expected = brute_force({"crowd": held[:-40]} | samples, probe, scoring)[:3]
        (found,), scores = gallery.search(probe, 3)
        assert found == tuple(name for name, _ in expected)
        assert scores[0] == pytest.approx([score for _, score in expected], abs=1e-6)
        assert gallery.remove("crowd") == 17_000
        assert (len(gallery), gallery.sample_count) == (40, 40)


@pytest.mark.parametrize("kind", ["lite", pytest.param("server", marks=LONG)])
@pytest.mark.timeout(1200)
def test_killed_writers_leave_whole_samples(request, tmp_path, kind):
    """Whoever was told to be enrolled is, with all samples; those of one message come together."""
    kills = 1 if kind == "lite" else 10
    path = f"milvus:{tmp_path}/people.db/killed"
    if kind == "server":
        path = f"{request.getfixturevalue('server')[0]}/killed"
    Gallery.open(path, dim=8).close()
    rng, told = random.Random(0), []
    for seed in range(kills):
        pause = rng.uniform(0, 0.1)
        told += killed(enroll_on, rng.randint(3, 9), pause, path=path, seed=seed)
        with Gallery.open(path, read_only=True) as gallery:
            seen = listed(gallery)
            assert set(seen.values()) == {3}
            rows, names = gallery.labelled()
            assert Counter(names) == seen
            assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    enrolled = {name for name in told if not name.endswith("gone")}
    removed = {name.removesuffix(" is gone") for name in told if name.endswith("gone")}
    assert enrolled <= set(seen)
    assert not removed & set(seen)
    assert len(seen) <= len(enrolled) + kills  # those that each was killed in


@LONG
def test_two_processes_enroll_the_same_subjects_at_once(server):
    path, count = f"{server[0]}/race", 100
    Gallery.open(path, dim=64).close()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        told = list(pool.map(enroll_again_and_again, [path] * 2, [0, 1], [count] * 2))
    with Gallery.open(path) as gallery:
        assert listed(gallery) == {f"subject {number}": 2 * count // 10 for number in range(10)}
        ids = [sample.id for name in listed(gallery) for sample in gallery.samples(name)]
    assert sorted(ids) == sorted(number for made, _ in told for number in made)
    assert len(set(ids)) == 2 * count
    assert min(rate for _, rate in told) >= 20


@LONG
@pytest.mark.timeout(600)
def test_a_server_that_is_killed_and_comes_back(tmp_path):
    rows = unit(500, 16)
    with milvus_server(tmp_path) as (address, process):
        gallery = Gallery.open(f"{address}/people", dim=16)
        gallery.enroll_many([f"{number // 2}" for number in range(500)], embeddings=rows)
        os.kill(process, signal.SIGKILL)
        with pytest.raises(DataError, match="people"):
            gallery.enroll("late", embeddings=rows[:1])
    with milvus_server(tmp_path) as (again, _), gallery:
        assert again == address
        assert answered(lambda: gallery.search(rows[:1], 1))[0] == [("0",)]
        assert listed(gallery) == {f"{number}": 2 for number in range(250)}
        assert np.array_equal(gallery.labelled()[0], rows)
        gallery.enroll("late", embeddings=rows[:1])
        assert len(gallery) == 251


@LONG
def test_no_answer_in_time(tmp_path):
    with (
        milvus_server(tmp_path) as (address, process),
        Gallery.open(address + "/late", dim=4) as gallery,
    ):
        gallery.enroll("anna", embeddings=np.eye(4)[0])
        os.kill(process, signal.SIGSTOP)
        try:
            with pytest.raises(DataError, match="late") as caught:
                gallery.enroll("ben", embeddings=np.eye(4)[1])
        finally:
            os.kill(process, signal.SIGCONT)
        assert "\n" not in str(caught.value)


def answered(ask, seconds=120):
    """The answer of a server that has to find itself again."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except DataError:
            assert time.monotonic() < deadline
            time.sleep(1)


def test_nobody_there():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        address = f"milvus://anna:secret@127.0.0.1:{port}/people"
        with pytest.raises(DataError, match=f"127.0.0.1:{port}") as caught:
            Gallery.open(address, dim=4)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)

"""A gallery in Milvus that many processes and threads ask and change.

In `make test` it is in a folder of Milvus Lite, and in `make test-all` in a server, too.
"""

import random
import signal
import socket
import threading
from collections import Counter

import numpy as np
import pytest

from arcset import DataError, Gallery, OptionError
from arcset.recognition.gallery.milvus import changing
from support.galleries import unit
from support.gallery_writer import enroll_on
from support.milvus_server import milvus_server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with milvus_server(tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture(params=["lite", pytest.param("server", marks=pytest.mark.long)])
def base(request):
    """What an address begins with, and what `MilvusClient` calls that."""
    if request.param == "server":
        server = request.getfixturevalue("server")
        return str(server), server.replace("milvus:", "http:")
    path, _ = request.getfixturevalue("lite")
    return f"milvus:{path}", str(path)


def listed(gallery):
    return {one.name: one.samples for one in gallery.subjects()}


def test_each_sees_what_the_other_did(base):
    path = f"{base[0]}/seen"
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


@pytest.mark.long
def test_the_same_new_names_by_many_at_once(server):
    """Nobody is enrolled twice, no sample is lost, and no number is given twice."""
    path, count = f"{server}/race", 4
    galleries = [Gallery.open(path, dim=8) for _ in range(count)]
    began, made, failures = threading.Barrier(count), [], []

    def enroll(seed):
        try:
            for step in range(5):
                began.wait()
                rows = unit(2, 8, 10 * seed + step)
                made.extend(galleries[seed].enroll(f"name {step}", embeddings=rows))
        except BaseException as error:
            failures.append(error)
            began.abort()

    threads = [threading.Thread(target=enroll, args=(seed,)) for seed in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(set(made)) == len(made) == 5 * 2 * count
    for gallery in galleries:
        assert listed(gallery) == {f"name {step}": 2 * count for step in range(5)}
        assert (len(gallery), gallery.sample_count) == (5, 10 * count)
        gallery.close()


def kill_writers(writers, path, kills, merging):
    """Kill writers one after the other; the names that they told, and whom a reader sees then."""
    Gallery.open(path, dim=8).close()
    told, rng = [], random.Random(kills)
    for seed in range(kills):
        task = {"path": path, "seed": seed, "merging": merging}
        told += writers.killed(enroll_on, rng.randint(3, 9), rng.uniform(0, 0.1), **task)
        with Gallery.open(path, read_only=True) as gallery:
            seen = listed(gallery)
            assert Counter(count % 3 for count in seen.values()) == {0: len(seen)}
    return told, seen


@pytest.mark.parametrize("kind", ["lite", pytest.param("server", marks=pytest.mark.long)])
def test_killed_processes(request, tmp_path, writers, kind):
    """Whoever was told to be enrolled is, with all samples; nobody is there by halves."""
    path = f"milvus:{tmp_path}/people.db/killed"
    if kind == "server":
        path = f"{request.getfixturevalue('server')}/killed"
    told, seen = kill_writers(writers, path, 1, merging=False)
    assert set(seen.values()) == {3}
    gone = {name.removesuffix(" is gone") for name in told if name.endswith("gone")}
    assert gone
    assert set(told) & set(seen) == {name for name in told if not name.endswith("gone")}
    assert not gone & set(seen)
    assert len(seen) <= len(told) - len(gone) + 1  # and the one that it was killed in
    with Gallery.open(path) as gallery:
        rows, names = gallery.labelled()
        assert [one for (one,) in gallery.search(rows, 1)[0]] == list(names)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_killed_processes_are_healed(server, writers, monkeypatch):
    """Goes with the states of subjects and their healing, as mergers that are done at once."""
    path = f"{server}/healed"
    told, seen = kill_writers(writers, path, 25, merging=True)
    for name in told:
        _, _, number = name.partition("-")
        if "gone" in number or int(number) % 3 == 1:
            continue  # removed, or merged into the one before as soon as the next came
        assert name in seen, name
    monkeypatch.setattr(changing, "LONGEST_ENROLLMENT", 0.0)
    monkeypatch.setattr(changing, "LONGEST_MERGE", 0.0)
    with Gallery.open(path) as gallery:
        assert listed(gallery) == seen
        assert gallery.sample_count == sum(seen.values())
        assert len(gallery) == len(seen)


def test_nobody_there():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        address = f"milvus://anna:secret@127.0.0.1:{port}/people"
        with pytest.raises(DataError, match=f"127.0.0.1:{port}") as caught:
            Gallery.open(address, dim=4)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.long
def test_no_answer_in_time(server, monkeypatch):
    with Gallery.open(f"{server}/late", dim=4) as gallery:
        gallery.enroll("anna", embeddings=np.eye(4)[0])
        monkeypatch.setattr("arcset.recognition.gallery.milvus.connection._PATIENCE", 0.3)
        server.process.send_signal(signal.SIGSTOP)
        try:
            for ask in (
                lambda: gallery.identify(embedding=np.eye(4)[0], threshold=0.5),
                lambda: gallery.rename("anna", "ben"),
            ):
                with pytest.raises(DataError, match="late") as caught:
                    ask()
                assert "\n" not in str(caught.value)
        finally:
            server.process.send_signal(signal.SIGCONT)
        monkeypatch.undo()
        assert listed(gallery) == {"anna": 1}


def test_a_collection_of_somebody_else(base):
    from pymilvus import MilvusClient

    client = MilvusClient(base[1])
    client.create_collection("foreign", dimension=4)
    client.insert("foreign", [{"id": 1, "vector": [0, 0, 0, 1]}])
    with pytest.raises(DataError, match="foreign"):
        Gallery.open(f"{base[0]}/foreign", dim=4)
    assert client.query("foreign", filter="id == 1", output_fields=["id"])[0]["id"] == 1
    assert not client.has_collection("foreign_about")
    client.close()


def test_the_index_that_there_is(base):
    with Gallery.open(f"{base[0]}/graph?index=hnsw&consistency=session", dim=8) as gallery:
        rows = unit(200, 8)
        gallery.enroll_many([f"{number}" for number in range(200)], embeddings=rows)
        names, scores = gallery.search(rows, 1)
        assert sum(name == (f"{number}",) for number, name in enumerate(names)) > 190
        assert scores[0, 0] == pytest.approx(1)
    Gallery.open(f"{base[0]}/graph").close()
    with pytest.raises(OptionError, match=r"hnsw.*flat"):
        Gallery.open(f"{base[0]}/graph?index=flat")
    with pytest.raises(OptionError, match="diskann"):
        Gallery.open(f"{base[0]}/disk?index=diskann", dim=8)

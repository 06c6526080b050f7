"""How samples, their numbers and calibrations lie in Milvus, and how they are read in parts.

Goes with the way in which they lie there, into which these tests reach.
"""

import threading

import numpy as np
import pytest

from arcset import DataError, Gallery
from arcset.evaluation import make_thresholds
from arcset.recognition.gallery.milvus import about, changing
from arcset.recognition.gallery.milvus.connection import Connection
from arcset.recognition.gallery.milvus.numbers import Numbers
from support.galleries import brute_force, unit


def listed(gallery):
    return {one.name: one.samples for one in gallery.subjects()}


@pytest.mark.long
def test_a_calibration_in_many_parts(milvus, monkeypatch):
    rows = np.repeat(unit(60, 4), 2, axis=0) + 0.1 * unit(120, 4, seed=1)
    first = make_thresholds(rows, np.arange(120) // 2, galleries=[20])
    second = make_thresholds(rows[20:], np.arange(100) // 2, galleries=[20])
    monkeypatch.setattr(about, "_PART", 3000)
    with Gallery.open(milvus("g"), dim=4) as gallery:
        for made in (first, second):
            gallery.set_thresholds(made)
            assert gallery.thresholds.json() == made.json()
        keys = gallery._connection.query(gallery._collections.about, 'key like "cal%"', ["key"])
        assert len(keys) == -(-len(about.json.dumps(second.json())) // 3000)  # none of the first
        gallery._connection.delete(gallery._collections.about, [keys[1]["key"]])
    with Gallery.open(milvus("g")) as gallery:
        with pytest.raises(DataError, match="g_"):
            _ = gallery.thresholds
        gallery.set_thresholds(None)
        assert gallery.thresholds is None


@pytest.mark.long
def test_damaged_settings_are_told(milvus):
    with Gallery.open(milvus("g"), dim=4) as gallery:
        gallery._about.write(dim="many")
        with pytest.raises(DataError, match="g_"):
            gallery.identify(embedding=np.eye(4)[0], threshold=0.5)
        gallery._about.write(dim=None)
    with pytest.raises(DataError, match=r"g_.*'dim'"):
        Gallery.open(milvus("g"))


def test_numbers_are_claimed_once(milvus):
    with Gallery.open(milvus("g"), dim=8) as gallery:
        makers = [Numbers(gallery._connection, gallery._collections, "sample") for _ in range(4)]
        taken = []

        def take(maker):
            for _ in range(3):
                taken.extend(maker.take(700))

        threads = [threading.Thread(target=take, args=(maker,)) for maker in makers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == len(set(taken)) == 4 * 3 * 700
        assert len(makers[0]._claims()) <= len(makers)  # those of no use are taken away


def test_removed_while_samples_come(milvus, monkeypatch):
    """Enrolled after it was removed: it is there, with what came last, and nothing is lost."""
    path = milvus("g")
    with Gallery.open(path, dim=8) as one, Gallery.open(path) as other:
        one.enroll("anna", embeddings=unit(2, 8))
        add = changing.Changes(one._connection, one._collections, 8).samples.add

        def slow(*args):
            monkeypatch.setattr(one._changes.samples, "add", add)
            other.remove("anna")
            return add(*args)

        monkeypatch.setattr(one._changes.samples, "add", slow)
        one.enroll("anna", embeddings=unit(3, 8, 1))
        assert listed(one) == {"anna": 3}
        assert other.sample_count == 3


@pytest.mark.long
def test_no_answer_is_too_long(milvus, monkeypatch):
    """Milvus gives 64 MB at once, whatever is asked for: more probes take more questions."""
    rows, search, sizes = unit(200, 16), Connection.search, []

    def measured(self, collection, probes, limit, fields, parameters):
        found = search(self, collection, probes, limit, fields, parameters)
        sizes.append(4 * 16 * sum(map(len, found)))
        return found

    names = [f"{number}" for number in range(200)]
    gallery = Gallery.open(milvus("g"), dim=16)
    gallery.enroll_many(names, embeddings=rows)
    samples = {name: [row] for name, row in zip(names, rows, strict=True)}
    monkeypatch.setattr(Connection, "search", measured)
    monkeypatch.setattr("arcset.recognition.gallery.milvus.samples._ANSWER", 4 * 16 * 100)
    with gallery:
        probes = unit(20, 16, seed=4)
        names, _ = gallery.search(probes, 10)
        assert [list(one) for one in names] == [
            [name for name, _ in brute_force(samples, probe, "max")[:10]] for probe in probes
        ]
    assert len(sizes) >= 10
    assert max(sizes) <= 4 * 16 * 100

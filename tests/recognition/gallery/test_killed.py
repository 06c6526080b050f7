"""Writers killed at any moment: what they were told is kept is there, and nothing is half done."""

import json
import random
import threading
import time

import numpy as np
import pytest

from arcset.recognition.gallery import Gallery
from support.galleries import bytes_of
from support.gallery_watching import Server, as_sets, held, left_of
from support.gallery_writer import DIM, applied, vector


@pytest.fixture(scope="module")
def server():
    found = Server()
    yield found
    found.process.kill()
    found.process.wait()


@pytest.mark.parametrize("kills", [20, pytest.param(300, marks=pytest.mark.long)])
def test_every_acknowledged_change_survives(tmp_path, server, kills):
    path, rng = tmp_path / "people.db", random.Random(kills)
    Gallery.open(path, dim=DIM).close()
    state, key, keys, done = {}, 1, {}, 0
    for seed in range(kills):
        task = {"path": str(path), "seed": seed, "first": key, "state": state}
        lines = server.killed(task, rng.randint(0, 6), rng.random() ** 2 * 0.03)
        begun = [json.loads(line) for line in lines if line.startswith("{")]
        finished = lines.count("done")
        assert finished <= len(begun) <= finished + 1
        done += finished
        for change in begun:
            for number in change.get("keys", ()):
                keys[vector(number).tobytes()] = number
                key = max(key, number + 1)
        for change in begun[:finished]:
            state = applied(state, change)
        allowed = [state, *(applied(state, change) for change in begun[finished:])]
        with Gallery.open(path) as gallery:
            found = held(gallery, keys)
            assert as_sets(found) in [as_sets(one) for one in allowed]
            gallery._store.check_equal()
            database = gallery._store.database
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert database.execute("PRAGMA foreign_key_check").fetchall() == []
            assert {one.name: one.samples for one in gallery.subjects()} == {
                name: len(rows) for name, rows in found.items()
            }
            kept = {vector(number).tobytes() for rows in found.values() for number in rows}
            content = bytes_of(path)  # a removal that was cut short is finished by opening
            assert left_of(list(kept), content) == kept
            assert not left_of(list(keys.keys() - kept), content)
        state = found
    assert done > kills  # they did get to work
    assert np.all([len(rows) for rows in state.values()])


def test_settings_that_make_it_so(tmp_path):
    with Gallery.open(tmp_path / "g.db", dim=3) as gallery:
        ask = gallery._store.database.execute
        wanted = {
            "journal_mode": "wal",
            "synchronous": 2,
            "secure_delete": 1,
            "foreign_keys": 1,
            "trusted_schema": 0,
            "cell_size_check": 1,
            "fullfsync": 1,
            "application_id": 0x41724753,
            "user_version": 1,
        }
        found = {name: ask(f"PRAGMA {name}").fetchone()[0] for name in wanted}
    assert found == wanted


def test_a_reader_sees_whole_changes_only(tmp_path, server):
    path = tmp_path / "people.db"
    Gallery.open(path, dim=DIM).close()
    lines, seen, states = [], [], [{}]
    with Gallery.open(path, read_only=True) as reader:
        task = {"path": str(path), "seed": 5, "first": 1, "state": {}}
        watcher = threading.Thread(
            target=lambda: lines.extend(server.killed(task, changes=25, pause=0.01))
        )
        watcher.start()
        while watcher.is_alive():
            seen.append(reader.labelled())
            time.sleep(0.001)
        watcher.join()
        seen.append(reader.labelled())
        reader._store.check_equal()
    keys = {}
    for line in lines:
        if line.startswith("{"):
            change = json.loads(line)
            states.append(applied(states[-1], change))
            keys |= {vector(number).tobytes(): number for number in change.get("keys", ())}
    known = [as_sets(state) for state in states]
    places = []
    for embeddings, names in seen:
        found = {}
        for row, name in zip(embeddings, names, strict=True):
            found.setdefault(name, []).append(keys[row.tobytes()])
        places.append(known.index(as_sets(found)))
    assert places == sorted(places)  # never back
    assert len(set(places)) > 3
    assert places[-1] >= lines.count("done")
    with Gallery.open(path) as gallery:
        assert as_sets(held(gallery, keys)) == known[places[-1]]

"""Writers killed at any moment: what they were told is kept is there, and nothing is half done."""

import random
import sqlite3
import threading
import time
from contextlib import closing

import pytest

from arcset import Gallery
from support.galleries import bytes_of
from support.gallery_watching import as_sets, held, killed, left_of
from support.gallery_writer import DIM, applied, change_on, vector


def check_file(path):
    """SQLite itself finds nothing wrong."""
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.parametrize("kills", [15, pytest.param(300, marks=pytest.mark.long)])
def test_every_acknowledged_change_survives(tmp_path, kills):
    path, rng = tmp_path / "people.db", random.Random(kills)
    Gallery.open(path, dim=DIM).close()
    state, key, keys, removed, done = {}, 1, {}, set(), 0
    for seed in range(kills):
        messages = killed(
            change_on,
            rng.randint(0, 6),
            rng.random() ** 2 * 0.03,
            path=str(path),
            seed=seed,
            first=key,
            state=state,
        )
        begun = [message for message in messages if message != "done"]
        finished = messages.count("done")
        assert finished <= len(begun) <= finished + 1
        done += finished
        for change in begun:
            for number in change.get("keys", ()):
                keys[vector(number).tobytes()] = number
                key = max(key, number + 1)
        for change in begun[:finished]:
            if change["kind"] == "remove":
                removed |= {vector(number).tobytes() for number in state[change["name"]]}
            state = applied(state, change)
        allowed = [state, *(applied(state, change) for change in begun[finished:])]
        with Gallery.open(path) as gallery:
            found = held(gallery, keys)
            assert as_sets(found) in [as_sets(one) for one in allowed]
            assert {one.name: one.samples for one in gallery.subjects()} == {
                name: len(rows) for name, rows in found.items()
            }
            rows, names = gallery.labelled()
            if names:  # the last are those that came in most lately
                assert [one for (one,) in gallery.search(rows[-9:], 1)[0]] == list(names[-9:])
            content = bytes_of(path)
            kept = {row.tobytes() for row in rows}
            assert left_of(list(kept), content) == kept
            assert not left_of(list(removed), content)
        check_file(path)
        state = found
    assert done > kills  # they did get to work
    assert len(removed) > kills // 5
    with Gallery.open(path) as gallery:  # nor is anything left of removals that were cut short
        gallery.compact()
        kept = {row.tobytes() for row in gallery.labelled()[0]}
        assert not left_of(list(keys.keys() - kept), bytes_of(path))


def test_settings_that_make_it_so(tmp_path, monkeypatch):
    """No test can cut the power: what SQLite is told is all that can be looked at."""
    made, connect = [], sqlite3.connect
    monkeypatch.setattr(
        sqlite3,
        "connect",
        lambda *words, **options: made.append(connect(*words, **options)) or made[-1],
    )
    wanted = {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "foreign_keys": 1}
    Gallery.open(tmp_path / "g.db", dim=3).close()
    made.clear()
    with Gallery.open(tmp_path / "g.db"):
        asked = {name: made[0].execute(f"PRAGMA {name}").fetchone()[0] for name in wanted}
    assert asked == wanted


def test_a_reader_sees_whole_changes_only(tmp_path):
    path = tmp_path / "people.db"
    Gallery.open(path, dim=DIM).close()
    messages, seen, states = [], [], [{}]
    task = {"path": str(path), "seed": 5, "first": 1, "state": {}}
    with Gallery.open(path, read_only=True) as reader:
        watcher = threading.Thread(
            target=lambda: messages.extend(killed(change_on, 25, 0.01, **task))
        )
        watcher.start()
        while watcher.is_alive():
            seen.append(reader.labelled())
            time.sleep(0.001)
        watcher.join()
        seen.append(reader.labelled())
    keys = {}
    for change in messages:
        if change != "done":
            states.append(applied(states[-1], change))
            keys |= {vector(number).tobytes(): number for number in change.get("keys", ())}
    known = [as_sets(state) for state in states]
    positions = [0]
    for embeddings, names in seen:
        found = {}
        for row, name in zip(embeddings, names, strict=True):
            found.setdefault(name, []).append(keys[row.tobytes()])
        positions.append(known.index(as_sets(found), positions[-1]))  # never back
    assert len(set(positions)) > 3
    last = known[positions[-1]]
    assert last in known[messages.count("done") :]
    with Gallery.open(path) as gallery:
        assert as_sets(held(gallery, keys)) == last

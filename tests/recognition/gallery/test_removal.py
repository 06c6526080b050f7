"""What is removed is in none of the gallery's files any more, byte for byte."""

import random
import threading

import numpy as np
import pytest

from arcset.errors import DataError
from arcset.recognition.gallery import Gallery, database
from support.galleries import bytes_of, unit


class Person:
    """Random bytes for everything that a gallery can know about somebody."""

    def __init__(self, number, image=5000):
        rng = random.Random(number)
        self.name = f"name {rng.getrandbits(64):x}"
        self.source = f"source {rng.getrandbits(64):x}"
        self.image = rng.randbytes(image)
        self.vector = unit(1, 64, seed=number)[0]

    def enroll(self, gallery):
        gallery.enroll(self.name, [self.image], embeddings=self.vector, sources=[self.source])
        (row,) = np.flatnonzero(gallery._store.index.ids == gallery._store.last_sample)
        self.bytes = gallery._store.index.matrix[row].tobytes()
        self.digest = bytes.fromhex(gallery.samples(self.name)[0].digest)

    def traces(self):
        """Short pieces of everything, so that half a copy is found as well."""
        parts = [self.name.encode(), self.source.encode(), self.digest]
        for whole in (self.bytes, self.image):
            parts += [whole[:16], whole[-16:], whole[len(whole) // 2 :][:16]]
        return parts

    def found_in(self, content):
        return [part for part in self.traces() if part in content]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "people.db"


def test_nothing_is_left(path):
    people = [Person(number) for number in range(5)]
    with Gallery.open(path, dim=64, keep_images=True) as gallery:
        for person in people:
            person.enroll(gallery)
        for person in people:  # the search finds what is there
            assert person.found_in(bytes_of(path)) == person.traces()
        gallery.remove(people[1].name)
        gallery.remove_sample(4)
        for number, person in enumerate(people):
            found = person.found_in(bytes_of(path))
            assert found == ([] if number in (1, 3) else person.traces())
        gallery.rename(people[0].name, "somebody else entirely")
        gallery.merge(people[2].name, people[4].name)
        content = bytes_of(path)
        assert people[0].name.encode() not in content
        assert people[2].name.encode() not in content
        assert people[4].name.encode() in content


def test_nothing_is_left_after_many_changes(path, monkeypatch):
    """SQLite moves rows between pages, and would leave copies that later removals do not reach."""
    fast = tuple(one.replace("FULL", "OFF") for one in database._SETTINGS)
    monkeypatch.setattr(database, "_SETTINGS", fast)  # hundreds of commits, whatever the disk
    rng, here, removed = random.Random(0), [], []
    with Gallery.open(path, dim=64, keep_images=True) as gallery:
        for number in range(400):
            draw = rng.random()
            if draw < 0.55 or len(here) < 4:
                here.append(Person(number, image=rng.choice([50, 700, 9000])))
                here[-1].enroll(gallery)
            elif draw < 0.65:
                person = rng.choice(here)
                old, person.name = person.name, f"again {'x' * rng.randint(0, 200)} {number}"
                gallery.rename(old, person.name)
                assert old.encode() not in bytes_of(path)
            else:
                removed.append(here.pop(rng.randrange(len(here))))
                gallery.remove(removed[-1].name)
                assert removed[-1].found_in(bytes_of(path)) == []
            if number == 250:
                gallery.compact()
        content = bytes_of(path)
        assert len(removed) > 100
        assert [person.name for person in removed if person.found_in(content)] == []
        assert [person.name for person in here if person.found_in(content) != person.traces()] == []
        gallery._store.check_equal()


def test_room_is_used_again(path, monkeypatch):
    monkeypatch.setattr("arcset.recognition.gallery.compacting._WORTH", 20)
    rows = unit(60, 512)
    with Gallery.open(path, dim=512) as gallery:
        gallery.enroll_many([f"{number}" for number in range(60)], embeddings=rows)
        gallery._store.database.checkpoint()
        full = path.stat().st_size
        for number in range(30):
            gallery.remove(f"{number}")
        assert path.stat().st_size >= full
        gallery.remove("30")  # more were removed than are left
        assert path.stat().st_size < 0.8 * full
        assert gallery.enroll("last", embeddings=rows[0]) == (61,)
        gallery.remove("last")
        gallery.compact()
        assert gallery.enroll("anew", embeddings=rows[0]) == (62,)
        assert len(gallery) == 30
        gallery._store.check_equal()
    with Gallery.open(path) as gallery:
        assert gallery.sample_count == 30


def test_writing_anew_that_was_interrupted_is_done_when_opened(path, monkeypatch):
    people = [Person(number) for number in range(30)]
    gallery = Gallery.open(path, dim=64, keep_images=True)
    for person in people:
        person.enroll(gallery)
    for person in people[:20]:
        gallery.remove(person.name)
    full = path.stat().st_size

    def interrupted(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(database.Database, "vacuum", interrupted)
        with pytest.raises(KeyboardInterrupt):
            gallery.compact()
    assert gallery._store.settings.vacuum_due
    assert len(gallery) == 10
    gallery.close()
    with Gallery.open(path) as gallery:
        assert not gallery._store.settings.vacuum_due
        assert path.stat().st_size < 0.7 * full
        assert [one.name for one in gallery.subjects()] == [one.name for one in people[20:]]
        gallery._store.check_equal()


def test_a_reader_in_the_way_is_told_and_the_next_opening_finishes(path, monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 0.05)
    person = Person(1)
    with Gallery.open(path, dim=64, keep_images=True) as gallery:
        person.enroll(gallery)
        with Gallery.open(path) as reader, reader._store.database.reading():
            reader._store.refresh()  # an old state, for as long as this lasts
            with pytest.raises(DataError, match="still reading an older state"):
                gallery.remove(person.name)
            assert len(gallery) == 0
        assert person.found_in(bytes_of(path))
        with Gallery.open(path) as again:
            assert len(again) == 0
            assert person.found_in(bytes_of(path)) == []


def test_readers_that_come_and_go_are_waited_for(path):
    person, stop = Person(1), threading.Event()
    with Gallery.open(path, dim=64, keep_images=True) as gallery:
        person.enroll(gallery)
        gallery.enroll("stays", embeddings=unit(1, 64, seed=99))

        def read():
            with Gallery.open(path, read_only=True) as reader:
                while not stop.is_set():
                    reader.search(unit(1, 64), 1)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        gallery.remove(person.name)
        stop.set()
        for thread in threads:
            thread.join()
        assert person.found_in(bytes_of(path)) == []


def test_nothing_is_left_in_memory_that_is_searched(path):
    with Gallery.open(path, dim=64) as gallery:
        gallery.enroll_many(["a", "b", "c"], embeddings=unit(3, 64))
        before = gallery._store.index.matrix.copy()
        memory = gallery._store.index.matrix
        gallery.remove("c")
        assert np.array_equal(gallery._store.index.matrix, before[:2])
        assert not memory[2].any()

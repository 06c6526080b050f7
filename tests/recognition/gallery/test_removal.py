"""What is removed is in none of the gallery's files any more, byte for byte."""

import random
import sqlite3
import threading
from contextlib import closing

import pytest

from arcset import DataError, Gallery
from support.galleries import bytes_of, check_kept, impatient, unit


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
        rows, names = gallery.labelled()
        self.bytes = rows[names.index(self.name)].tobytes()
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


def test_nothing_is_left_of_single_samples_and_names(path):
    people = [Person(number) for number in range(4)]
    with Gallery.open(path, dim=64, keep_images=True) as gallery:
        for person in people:
            person.enroll(gallery)
        gallery.remove_sample(gallery.samples(people[1].name)[0].id)
        gallery.rename(people[0].name, "another name entirely")
        gallery.merge(people[2].name, people[3].name)
        content = bytes_of(path)
        assert people[1].found_in(content) == []
        assert people[3].found_in(content) == people[3].traces()  # the search finds what is there
        assert people[0].name.encode() not in content
        assert people[2].name.encode() not in content


def test_nothing_is_left_after_many_changes(path):
    """SQLite moves rows between pages, and would leave copies that later removals do not reach."""
    rng, here, removed, changes = random.Random(0), [], [], 120
    with Gallery.open(path, dim=64, keep_images=True) as gallery:
        for number in range(changes):
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
            if number == changes // 2:
                gallery.compact()
        content = bytes_of(path)
        assert len(removed) > changes // 4
        assert [person.name for person in removed if person.found_in(content)] == []
        assert [person.name for person in here if person.found_in(content) != person.traces()] == []
        check_kept(gallery)


def test_room_is_given_back_and_no_number_twice(path):
    rows = unit(60, 512)
    with Gallery.open(path, dim=512) as gallery:
        given = gallery.enroll_many([f"{number}" for number in range(60)], embeddings=rows)
    full = path.stat().st_size
    with Gallery.open(path) as gallery:
        for number in range(31):
            gallery.remove(f"{number}")
        gallery.compact()
        assert path.stat().st_size < 0.8 * full
        (last,) = gallery.enroll("last", embeddings=rows[0])
        gallery.remove("last")
        gallery.compact()
        (anew,) = gallery.enroll("anew", embeddings=rows[0])
        assert len({*given, last, anew}) == 62
        assert len(gallery) == 30
        check_kept(gallery)


def test_a_large_gallery_says_that_it_is_to_be_compacted(path):
    """Writing more than 100 MB anew takes too long for every removal."""
    person, others = Person(1), [random.Random(0).randbytes(1 << 20)] * 100
    with Gallery.open(path, dim=64, keep_images=True) as gallery:
        person.enroll(gallery)
        gallery.enroll_many(["others"] * 100, others, embeddings=unit(100, 64, seed=2))
        with pytest.warns(
            UserWarning, match=rf"{person.name}.*arcset gallery compact .*people\.db"
        ):
            gallery.remove(person.name)
        assert len(gallery) == 1
        gallery.compact()
        assert person.found_in(bytes_of(path)) == []
        assert gallery.sample_count == 100


def test_a_reader_in_the_way_is_told_of(path, monkeypatch):
    """As a backup that is being made: it reads a state in which somebody is there still."""
    impatient(monkeypatch)
    person = Person(1)
    with Gallery.open(path, dim=64, keep_images=True) as gallery:
        person.enroll(gallery)
        with closing(sqlite3.connect(path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            with pytest.raises(DataError, match=r"people\.db"):
                gallery.remove(person.name)
            assert len(gallery) == 0
        assert person.found_in(bytes_of(path))
    with Gallery.open(path) as again:  # finishes what was begun
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

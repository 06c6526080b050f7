"""Several change one gallery in Milvus at the same moment: nobody is lost, or mixed up.

Goes with the states of subjects, their claims and their healing, into which these tests reach to
make others come at the worst of moments. What they protect from the outside is in
`test_milvus_server`. Those that are quick stay in `make test` for so long.
"""

import threading

import numpy as np
import pytest

from arcset import DataError, Gallery
from arcset.evaluation import make_thresholds
from arcset.recognition.gallery.milvus import changing
from arcset.recognition.gallery.milvus.about import About
from arcset.recognition.gallery.milvus.connection import Connection
from arcset.recognition.gallery.milvus.subjects import COMING, HERE, Person
from support.galleries import unit


@pytest.fixture
def both(milvus):
    """Two who have the same gallery open."""
    with Gallery.open(milvus("g"), dim=8) as one, Gallery.open(milvus("g")) as other:
        one.enroll_many(["anna", "anna", "ben"], embeddings=unit(3, 8))
        yield one, other


def listed(gallery):
    found = {one.name: one.samples for one in gallery.subjects()}
    assert len(gallery) == len(found)
    assert gallery.sample_count == sum(found.values())
    return found


def once(monkeypatch, thing, method, *, before=None, after=None):
    """When a method is called for the first time, something happens before it, or thereafter."""
    original = getattr(thing, method)

    def called(*args, **options):
        monkeypatch.setattr(thing, method, original)
        if before is not None:
            before()
        result = original(*args, **options)
        if after is not None:
            after()
        return result

    monkeypatch.setattr(thing, method, called)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda other: other.merge("anna", "ben"), {"anna": 3, "ben": 3}, id="merged"),
        pytest.param(
            lambda other: other.remove("anna"),
            {"anna": 3, "ben": 1},
            id="removed",
            marks=pytest.mark.long,
        ),
        pytest.param(
            lambda other: other.rename("anna", "anne"),
            {"anna": 3, "anne": 2, "ben": 1},
            id="renamed",
            marks=pytest.mark.long,
        ),
    ],
)
def test_samples_come_while_others_change_their_subject(both, monkeypatch, change, expected):
    """They are written when the change has read what there is, and before it has ended."""
    one, other = both
    reached, written = threading.Event(), threading.Event()

    def wait():
        reached.set()
        assert written.wait(30)

    def work():
        change(other)
        reached.set()

    once(monkeypatch, other._changes.subjects, "take_away", before=wait)
    thread = threading.Thread(target=work)

    def begin():
        thread.start()
        assert reached.wait(30)

    once(monkeypatch, one._changes.samples, "add", before=begin)
    rows = unit(3, 8, 1)
    numbers = one.enroll("anna", embeddings=rows)
    written.set()
    thread.join()
    assert listed(one) == expected
    assert [sample.id for sample in one.samples("anna")] == list(numbers)
    assert one.search(rows, 1)[0] == [("anna",)] * 3


def test_mergers_in_opposite_directions(both, monkeypatch):
    one, other = both
    anna, ben = (one._changes.subjects.find([name])[name][0] for name in ("anna", "ben"))
    merged = ben._replace(name="", state=anna.number)
    once(
        monkeypatch,
        one._changes.subjects,
        "put",
        after=lambda: other._changes.subjects.put([merged]),
    )
    with pytest.raises(DataError, match="'ben'"):
        one.merge("anna", "ben")
    assert {name.name: name.samples for name in other.subjects()} == {"anna": 3}


def test_merged_into_somebody_who_is_removed(both, monkeypatch):
    """As if it was done one after the other: all are gone, and no sample stays behind."""
    one, other = both
    (ben,) = one._changes.subjects.find(["ben"])["ben"]
    one._changes.subjects.put([ben._replace(name="", state=10**6)])
    monkeypatch.setattr(changing, "LONGEST_MERGE", 0.0)
    other._changes.heal()
    assert listed(other) == {"anna": 2}


def test_a_name_that_somebody_else_is_about_to_take(both, monkeypatch):
    """Whoever comes gives way to the one renamed; both must not."""
    one, other = both
    coming = Person(10**6, "zoe", COMING, changing.now(), changing.now())
    once(
        monkeypatch,
        one._changes.subjects,
        "put",
        after=lambda: other._changes.subjects.add([coming]),
    )
    one.rename("anna", "zoe")
    other._changes.subjects.take_away([coming.number])
    other.enroll("zoe", embeddings=unit(1, 8, 2))
    assert listed(one) == {"zoe": 3, "ben": 1}


def test_two_who_took_so_long_that_neither_saw_the_other(both, monkeypatch):
    one, other = both
    monkeypatch.setattr(changing, "_ended", lambda person: person.state == COMING)
    put = one._changes.subjects.put

    def late(people):
        monkeypatch.setattr(one._changes.subjects, "put", put)
        assert [person.state for person in people] == [HERE]
        other.enroll("new", embeddings=unit(2, 8, 3))
        put(people)

    monkeypatch.setattr(one._changes.subjects, "put", late)
    one.enroll("new", embeddings=unit(3, 8, 4))
    assert listed(other) == {"anna": 2, "ben": 1, "new": 5}


@pytest.mark.long
@pytest.mark.parametrize("scoring", ["max", "mean", "top-2"])
def test_all_are_removed_while_somebody_is_looked_for(both, monkeypatch, scoring):
    one, other = both
    with Gallery.open(str(one.path), scoring=scoring):
        pass

    def clear():
        other.remove("anna")
        other.remove("ben")

    once(monkeypatch, one._rows.subjects, "owners", after=clear)
    match = one.identify(embedding=unit(1, 8)[0], threshold=0.5)
    assert match.subject == ("anna" if scoring == "max" else None)  # as it was found
    assert one.search(unit(1, 8))[0] == [()]


def some_thresholds(first):
    rows = np.repeat(unit(60, 8), 2, axis=0) + 0.1 * unit(120, 8, seed=1)
    return make_thresholds(rows[first:], np.arange(120 - first) // 2, galleries=[20])


@pytest.mark.long
def test_a_calibration_that_is_replaced_while_it_is_read(both, monkeypatch):
    one, other = both
    first, second = some_thresholds(0), some_thresholds(20)
    other.set_thresholds(first)
    once(monkeypatch, one._about, "calibration", before=lambda: other.set_thresholds(second))
    assert one.thresholds.json() == second.json()
    assert one.thresholds.json() == second.json()


@pytest.mark.long
def test_two_calibrations_at_the_same_moment(both, monkeypatch):
    """The one that is written last is there, and whole."""
    one, other = both
    first, second = some_thresholds(0), some_thresholds(20)
    write = About.write

    def late(self, **values):
        monkeypatch.setattr(About, "write", write)
        one.set_thresholds(first)
        write(self, **values)

    monkeypatch.setattr(About, "write", late)
    other.set_thresholds(second)
    assert one.thresholds.json() == other.thresholds.json() == second.json()


@pytest.mark.long
def test_what_decides_is_read_in_the_strongest_consistency(milvus, monkeypatch):
    """Whatever the address says: what others wrote a moment ago must not be overwritten."""
    call, asked = Connection.call, []

    def noted(self, method, *args, **options):
        if "consistency_level" in options:
            asked.append((method, options["consistency_level"]))
        return call(self, method, *args, **options)

    monkeypatch.setattr(Connection, "call", noted)
    with Gallery.open(f"{milvus('g')}?consistency=eventually", dim=8, scoring="mean") as gallery:
        gallery.enroll("anna", embeddings=unit(2, 8))
        gallery.set_model_path("model")
        gallery.set_thresholds(None)
        assert {level for _, level in asked} == {"Strong"}
        asked.clear()
        gallery.search(unit(1, 8))
        assert {level for _, level in asked} == {"Eventually"}


def test_many_who_never_came_are_taken_back_together(both, monkeypatch):
    """Of an import that was killed there may be millions."""
    one, other = both
    old = changing.now() - 10**12
    people = [Person(10**6 + number, f"{number}", COMING, old, old) for number in range(40)]
    one._changes.subjects.add(people)
    calls, call = 0, Connection.call

    def counted(self, method, *args, **options):
        nonlocal calls
        calls += 1
        return call(self, method, *args, **options)

    monkeypatch.setattr(Connection, "call", counted)
    other._changes.heal()
    assert calls < 10
    assert other._changes.subjects.unfinished() == []
    assert listed(other) == {"anna": 2, "ben": 1}

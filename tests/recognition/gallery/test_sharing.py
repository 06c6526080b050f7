"""One gallery, several processes, connections and threads."""

import os
import random
import sqlite3
import threading
import time
from contextlib import closing

import numpy as np
import pytest

from arcset import DataError, Gallery
from arcset.recognition.gallery.enroll import enroll_images
from support.galleries import Projection, check_kept, impatient, picture, unit
from support.gallery_watching import finished
from support.gallery_writer import DIM, applied, change_once, draw, perform
from support.random_runs import random_run


@pytest.fixture
def both(tmp_path):
    """The same gallery opened twice."""
    with Gallery.open(tmp_path / "g.db", dim=4) as one, Gallery.open(tmp_path / "g.db") as other:
        yield one, other


def names_of(gallery):
    return sorted(one.name for one in gallery.subjects())


def answers(gallery, probes):
    """All that a gallery says of its samples."""
    rows, names = gallery.labelled()
    ids = {
        one.name: [sample.id for sample in gallery.samples(one.name)] for one in gallery.subjects()
    }
    found, scores = gallery.search(probes, 5)
    return gallery.subjects(), ids, rows.tolist(), names, found, scores.tolist()


@pytest.mark.parametrize("scoring", ["max", "mean"])
def test_answers_are_those_of_a_gallery_that_is_opened_anew(tmp_path, scoring):
    """After each of all kinds of changes, drawn at random, by this process and another in turns."""
    rng, state, key = random.Random(0), {}, 1
    path, probes = tmp_path / "g.db", unit(4, DIM)
    with Gallery.open(path, dim=DIM) as one, Gallery.open(path, scoring=scoring) as other:
        for step in range(45):
            kind = ("enroll", "remove", "rename", "merge", "many")[step % 5] if step > 4 else "many"
            change = draw(state, rng, key, kind)
            assert change["kind"] == ("enroll" if kind == "many" else kind)
            state, key = applied(state, change), key + len(change.get("keys", ()))
            if step % 2:
                finished(change_once, path=str(path), change=change)
            else:
                perform(one, change)
            with Gallery.open(path, read_only=True) as anew:
                expected = answers(anew, probes)
            assert answers(one, probes) == answers(other, probes) == expected
            assert {name: len(ids) for name, ids in expected[1].items()} == {
                name: len(keys) for name, keys in state.items()
            }


def writing(path):
    """Another program that is in the middle of a change."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    return closing(other)


def test_a_second_writer_waits(tmp_path):
    with Gallery.open(tmp_path / "g.db", dim=4) as gallery:
        with writing(tmp_path / "g.db") as first:
            timer = threading.Timer(0.3, first.execute, ["ROLLBACK"])
            began = time.monotonic()
            timer.start()
            gallery.enroll("anna", embeddings=np.eye(4)[0])
            assert time.monotonic() - began > 0.2
            timer.join()
        assert names_of(gallery) == ["anna"]


def test_a_second_writer_that_waited_long_enough_is_told(tmp_path, monkeypatch):
    impatient(monkeypatch)
    with Gallery.open(tmp_path / "g.db", dim=4) as gallery:
        with writing(tmp_path / "g.db"):
            with pytest.raises(DataError, match=r"g\.db") as caught:
                gallery.enroll("anna", embeddings=np.eye(4)[0])
            assert "\n" not in str(caught.value)
            assert len(gallery) == 0  # reading goes on
        gallery.enroll("anna", embeddings=np.eye(4)[0])
        assert names_of(gallery) == ["anna"]


def test_enrolling_in_vain_takes_nothing_from_others(tmp_path):
    """Whoever opens a new gallery while another process finds no image to put into it."""
    random_run(tmp_path / "run", dim=4)
    (tmp_path / "a.png").write_bytes(b"no image")
    path, others = tmp_path / "g.db", []

    def meanwhile(done, count):
        others.append(Gallery.open(path, dim=4))

    with pytest.raises(DataError, match="1 file"):
        enroll_images(
            path, [tmp_path / "a.png"], name="a", model=tmp_path / "run", progress=meanwhile
        )
    with others[0] as other:
        other.enroll("anna", embeddings=np.eye(4)[0])
    with Gallery.open(path) as gallery:
        assert names_of(gallery) == ["anna"]


def test_threads_share_a_gallery(tmp_path):
    rows = unit(60, 8)
    failures = []
    with Gallery.open(tmp_path / "g.db", dim=8) as gallery:
        gallery.enroll("first", embeddings=rows[0])

        def work(number):
            try:
                for step in range(5):
                    own = 10 * number + step
                    gallery.enroll(f"subject {own}", embeddings=rows[own])
                    match = gallery.identify(embedding=rows[own], threshold=0.99)
                    assert match.subject in (f"subject {own}", "first")
                    if step % 2:
                        gallery.remove(f"subject {own}")
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert len(gallery) == 1 + 6 * 3
        check_kept(gallery)


def test_a_forked_process_opens_its_own(both):
    one, other = both
    one.enroll("anna", embeddings=np.eye(4)[0])
    child = os.fork()
    if child == 0:  # nothing of pytest may run here
        status = 1
        try:
            one.search(np.eye(4)[:1], 1)
        except DataError as error:
            status = 0 if str(one.path) in str(error) else 2
        finally:
            one.close()
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    one.enroll("ben", embeddings=np.eye(4)[1])
    assert names_of(other) == ["anna", "ben"]


def test_moved_to_another_model_by_another_process(tmp_path):
    old, new, image = Projection(), Projection(dim=9, seed=1), picture(0)
    with Gallery.open(tmp_path / "g.db", old, keep_images=True) as one:
        one.enroll("anna", image)
        with Gallery.open(tmp_path / "g.db") as other:
            other.migrate(new)
        for ask in (
            lambda: one.identify(image, threshold=0.5),
            lambda: one.enroll("ben", image),
            one.subjects,
        ):
            with pytest.raises(DataError, match=r"g\.db.*'projection-1'"):
                ask()


def test_embeddings_from_elsewhere_that_another_process_made_anew(tmp_path):
    path, new, image = tmp_path / "g.db", Projection(seed=1), picture(0)
    with Gallery.open(path, dim=16, keep_images=True) as one, Gallery.open(path) as other:
        one.enroll("anna", [image], embeddings=Projection().embed(image))
        assert one.search(new.embed(image), 1)[1] < 0.9
        other.migrate(new)
        assert one.search(new.embed(image), 1)[1] == pytest.approx(1)
        assert one.model_name == "projection-1"

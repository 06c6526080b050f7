"""What every gallery does, in a file and in Milvus: enrolling, asking, changing, listing.

`make test` runs them on Milvus Lite, too, and `make test-all` on a real server. No test says which
numbers samples get, only that none is given twice.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from arcset import DataError, Gallery, InputError, OptionError
from arcset.evaluation import make_thresholds
from arcset.recognition.decisions import working_point
from support.galleries import Projection, check_kept, unit


@pytest.fixture(params=["file", "lite", pytest.param("server", marks=pytest.mark.long)])
def location(request, make_location):
    return make_location(request.param)


@pytest.fixture
def gallery(location):
    with Gallery.open(location("people"), dim=4) as found:
        yield found


def listed(gallery):
    return [(one.name, one.samples) for one in gallery.subjects()]


def numbers(gallery, name):
    return tuple(one.id for one in gallery.samples(name))


def some_thresholds(dim=4):
    rows = np.repeat(unit(60, dim), 2, axis=0) + 0.1 * unit(120, dim, seed=1)
    return make_thresholds(rows, np.arange(120) // 2, galleries=[20])


def test_no_number_is_given_twice(location):
    path, given = location("people"), []
    for _ in range(2):
        with Gallery.open(path, dim=4) as gallery:
            given += gallery.enroll("anna", embeddings=unit(2, 4))
            gallery.remove_sample(given[-1])
            given += gallery.enroll("ben", embeddings=unit(1, 4))
            gallery.remove("ben")
            gallery.remove("anna")
    assert len({*given}) == len(given) == 6


def test_enrolled_is_found_again_and_kept(location):
    path, rows = location("people"), np.eye(4)
    with Gallery.open(path, dim=4) as gallery:
        two = gallery.enroll("anna", embeddings=rows[:2])
        assert len(gallery.enroll("ben", embeddings=5 * rows[2])) == 1
        counts = []
        cleos, third = gallery.enroll_many(
            ["cleo", "anna"], embeddings=rows[[3, 0]], progress=lambda *done: counts.append(done)
        )
        assert counts == [(2, 2)]
        assert numbers(gallery, "anna") == (*two, third)
        assert numbers(gallery, "cleo") == (cleos,)
    with Gallery.open(path) as gallery:
        assert listed(gallery) == [("anna", 3), ("ben", 1), ("cleo", 1)]
        assert (len(gallery), gallery.sample_count, gallery.dim) == (3, 5, 4)
        assert "anna" in gallery
        assert "dora" not in gallery
        names, scores = gallery.search(rows, 2)
        assert [first for first, _ in names] == ["anna", "anna", "ben", "cleo"]
        assert scores[:, 0].tolist() == [1, 1, 1, 1]
        check_kept(gallery)


def test_identify_says_who_or_nobody(gallery):
    assert gallery.subjects() == ()
    match = gallery.identify(embedding=[1, 0, 0, 0], threshold=0.5)
    assert (match.subject, match.candidates, match.reason) == (None, (), "empty gallery")
    gallery.enroll_many(["anna", "ben"], embeddings=np.eye(4)[:2])
    match = gallery.identify(embedding=[1, 0.2, 0, 0], threshold=0.8, candidates=1)
    assert match.subject == "anna"
    assert match.cosine == pytest.approx(1 / np.hypot(1, 0.2))
    assert len(match.candidates) == 1
    assert gallery.identify(embedding=[0, 0, 1, 0.1], threshold=0.8).subject is None
    both = gallery.identify_many(embeddings=np.eye(4)[[1, 3]], threshold=0.8)
    assert [one.subject for one in both] == ["ben", None]
    assert not gallery.verify("anna", embedding=np.eye(4)[1], threshold=0.5).same
    assert gallery.verify("anna", embedding=np.eye(4)[0], threshold=0.5).same


def test_sets_of_samples_have_thresholds_of_their_own(location):
    """Made for this gallery's scoring; they hold for subjects of one sample and of three."""
    rows = np.repeat(np.eye(20), 3, axis=0) + 0.3 * unit(60, 20)
    with Gallery.open(location("g"), dim=20, scoring="mean") as gallery:
        for number in range(20):
            count = 3 if number % 2 else 1
            gallery.enroll(f"{number}", embeddings=rows[3 * number :][:count])
        assert gallery.extent()["images"] == {1: 10, 3: 10}
        gallery.calibrate(samples=3)
        made = gallery.thresholds
        assert {one.scoring for one in made.templates} <= {"mean"}
        expected = working_point(made, **gallery.extent(), fpir=0.1)
        assert gallery.working_point(0.1) == expected
        fitting = made.for_template("mean", 3)
        verified = gallery.verify("1", embedding=rows[4], far=0.1)
        assert verified.threshold == pytest.approx(fitting.for_far(0.1).threshold)


def test_the_gallerys_own_calibration(location):
    made = some_thresholds()
    recognizer = Projection(dim=4, thresholds=made)
    with Gallery.open(location("g"), recognizer) as gallery:
        gallery.enroll_many([f"subject {number}" for number in range(20)], embeddings=unit(20, 4))
        assert gallery.thresholds is recognizer.thresholds
        gallery.set_thresholds(made)
        assert gallery.thresholds.json() == made.json()
        small = gallery.working_point(0.3)
        gallery.enroll_many([f"more {number}" for number in range(60)], embeddings=unit(60, 4, 2))
        large = gallery.working_point(0.3)
        assert small.threshold < large.threshold
        match = gallery.identify(embedding=gallery.labelled()[0][7], fpir=0.3)
        assert match.threshold == large.threshold
        assert match.candidates[0].subject == "subject 7"
        assert match.probability > 0.5
    with Gallery.open(location("g")) as gallery:
        assert gallery.thresholds.json() == made.json()
        gallery.set_thresholds(None)
        assert gallery.thresholds is None
        match = gallery.identify(embedding=[1, 0, 0, 0])
        assert (match.subject, match.decided, match.reason) == (None, False, "no calibration")
        assert len(match.candidates) == 5
        assert match.threshold is None
        with pytest.raises(OptionError, match="calibrat"):
            gallery.identify(embedding=[1, 0, 0, 0], fpir=0.1)


def test_calibrated_from_those_enrolled(gallery):
    rows = np.repeat(unit(30, 4), 3, axis=0) + 0.05 * unit(90, 4, seed=1)
    gallery.enroll_many([f"bird {number // 3}" for number in range(90)], embeddings=rows)
    thresholds = gallery.calibrate()
    assert thresholds.made_from["identities"] == 30
    assert gallery.thresholds.json() == thresholds.json()


def test_changing(location, gallery):
    first, *others = gallery.enroll_many(["a", "b", "b", "c"], embeddings=unit(4, 4))
    row = gallery.labelled()[0][0]
    gallery.rename("a", "a much longer name than before")
    assert sorted(listed(gallery)) == [("a much longer name than before", 1), ("b", 2), ("c", 1)]
    gallery.rename("c", "a")
    gallery.merge("a", "b")
    assert sorted(listed(gallery)) == [("a much longer name than before", 1), ("b", 3)]
    merged = numbers(gallery, "b")
    if location.kind == "file":  # Milvus writes anew what it renames
        assert sorted(merged) == sorted(others)
    gallery.remove_sample(merged[1])
    gallery.remove_sample(*numbers(gallery, "a much longer name than before"))
    assert listed(gallery) == [("b", 2)]
    assert gallery.remove("b") == 2
    assert (len(gallery), gallery.sample_count) == (0, 0)
    (last,) = gallery.enroll("a", embeddings=row)
    assert last not in (first, *others)  # no number is given twice
    check_kept(gallery)


def test_what_is_not_there(gallery):
    first, _ = gallery.enroll_many(["a", "b"], embeddings=unit(2, 4))
    for change in (
        lambda: gallery.remove("A"),
        lambda: gallery.rename("A", "c"),
        lambda: gallery.merge("A", "b"),
        lambda: gallery.merge("b", "A"),
        lambda: gallery.samples("A"),
        lambda: gallery.verify("A", embedding=[1, 0, 0, 0], threshold=0.5),
    ):
        with pytest.raises(OptionError, match=r"'A'.*people"):
            change()
    gallery.remove_sample(first)
    for number in (first, 0, -1, 10**30, "1", None):
        with pytest.raises(OptionError, match=rf" {number!r} .*people"):
            gallery.remove_sample(number)
    gallery.enroll("a", embeddings=unit(1, 4))
    for change in (lambda: gallery.rename("a", "b"), lambda: gallery.merge("a", "a")):
        with pytest.raises(OptionError, match="'a'"):
            change()
    gallery.rename("a", "a")
    assert sorted(listed(gallery)) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize(
    ("embeddings", "quoted"),
    [
        ([[1, 2, 3]], "3 .*4"),
        ([[0, 0, 0, 0]], "row 0"),
        ([[1, 2, 3, 4], [1, np.nan, 3, 4]], "nan.* 1"),
        (np.zeros((0, 4)), "0"),
        (np.ones((2, 2, 4)), "2, 2, 4"),
        ([[1, 2, 3, 4], [1, 2]], "embeddings"),
    ],
)
def test_what_is_no_embedding(gallery, embeddings, quoted):
    for ask in (
        lambda: gallery.enroll("anna", embeddings=embeddings),
        lambda: gallery.enroll_many(["anna"] * (len(embeddings) or 1), embeddings=embeddings),
        lambda: gallery.search(embeddings),
        lambda: gallery.identify_many(embeddings=embeddings, threshold=0.5),
    ):
        with pytest.raises(InputError, match=quoted):
            ask()
    assert len(gallery) == 0


def test_as_many_names_as_samples(gallery):
    with pytest.raises(InputError, match=r"3 .*2"):
        gallery.enroll_many(["a", "b", "c"], embeddings=np.eye(4)[:2])
    with pytest.raises(InputError, match=r"2 .*1"):
        gallery.enroll("a", embeddings=np.eye(4)[:2], sources=["x"])
    with pytest.raises(OptionError):
        gallery.enroll("a")
    with pytest.raises(OptionError, match="people"):  # opened without a model
        gallery.enroll("a", [np.zeros((8, 8), np.uint8)])
    with pytest.raises(OptionError, match=r"fpir.*0\.1.*threshold.*0\.5"):
        gallery.identify(embedding=[1, 0, 0, 0], fpir=0.1, threshold=0.5)
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(OptionError, match=f"{wrong}"):
            gallery.search(np.eye(4), wrong)
    with pytest.raises(InputError, match="4, 4"):
        gallery.identify(embedding=np.eye(4), threshold=0.5)
    assert gallery.enroll_many([], embeddings=[]) == ()


def images(folder, count=3):
    paths = []
    for number in range(count):
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8), dtype=np.uint8)
        paths.append(folder / f"{number}.png")
        Image.fromarray(pixels).save(paths[-1])
    return paths


@pytest.mark.parametrize("keep", [True, False])
def test_images_of_every_kind(tmp_path, location, keep):
    paths, recognizer = images(tmp_path), Projection()
    if keep and location.kind == "milvus":
        with pytest.raises(OptionError, match="milvus"):
            Gallery.open(location("g"), recognizer, keep_images=keep)
        return
    with Gallery.open(location("g"), recognizer, keep_images=keep) as gallery:
        gallery.enroll("path", paths[0])
        gallery.enroll("array", np.asarray(Image.open(paths[1])))
        gallery.enroll("PIL", Image.open(paths[2]))
        gallery.enroll("bytes", paths[0].read_bytes())
        folder = tmp_path / "more"
        folder.mkdir()
        images(folder)
        assert len(gallery.enroll("folder", folder)) == 3
        (first,) = gallery.samples("path")
        (copy,) = gallery.samples("bytes")
        assert (first.source, first.has_image) == (str(paths[0]), keep)
        assert (copy.source, copy.digest) == (None, first.digest)
        assert gallery.image(first.id) == (paths[0].read_bytes() if keep else None)
        match = gallery.identify(paths[1], threshold=0.999)
        assert match.subject == "array"
        assert gallery.verify("PIL", paths[2], threshold=0.999).same
        kept = gallery.image(gallery.samples("array")[0].id)
        assert (kept is not None) == keep
        if keep:
            assert recognizer.embed(kept) == pytest.approx(recognizer.embed(paths[1]), abs=1e-6)


def test_images_whose_embeddings_are_known(tmp_path, location):
    paths, recognizer = images(tmp_path), Projection()
    rows, keep = recognizer.embed(paths), location.kind == "file"
    with Gallery.open(location("g"), dim=16, keep_images=keep) as gallery:
        gallery.enroll_many(["a", "b", "c"], paths, embeddings=rows, sources=["x", None, "z"])
        told = [gallery.samples(name)[0] for name in "abc"]
        assert [one.source for one in told] == ["x", str(paths[1]), "z"]
        expected = [path.read_bytes() if keep else None for path in paths]
        assert [gallery.image(one.id) for one in told] == expected


def test_nothing_of_a_batch_with_one_bad_image(tmp_path, location):
    paths = images(tmp_path)
    paths[1].write_bytes(b"no image")
    with Gallery.open(location("g"), Projection()) as gallery:
        with pytest.raises(DataError, match=r"1\.png"):
            gallery.enroll("anna", paths)
        with pytest.raises(DataError, match=r"missing\.png"):
            gallery.enroll("anna", tmp_path / "missing.png")
        assert len(gallery) == 0


def test_settings_are_kept_and_can_be_changed(location):
    keep, recognizer = location.kind == "file", Projection()
    recognizer.origin = Path("/models/one"), "none"
    Gallery.open(location("g"), recognizer, scoring="top-3", keep_images=keep).close()
    with Gallery.open(location("g")) as gallery:
        assert (gallery.scoring, gallery.keep_images) == ("top-3", keep)
        assert (gallery.model_path, gallery.faces) == ("/models/one", "none")
    with Gallery.open(location("g"), scoring="mean", keep_images=False) as gallery:
        assert (gallery.scoring, gallery.keep_images) == ("mean", False)
    with Gallery.open(location("g"), read_only=True) as gallery:
        assert (gallery.scoring, gallery.keep_images) == ("mean", False)


def test_reading_only_changes_nothing(location):
    with pytest.raises(DataError, match=r"\bg\b|\bg_"):
        Gallery.open(location("g"), dim=4, read_only=True)
    with Gallery.open(location("g"), dim=4) as gallery:
        first, _ = gallery.enroll_many(["a", "b"], embeddings=np.eye(4)[:2])
    with Gallery.open(location("g"), read_only=True) as gallery:
        assert gallery.read_only
        for change in (
            lambda: gallery.enroll("c", embeddings=np.eye(4)[2]),
            lambda: gallery.enroll_many(["c"], embeddings=np.eye(4)[2:3]),
            lambda: gallery.remove("a"),
            lambda: gallery.remove_sample(first),
            lambda: gallery.rename("a", "c"),
            lambda: gallery.merge("a", "b"),
            lambda: gallery.set_thresholds(some_thresholds()),
        ):
            with pytest.raises(DataError, match=re.escape(str(gallery.path))):
                change()
        assert gallery.identify(embedding=np.eye(4)[0], threshold=0.9).subject == "a"
        assert listed(gallery) == [("a", 1), ("b", 1)]


def test_another_scoring_is_refused(tmp_path):
    for word in ("median", "top-0", "top-3\n"):
        with pytest.raises(OptionError, match=re.escape(repr(word))):
            Gallery.open(tmp_path / "g.db", dim=3, scoring=word)
    assert list(tmp_path.iterdir()) == []


def test_another_model_is_refused(location):
    with Gallery.open(location("g"), Projection()) as gallery:
        gallery.enroll("a", embeddings=unit(1, 16))
    with pytest.raises(OptionError, match=r"'projection-0'.*'projection-1'"):
        Gallery.open(location("g"), Projection(seed=1))
    with pytest.raises(OptionError, match=r"dim=3.*16"):
        Gallery.open(location("g"), dim=3)
    with Gallery.open(location("plain"), dim=16) as gallery:
        gallery.enroll("a", embeddings=unit(1, 16))
    with pytest.raises(OptionError, match="plain"):
        Gallery.open(location("plain"), Projection())
    with pytest.raises(OptionError, match="new"):
        Gallery.open(location("new"))


def test_closed(location):
    gallery = Gallery.open(location("g"), dim=3)
    gallery.close()
    gallery.close()
    for ask in (
        gallery.subjects,
        lambda: len(gallery),
        lambda: gallery.enroll("a", embeddings=[1, 0, 0]),
    ):
        with pytest.raises(DataError, match=re.escape(str(gallery.path))):
            ask()

"""Does a gallery know when it does not know? Characters of Omniglot that nothing has seen before.

A small network learns some characters, others calibrate it, and of those that are left some are
enrolled and some are strangers. All of it goes through `Recognizer` and `Gallery`.
"""

import hashlib
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from arcset import Gallery, InputError, Recognizer
from arcset.evaluation import make_thresholds
from arcset.runs import RunConfig
from arcset.training import train

TRAINED, CALIBRATING = 60, 200


class Characters:
    """Characters in an order that has nothing to do with alphabets, unpacked when asked for."""

    def __init__(self, archive, folder):
        self.archive, self.folder = archive, folder
        found = {}
        for name in archive.namelist():
            if name.endswith(".png"):
                found.setdefault(name.rpartition("/")[0], []).append(name)
        order = sorted(found, key=lambda name: hashlib.sha256(name.encode()).digest())
        self.drawings = {name: sorted(found[name]) for name in order}
        self.names = order

    def files(self, names, drawers, below="all"):
        """Paths of drawings, one character after the other."""
        paths = []
        for name in names:
            place = self.folder / below / name.replace("/", "-")
            place.mkdir(parents=True, exist_ok=True)
            for drawer in drawers:
                path = place / f"{drawer:02d}.png"
                if not path.exists():
                    path.write_bytes(self.archive.read(self.drawings[name][drawer]))
                paths.append(path)
        return paths


@pytest.fixture(scope="module")
def characters(tmp_path_factory):
    folder = Path(os.environ.get("ARCSET_DATA") or "no-such-folder") / "omniglot"
    file = folder / "images_background.zip"
    if not file.exists():
        pytest.skip("omniglot is not here: set ARCSET_DATA to a folder that holds omniglot/")
    with zipfile.ZipFile(file) as archive:
        yield Characters(archive, tmp_path_factory.mktemp("characters"))


@pytest.fixture(scope="module")
def recognizer(characters, tmp_path_factory):
    """A run of seconds, with thresholds from characters that it was not trained on."""
    return trained(characters, tmp_path_factory.mktemp("runs") / "small", "simple", 6)


def trained(characters, place, network, epochs):
    characters.files(characters.names[:TRAINED], range(10), below="train")
    config = RunConfig(
        data=str(characters.folder / "train"),
        size=(28, 28),
        channels=1,
        invert=True,
        network=network,
        dim=32,
        epochs=epochs,
        batch=32,
        scale=16.0,
        margin=0.2,
        snapshot=0,
    )
    run = train(config, place, device="cpu")
    names = characters.names[TRAINED : TRAINED + CALIBRATING]
    rows = Recognizer.load(run.path, device="cpu").embed(characters.files(names, range(4)))
    labels = np.repeat(np.arange(len(names)), 4)
    made = make_thresholds(rows, labels, scorings=("max", "mean", "top-2"))
    made.save(run.path / "threshold.json")
    return Recognizer.load(run.path, device="cpu")


def fresh(characters, subjects, strangers):
    """Names of characters that neither trained nor calibrated, of both kinds."""
    names = characters.names[TRAINED + CALIBRATING :]
    assert len(names) >= subjects + strangers
    return names[:subjects], names[-strangers:]


def enroll(gallery, characters, names, drawers=(0,)):
    for name in names:
        gallery.enroll(name, characters.files([name], drawers))


def taken_for_somebody(matches):
    return float(np.mean([match.subject is not None for match in matches]))


def test_strangers_are_taken_for_somebody_as_often_as_was_said(characters, recognizer, tmp_path):
    """The gallery grows; the threshold goes with it, and the rate stays. Of intervals that hold
    95 %, one of nine may fail.
    """
    subjects, strangers = fresh(characters, 100, 300)
    probes = recognizer.embed(characters.files(strangers, (5,)))
    held, thresholds, realized = [], [], {}
    with Gallery.open(tmp_path / "g.db", recognizer) as gallery:
        for size in (10, 30, 100):
            enroll(gallery, characters, subjects[len(gallery) : size])
            for fpir in (0.2, 0.1, 0.05):
                matches = gallery.identify_many(embeddings=probes, fpir=fpir)
                rate = taken_for_somebody(matches)
                low, high = recognizer.thresholds.for_fpir(fpir, size).expect(len(strangers))
                held.append(low <= rate <= high)
                realized[size, fpir] = rate
                assert {match.fpir for match in matches} == {fpir}
            thresholds.append(matches[0].threshold)
        first = gallery.identify_many(embeddings=probes, threshold=thresholds[0])
    assert sum(held) >= 8, realized
    assert thresholds == sorted(thresholds)
    # The first threshold, kept while the gallery grew, would not have done.
    assert taken_for_somebody(first) > 3 * 0.05


def test_those_enrolled_are_recognized(characters, recognizer, tmp_path):
    """Far more often than strangers are taken for them, and rightly; from files, and one by one."""
    subjects, _ = fresh(characters, 30, 1)
    with Gallery.open(tmp_path / "g.db", recognizer) as gallery:
        enroll(gallery, characters, subjects, drawers=(0, 1, 2))
        paths = characters.files(subjects, (7, 8))
        matches = gallery.identify_many(paths, fpir=0.1)
        truth = np.repeat(subjects, 2)
        right = np.mean([match.subject == name for match, name in zip(matches, truth, strict=True)])
        assert right > 0.25
        nearest = [match.candidates[0].subject for match in matches]
        assert np.mean(np.array(nearest) == truth) > 0.5
        single = gallery.identify(paths[0], fpir=0.1)
        assert (single.subject, single.cosine) == (
            matches[0].subject,
            pytest.approx(matches[0].cosine, abs=1e-5),
        )


@pytest.mark.parametrize(
    "scoring", ["max", *(pytest.param(word, marks=pytest.mark.long) for word in ("mean", "top-2"))]
)
def test_several_samples_have_thresholds_of_their_own(characters, recognizer, tmp_path, scoring):
    """Strangers come in as often as was said, whether all subjects have three samples or some."""
    subjects, strangers = fresh(characters, 40, 300)
    probes = recognizer.embed(characters.files(strangers, (5,)))
    with Gallery.open(tmp_path / "g.db", recognizer, scoring=scoring) as gallery:
        for names, drawers in ((subjects[:20], (0, 1, 2)), (subjects[20:], (0,))):
            enroll(gallery, characters, names, drawers)
            for fpir in (0.2, 0.1):
                point = gallery.working_point(fpir)
                matches = gallery.identify_many(embeddings=probes, fpir=fpir)
                low, high = point.expected
                assert low <= taken_for_somebody(matches) <= high
            assert (point.gallery == 20) == (len(gallery) == 20)


@pytest.mark.long
def test_whoever_calibrates_is_enrolled_and_asks(characters, tmp_path):
    """Twenty draws of all three from 904 characters, with a better network, up to 400 subjects, and
    down to one stranger in a hundred. About nine of ten intervals hold, and rates are right on
    average.
    """
    recognizer = trained(characters, tmp_path / "run", "glyph", 20)
    names = np.array(characters.names[TRAINED:])
    rows = recognizer.embed(characters.files(names, (0, 1, 2, 3, 5, 11)))
    rows = rows.reshape(len(names), 6, -1)
    held, ratios = [], []
    for draw in range(20):
        order = np.random.default_rng(draw).permutation(len(names))
        calibrating, subjects, strangers = np.split(order, [CALIBRATING, CALIBRATING + 400])
        labels = np.repeat(np.arange(CALIBRATING), 4)
        made = make_thresholds(rows[calibrating, :4].reshape(len(labels), -1), labels)
        probes = rows[strangers, 4:].reshape(2 * len(strangers), -1)
        with Gallery.open(tmp_path / f"{draw}.db", recognizer) as gallery:
            gallery.set_thresholds(made)
            for size in (20, 100, 400):
                new = subjects[len(gallery) : size]
                gallery.enroll_many(names[new].tolist(), embeddings=rows[new, 0])
                for fpir in (0.1, 0.03, 0.01):
                    try:
                        found = made.for_fpir(fpir, size)
                    except InputError:
                        continue
                    rate = taken_for_somebody(gallery.identify_many(embeddings=probes, fpir=fpir))
                    low, high = found.expect(len(strangers), probes_per_identity=2)
                    held.append(low <= rate <= high)
                    ratios.append(rate / fpir)
    assert len(held) >= 140
    assert np.mean(held) >= 0.85
    assert 0.85 < np.mean(ratios) < 1.25

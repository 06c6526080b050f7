"""A run that was trained before the rebuild, and its ONNX file, answer as they did then."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import arcset
from contract.recording import recorded

FROZEN = Path(__file__).parent / "frozen"
MODELS = {"run": arcset.Recognizer.load, "run.onnx": arcset.Recognizer.from_onnx}


@pytest.fixture(scope="module", params=MODELS)
def recognizer(request, tmp_path_factory):
    """Loaded from a copy, so that nothing beside it is needed."""
    copy = tmp_path_factory.mktemp("copy") / request.param
    source = FROZEN / request.param
    (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)
    return MODELS[request.param](copy, device="cpu")


@pytest.fixture(scope="module")
def people():
    """Images of those that took no part in training, (5, 7, 7) each, by name."""
    unseen = json.loads((FROZEN / "run" / "split.json").read_text())["test"]
    data = np.load(FROZEN / "images.npz")
    return {name: data["images"][data["labels"] == name] for name in unseen}


@pytest.fixture(scope="module")
def gallery(recognizer, people, tmp_path_factory):
    """The first 25 of 50, with two images each; removing puts back what it took."""
    with arcset.Gallery.open(tmp_path_factory.mktemp("gallery") / "people.db", recognizer) as made:
        for name in list(people)[:25]:
            made.enroll(name, list(people[name][:2]))
        yield made


def test_the_model_is_the_same(recognizer):
    assert recognizer.name == "run"
    assert recognizer.dim == 16
    recorded("recognition-digest", recognizer.digest)


def test_embeddings_are_the_same(recognizer, people, tmp_path):
    images = [person[0] for person in people.values()][:40]
    found = recognizer.embed(images)
    assert found.dtype == np.float32
    recorded("recognition-embeddings", found, tolerance=1e-5)
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{number:02d}.png")
    np.testing.assert_allclose(recognizer.embed(tmp_path), found, atol=1e-6)
    twice = [image.repeat(2, axis=0).repeat(2, axis=1) for image in images]
    np.testing.assert_allclose(recognizer.embed(twice), found, atol=1e-6)


def test_same_or_different_is_answered_the_same(recognizer, people):
    images = list(people.values())[:8]
    same = [(person[0], person[1]) for person in images]
    different = [(one[0], other[0]) for one, other in pairwise(images)]
    answers = [recognizer.verify(*pair) for pair in same + different]
    answers += [recognizer.verify(*pair, far=0.01) for pair in same]
    answers.append(recognizer.verify(*different[0], threshold=0.25))
    recorded("recognition-verify", [answer.json() for answer in answers], tolerance=1e-4)


def test_who_is_shown_is_answered_the_same(gallery, people):
    """Twelve who are enrolled, and twelve who are not; none lies at the edge of an answer."""
    images = list(people.values())
    probes = [person[4] for person in images[:12] + images[25:37]]
    matches = gallery.identify_many(probes, candidates=3)
    matches += gallery.identify_many(probes, candidates=3, fpir=0.1)
    matches.append(gallery.identify(probes[0], threshold=0.25, candidates=25))
    recorded("recognition-identify", [match.json() for match in matches], tolerance=1e-4)


def test_where_known_begins_is_the_same(gallery, recognizer, people, tmp_path):
    """At every size of the gallery, and whatever a subject's score is made of."""
    anna, ben, *_ = people.values()
    points = {"25 of 2": gallery.working_point(), "at 0.05": gallery.working_point(0.05)}
    with arcset.Gallery.open(tmp_path / "few.db", recognizer, scoring="mean") as few:
        points["nobody"] = few.working_point()
        few.enroll_many(["anna", "anna", "ben"], [anna[0], anna[1], ben[0]])
        points["2 by mean"] = few.working_point()
        verified = few.verify("anna", anna[3])
    found = {size: {**point.json(), "note": bool(point.note)} for size, point in points.items()}
    recorded("recognition-threshold", {**found, "verified": verified.json()}, tolerance=1e-4)


def test_who_is_removed_is_unknown(gallery, people):
    name, images = next(iter(people.items()))
    assert gallery.identify(images[0]).subject == name
    assert gallery.remove(name) == 2
    match = gallery.identify(images[0])
    assert match.subject is None
    assert name not in [candidate.subject for candidate in match.candidates]
    gallery.enroll(name, list(images[:2]))
    assert gallery.identify(images[0]).subject == name

"""`arcset enroll` from the outside."""

import json
import re
import shutil

import pytest

from arcset.recognition import Recognizer
from arcset.recognition.gallery import Gallery
from support.patterns import pictures
from support.random_runs import random_run
from support.same_images import FORMS, in_form


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, another one, and a folder of three subjects."""
    folder = tmp_path_factory.mktemp("made")
    random_run(folder / "run", dim=32)
    random_run(folder / "other", dim=32, seed=1)
    pictures(folder / "photos", ["anna", "team/ben", "team/carl"], 3)
    return folder


@pytest.fixture
def enroll(arcset_command, tmp_path, made):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return lambda *words: arcset_command("enroll", "people.db", *words, "--device", "cpu")


def subjects(tmp_path):
    with Gallery.open(tmp_path / "people.db", read_only=True) as gallery:
        return {subject.name: subject.samples for subject in gallery.subjects()}


def test_the_deepest_folder_is_the_subject(enroll, tmp_path):
    done = enroll("photos", "--model", "run")
    assert done.code == 0, done.err
    assert "people.db: 3 subjects, 9 samples" in done.out
    assert subjects(tmp_path) == {"anna": 3, "team/ben": 3, "team/carl": 3}
    with Gallery.open(tmp_path / "people.db") as gallery:
        rows, names = gallery.labelled()
        recognizer = Recognizer.load(tmp_path / "run", device="cpu")
        paths = sorted((tmp_path / "photos").rglob("*.png"))
        assert abs(rows - recognizer.embed(paths)).max() < 1e-5
        assert names[0] == "anna"


@pytest.mark.parametrize("form", FORMS)
def test_images_of_any_source_give_the_same_gallery(enroll, tmp_path, form):
    data = in_form(tmp_path / "photos", form)
    done = enroll(data.name, "--model", "run", "--keep-images")
    assert done.code == 0, done.err
    assert "people.db: 3 subjects, 9 samples" in done.out
    names = ["0", "1", "2"] if form == "train.rec" else ["anna", "team/ben", "team/carl"]
    assert subjects(tmp_path) == dict.fromkeys(names, 3)
    with Gallery.open(tmp_path / "people.db", read_only=True) as gallery:
        rows, _ = gallery.labelled()
    recognizer = Recognizer.load(tmp_path / "run", device="cpu")
    expected = recognizer.embed(sorted((tmp_path / "photos").rglob("*.png")))
    assert abs(rows - expected).max() < 1e-5
    done = enroll(data.name)
    assert done.out.startswith("9 images were enrolled already")


def test_the_same_image_is_not_stored_twice(enroll, tmp_path):
    assert enroll("photos", "--model", "run").code == 0
    pictures(tmp_path / "photos", ["anna", "dora"], 1, first=7)
    shutil.copy(tmp_path / "photos/anna/00.png", tmp_path / "photos/anna/copy.png")
    done = enroll("photos")  # the model is remembered
    assert done.code == 0, done.err
    assert re.search(r"\b2 images of 2 subjects.*\b1 .*\b10 ", done.out)
    assert subjects(tmp_path) == {"anna": 4, "team/ben": 3, "team/carl": 3, "dora": 1}
    done = enroll("photos")
    assert done.out.startswith("12 images")
    assert done.code == 0


def test_images_of_one_subject(enroll, tmp_path):
    done = enroll("photos/anna/00.png", "photos/team", "--name", "Anna K.", "--model", "run")
    assert done.code == 0, done.err
    assert subjects(tmp_path) == {"Anna K.": 7}


def test_what_cannot_be_read_is_named_and_the_rest_enrolled(enroll, tmp_path):
    (tmp_path / "photos/anna/cut.png").write_bytes(
        (tmp_path / "photos/anna/00.png").read_bytes()[:60]
    )
    (tmp_path / "photos/anna/text.png").write_text("no image")
    (tmp_path / "photos/notes.txt").write_text("no image either")
    (tmp_path / "photos/stray.png").write_bytes((tmp_path / "photos/anna/00.png").read_bytes())
    done = enroll("photos", "--model", "run", "--json")
    assert done.code == 0, done.err
    content = json.loads(done.out)
    assert content["samples"] == 9
    assert set(content["skipped"]) == {
        "photos/anna/cut.png",
        "photos/anna/text.png",
        "photos/stray.png",
    }
    done = enroll("photos")
    assert "3 files" in done.err
    assert "photos/anna/cut.png: " in done.err


def test_one_image_under_two_names_is_noticed(enroll, tmp_path):
    shutil.copy(tmp_path / "photos/anna/00.png", tmp_path / "photos/team/ben/x.png")
    done = enroll("photos", "--model", "run")
    assert done.code == 0
    assert re.search(r"photos/anna/00\.png.* anna and team/ben", done.err)


def test_a_model_that_moved_is_asked_for(enroll, tmp_path):
    assert enroll("photos/anna", "--model", "run").code == 0
    (tmp_path / "run").rename(tmp_path / "moved")
    done = enroll("photos")
    assert done.code == 2
    assert re.search(rf"people\.db.*{tmp_path / 'run'}.*--model", done.err)
    assert enroll("photos", "--model", "moved").code == 0
    assert enroll("photos").code == 0  # and is remembered where it is now


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        (["photos"], "--model"),
        (["photos", "--model", "nosuch"], "nosuch"),
        (["nosuch", "--model", "run"], "nosuch"),
        (["photos/anna/00.png", "--model", "run"], "photos/anna/00.png"),
        (["empty", "--model", "run"], "empty"),
        (["broken", "--model", "run"], "1 file"),
        (["photos", "--name", "a\nb", "--model", "run"], r"a\nb"),
        (["photos", "--model", "run", "--scoring", "median"], "'median'"),
        (["points.npz", "--model", "run"], "`arcset gallery import`"),
    ],
)
def test_wrong_use_is_one_line_exit_2_and_leaves_no_gallery(enroll, tmp_path, words, quoted):
    (tmp_path / "empty").mkdir()
    (tmp_path / "points.npz").write_bytes(b"")
    (tmp_path / "broken" / "a").mkdir(parents=True)
    (tmp_path / "broken" / "a" / "1.png").write_text("no image")
    before = sorted(tmp_path.iterdir())
    done = enroll(*words)
    assert done.code == 2
    assert quoted in done.err
    assert done.err.count("arcset: ") == 1
    assert sorted(tmp_path.iterdir()) == before

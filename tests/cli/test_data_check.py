import json

import numpy as np
import pytest
from PIL import Image

from support.small_data import vectors


@pytest.fixture
def people(tmp_path):
    """Two identities with five pictures each."""
    rng = np.random.default_rng(0)
    for name in ("anna", "bert"):
        (tmp_path / "people" / name).mkdir(parents=True)
        for place in range(5):
            pixels = rng.integers(0, 256, (16, 12), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "people" / name / f"{place}.png")
    return tmp_path / "people"


def test_features_are_no_images(arcset_command, tmp_path):
    vectors(tmp_path / "vectors.npz")
    done = arcset_command("data", "check", "vectors.npz")
    assert (done.code, "vectors.npz holds features" in done.err) == (2, True)


def test_a_wrong_label_is_a_negative_answer(arcset_command, people):
    Image.open(people / "anna" / "1.png").save(people / "bert" / "x.bmp")
    (people / "anna" / "2.png").write_bytes(b"torn")
    (people / "anna" / "3.png").write_bytes(b"torn")
    done = arcset_command("data", "check", "people")
    assert done.code == 1
    assert "anna/1.png = bert/x.bmp" in done.out
    assert "anna/2.png" in done.out
    assert "anna/3.png" in done.out
    assert "Traceback" not in done.err
    done = arcset_command("data", "check", "people", "--rows", "1")
    assert (done.code, "anna/3.png" in done.out) == (1, False)
    done = arcset_command("data", "check", "people", "--json")
    assert done.code == 1
    found = json.loads(done.out)
    assert (found["serious"], found["images"], found["readable"]) == (True, 11, 9)


def test_remarks_alone_are_no_negative_answer(arcset_command, people):
    for place in range(1, 5):
        (people / "bert" / f"{place}.png").unlink()
    done = arcset_command("data", "check", "people")
    assert done.code == 0
    assert "bert" in done.out


def test_the_contact_sheet(arcset_command, people, tmp_path):
    done = arcset_command("data", "check", "people", "--sheet", "sheets/people.png")
    assert done.code == 0
    assert "sheets/people.png" in done.err
    with Image.open(tmp_path / "sheets" / "people.png") as sheet:
        assert (sheet.format, sheet.width) == ("PNG", 1232)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere"),
        (["people", "--sheet", "people.jpg"], "people.jpg"),
        (["bare"], "bare"),
        (["torn"], "anna/1.png"),
        (["train.rec"], "train.rec"),
    ],
)
def test_what_cannot_be_checked(arcset_command, people, tmp_path, words, message):
    (tmp_path / "bare").mkdir()
    (tmp_path / "torn" / "anna").mkdir(parents=True)
    (tmp_path / "torn" / "anna" / "1.png").write_bytes(b"torn")
    (tmp_path / "train.rec").touch()
    done = arcset_command("data", "check", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert not (tmp_path / "people.jpg").exists()

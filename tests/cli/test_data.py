import json
from pathlib import Path

import pytest
from PIL import Image

from arcset.data import Split, dataset_names, load_dataset
from arcset.data.dataset import LazyRows
from support.pictures import picture, save
from support.small_data import vectors


def test_list(arcset_command, monkeypatch, tmp_path):
    folder = tmp_path / "a rather long name of a folder" / "that nobody wants to see cut off"
    (folder / "orl").mkdir(parents=True)
    monkeypatch.setenv("ARCSET_DATA", str(folder))
    done = arcset_command("data", "list")
    assert done.code == 0
    assert all(name in done.out for name in dataset_names())
    assert str(folder / "orl") in done.out
    entries = json.loads(arcset_command("data", "list", "--json").out)
    sample = next(entry for entry in entries if entry["name"] == "mnist-sample")
    assert (sample["train"], sample["test"], sample["place"]) == (4000, 1000, "shipped")


SPLIT = ["data", "split", "mnist-sample", "--out", "split.json"]


def test_split(arcset_command, tmp_path):
    shares = ["--fractions", "0.6,0.2,0.2", "--seed", "3"]
    done = arcset_command(*SPLIT, *shares)
    assert done.code == 0
    assert "600" in done.err
    first = (tmp_path / "split.json").read_text()
    split = Split.load(tmp_path / "split.json")
    assert (len(split.train), split.seed, split.data) == (6, 3, "mnist-sample")
    again = arcset_command(*SPLIT, *shares)
    assert again.code == 2
    assert "split.json" in again.err
    found = json.loads(arcset_command(*SPLIT, *shares, "--force", "--json").out)
    assert (tmp_path / "split.json").read_text() == first
    assert found["train"] == {"classes": 6, "images": 2400}
    assert found["validation"] == found["test"] == {"classes": 2, "images": 200}
    assert found["known_test_images"] == 600


def test_suspects(arcset_command):
    words = "train mnist-sample --classes 0-2 --dim 8 --epochs 2 --out three --no-report"
    words += " --network mlp --set snapshot=10"
    assert arcset_command(*words.split(), "--set", "subcenters=3").code == 0
    done = arcset_command("data", "suspects", "three", "--degrees", "40", "--rows", "5")
    assert done.code == 0
    found = json.loads(arcset_command("data", "suspects", "three", "--degrees", "40", "--json").out)
    assert found["total"] == 1200
    for quoted in (f"{len(found['positions']):,} of 1,200", "40°"):
        assert quoted in done.out
    assert len(found["positions"]) == len(found["classes"]) > 0
    assert all(angle > 40 for angle in found["degrees"])
    assert set(found["classes"]) <= {"0", "1", "2"}
    if len(found["positions"]) >= 5:
        assert str(found["positions"][4]) in done.out


@pytest.fixture
def people(tmp_path):
    """Two identities with five pictures each."""
    for seed, name in enumerate(("anna", "bert")):
        for number in range(5):
            save(picture(10 * seed + number), tmp_path / "people" / name / f"{number}.png")
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


def test_remarks_alone_are_no_negative_answer_and_a_sheet_is_drawn(
    arcset_command, people, tmp_path
):
    for number in range(1, 5):
        (people / "bert" / f"{number}.png").unlink()
    done = arcset_command("data", "check", "people", "--sheet", "sheets/people.png")
    assert done.code == 0
    assert "bert" in done.out
    assert "sheets/people.png" in done.err
    with Image.open(tmp_path / "sheets" / "people.png") as sheet:
        assert (sheet.format, sheet.width) == ("PNG", 1232)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere"),
        (["people", "--sheet", "people.jpg"], "people.jpg"),
        (["torn"], "anna/1.png"),
        (["train.rec"], "train.rec"),
    ],
)
def test_what_cannot_be_checked(arcset_command, people, tmp_path, words, message):
    (tmp_path / "torn" / "anna").mkdir(parents=True)
    (tmp_path / "torn" / "anna" / "1.png").write_bytes(b"torn")
    (tmp_path / "train.rec").touch()
    done = arcset_command("data", "check", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert not (tmp_path / "people.jpg").exists()


# `arcset data pack`, as a user types it.


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two people with six pictures each, of which one is broken, and a file that is no picture."""
    for seed, name in enumerate(("anna", "ben")):
        for number in range(6):
            image = picture(10 * seed + number, (30, 20)).convert("RGB")
            save(image, tmp_path / "photos" / name / f"{number}.png")
    (tmp_path / "photos" / "ben" / "3.png").write_bytes(b"broken")
    (tmp_path / "photos" / "readme.txt").write_text("my photos")
    return tmp_path / "photos"


def test_a_pack(arcset_command, photos):
    done = arcset_command("data", "pack", "photos", "--out", "p")
    assert done.code == 0
    for quoted in ("p: 11 images of 2 identities", "20×30"):
        assert quoted in done.out
    for quoted in (".txt", "ben/3.png"):
        assert quoted in done.err
    dataset = load_dataset("p")
    assert (len(dataset.train), dataset.name) == (9, "photos")
    assert isinstance(dataset.train.images, LazyRows)


@pytest.mark.parametrize(
    ("options", "shape"),
    [(["--size", "16X9", "--channels", "1"], (16, 9)), (["--fit", "crop"], (20, 30, 3))],
)
def test_shapes(arcset_command, photos, options, shape):
    done = arcset_command("data", "pack", "photos", "--out", "p", "--json", *options)
    assert done.code == 0
    found = json.loads(done.out)
    assert (found["images"], found["identities"], found["training"]) == (11, 2, 9)
    assert [path for path, _ in found["skipped"]] == ["ben/3.png"]
    assert found["bytes"] == sum(file.stat().st_size for file in Path("p").iterdir())
    dataset = load_dataset("p")
    assert dataset.train.images.shape[1:] == shape
    assert dataset.fit == found["reading"]["fit"] == ("crop" if "--fit" in options else "pad")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["photos/anna"], "'.'"),
        (["photos", "--size", "big"], "'big'"),
        (["photos", "--channels", "2"], "1 or 3"),
        (["photos", "--fit", "zoom"], "'zoom'"),
    ],
)
def test_mistakes(arcset_command, photos, tmp_path, words, message):
    done = arcset_command("data", "pack", *words, "--out", "p")
    assert done.code == 2
    assert message in done.err.splitlines()[-1]
    assert {file.name for file in tmp_path.iterdir()} == {"photos"}

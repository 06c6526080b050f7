import json

from arcset.data import Split, dataset_names


def test_list(arcset_command, monkeypatch):
    monkeypatch.delenv("ARCSET_DATA", raising=False)
    done = arcset_command("data", "list")
    assert done.code == 0
    assert all(name in done.out for name in dataset_names())
    entries = json.loads(arcset_command("data", "list", "--json").out)
    sample = next(entry for entry in entries if entry["name"] == "mnist-sample")
    assert (sample["train"], sample["test"], sample["place"]) == (4000, 1000, "shipped")


def test_list_shows_whole_paths(arcset_command, monkeypatch, tmp_path):
    folder = tmp_path / "a rather long name of a folder" / "that nobody wants to see cut off"
    (folder / "orl").mkdir(parents=True)
    monkeypatch.setenv("ARCSET_DATA", str(folder))
    assert str(folder / "orl") in arcset_command("data", "list").out


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

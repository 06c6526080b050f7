import json

from arcset.data import dataset_names


def test_list(arcset_command, monkeypatch):
    monkeypatch.delenv("ARCSET_DATA", raising=False)
    done = arcset_command("data", "list")
    assert done.code == 0
    assert all(name in done.out for name in dataset_names())
    entries = json.loads(arcset_command("data", "list", "--json").out)
    sample = next(entry for entry in entries if entry["name"] == "mnist-sample")
    assert (sample["train"], sample["test"], sample["place"]) == (4000, 1000, "shipped")


def test_a_shipped_set_needs_no_download(arcset_command):
    done = arcset_command("data", "download", "mnist-sample")
    assert done.code == 0
    assert "shipped" in done.err


def test_suspects(arcset_command):
    words = "train mnist-sample --classes 0-2 --dim 8 --epochs 2 --out three --no-report"
    assert arcset_command(*words.split(), "--set", "subcenters=3").code == 0
    done = arcset_command("data", "suspects", "three", "--degrees", "40", "--rows", "5")
    assert done.code == 0
    assert "training images" in done.err
    found = json.loads(arcset_command("data", "suspects", "three", "--degrees", "40", "--json").out)
    assert found["total"] == 1200
    assert len(found["positions"]) == len(found["classes"]) > 0
    assert all(angle > 40 for angle in found["degrees"])
    assert set(found["classes"]) <= {"0", "1", "2"}
    if len(found["positions"]) >= 5:
        assert str(found["positions"][4]) in done.out

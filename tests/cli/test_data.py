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

"""`arcset cluster` from the outside."""

import csv
import json
import os
import re
import shutil

import numpy as np
import pytest

from support.patterns import calibrated_run, pictures

NAMES = ["anna", "ben", "team/carl", "team/dora"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, four subjects of five images each, and somebody who is alone."""
    folder = tmp_path_factory.mktemp("made")
    calibrated_run(folder / "run", identities=60)
    pictures(folder / "photos", NAMES, 5)
    pictures(folder / "photos", ["emil"], 1)
    return folder


@pytest.fixture
def cluster(arcset_command, tmp_path, made):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return lambda *words: arcset_command("cluster", *words, "--device", "cpu")


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_groups_as_a_table_as_json_and_as_a_page(cluster, tmp_path):
    done = cluster("photos", "--model", "run", "--out", "found")
    assert done.code == 0, done.err
    assert "20 in 4 groups, 1 alone" in done.out
    assert re.search(r"^threshold 0\.", done.out, re.MULTILINE)
    assert "F 1.000" in done.out
    assert "found" in done.err
    rows = table(tmp_path / "found/groups.csv")
    assert set(rows[0]) == {"path", "group"}
    found = {(row["group"], row["path"].rpartition("/")[0]) for row in rows}
    assert sorted(found) == list(zip("12345", [*NAMES, "emil"], strict=True))
    content = json.loads((tmp_path / "found/groups.json").read_text())
    assert [group["size"] for group in content["groups"]] == [5, 5, 5, 5, 1]
    assert content["groups"][0]["members"][0] == {"path": "anna/00.png", "label": "anna"}
    assert content["scores"]["f"] == 1
    page = (tmp_path / "found/groups.html").read_text()
    assert "photos" in page
    assert page.count("<img ") == 21


def test_an_unsorted_folder_has_no_scores(cluster, tmp_path):
    flat = tmp_path / "flat"
    flat.mkdir()
    for number, path in enumerate(sorted((tmp_path / "photos").rglob("*.png"))):
        shutil.copy(path, flat / f"{number:02d}.png")
    (flat / "cut.png").write_bytes((flat / "00.png").read_bytes()[:60])
    done = cluster("flat", "--model", "run", "--json")
    assert done.code == 0, done.err
    content = json.loads(done.out)
    assert content["scores"] is None
    assert content["count"] == 21
    assert list(content["skipped"]) == ["cut.png"]
    assert "cut.png" in done.err
    done = cluster("photos", "--model", "run", "--no-labels", "--json")
    assert json.loads(done.out)["scores"] is None


def test_names_of_any_kind(cluster, tmp_path):
    odd = tmp_path / "odd"
    odd.mkdir()
    paths = sorted((tmp_path / "photos").rglob("*.png"))[:3]
    names = (b"a\xff.png", b'zwei,\n".png', "ü<b>.png".encode())
    for path, name in zip(paths, names, strict=True):
        shutil.copy(path, odd / os.fsdecode(name))
    done = cluster("odd", "--model", "run")
    assert done.code == 0, done.err
    assert [row["path"] for row in table(tmp_path / "odd-groups/groups.csv")] == [
        "a\\xff.png",
        'zwei,\n".png',
        "ü<b>.png",
    ]
    page = (tmp_path / "odd-groups/groups.html").read_text(encoding="utf-8")
    assert "ü&lt;b&gt;.png" in page
    assert "<b>.png" not in page


def test_the_threshold_can_be_said(cluster):
    done = cluster("photos", "--model", "run", "--threshold", "-1", "--json")
    content = json.loads(done.out)
    assert [group["size"] for group in content["groups"]] == [21]
    assert content["point"] == {"threshold": -1, "others": None, "published": None, "note": ""}
    strict, loose = (
        json.loads(cluster("photos", "--model", "run", "--far", far, "--json").out)["point"]
        for far in ("0.01", "0.2")
    )
    assert strict["threshold"] > loose["threshold"]


def test_embeddings_from_a_file(cluster, tmp_path):
    rng = np.random.default_rng(0)
    centers = np.eye(6)[np.repeat(np.arange(6), 3)]
    np.savez(
        tmp_path / "found.npz",
        embeddings=centers + 0.05 * rng.normal(size=centers.shape),
        labels=np.repeat(np.arange(6), 3),
    )
    done = cluster("found.npz", "--threshold", "0.5")
    assert done.code == 0, done.err
    assert "18 in 6 groups, 0 alone" in done.out
    assert "F 1.000" in done.out
    assert table(tmp_path / "found-groups/groups.csv")[0] == {"path": "row 0", "group": "1"}


def test_one_line_for_what_cannot_be_done(cluster, arcset_command, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/a.png").write_bytes(b"no image")
    np.savez(tmp_path / "rows.npz", embeddings=np.eye(3), labels=[0, 1, 2])
    (tmp_path / "run/threshold.json").rename(tmp_path / "kept.json")
    done = cluster("photos", "--model", "run")
    assert done.code == 2
    assert "threshold" in done.err
    (tmp_path / "kept.json").rename(tmp_path / "run/threshold.json")
    for words, said in (
        (("photos",), "--model"),
        (("broken", "--model", "run"), "a.png"),
        (("photos", "--model", "run", "--method", "magic"), "average, connected"),
        (("photos", "--model", "run", "--far", "0.1", "--threshold", "0"), "--far"),
        (("rows.npz",), "--threshold"),
        (("rows.npz", "--threshold", "0", "--faces", "auto"), "--faces"),
    ):
        done = cluster(*words)
        assert done.code == 2, words
        assert said in done.err, words
        assert done.err.count("\n") == 1, done.err
    assert not (tmp_path / "photos-groups").exists()

"""Verbs that take a gallery take one in Milvus as well."""

import json

import numpy as np
import pytest

from arcset.data.embeddings import EmbeddingSet, write_embeddings
from support.patterns import calibrated_run, pictures


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, and images of some."""
    folder = tmp_path_factory.mktemp("made")
    calibrated_run(folder / "run", identities=60)
    for name in ("anna", "ben", "carl"):
        pictures(folder / "photos", [name], 2)
    return folder


def test_from_enrolling_to_a_copy_in_a_file(arcset_command, made):
    address = "milvus:people.db/faces"
    done = arcset_command("enroll", address, made / "photos", "--model", made / "run")
    assert (done.code, done.err) == (0, "")
    assert "6 images of 3 subjects" in done.out
    done = arcset_command("enroll", address, made / "photos")
    assert "6 images" in done.out
    probe = made / "photos/ben/00.png"
    done = arcset_command("identify", address, probe, "--json", "--threshold", "0.99")
    assert json.loads(done.out)["probes"][0]["subject"] == "ben"
    done = arcset_command("identify", address, probe, "--fpir", "0.1")
    assert done.code == 0
    assert done.out.rstrip().endswith("6")  # a gallery of 3 subjects with 2 samples
    done = arcset_command("gallery", "info", address)
    assert (done.code, done.err) == (0, "")
    assert "3" in done.out.splitlines()[0]
    assert arcset_command("gallery", "rename", address, "carl", "charles").code == 0
    assert arcset_command("gallery", "merge", address, "charles", "ben").code == 0
    assert arcset_command("gallery", "remove", address, "anna").code == 0
    done = arcset_command("gallery", "list", address, "--json")
    assert [(one["name"], one["samples"]) for one in json.loads(done.out)] == [("ben", 4)]
    done = arcset_command("gallery", "export", address, "--out", "people.parquet")
    assert "people.parquet" in done.out
    done = arcset_command("gallery", "import", "copy.db", "people.parquet")
    assert done.code == 0
    done = arcset_command("gallery", "list", "copy.db", "ben", "--json")
    back = arcset_command("gallery", "list", address, "ben", "--json")
    there, here = json.loads(back.out), json.loads(done.out)
    assert [{**one, "id": 0} for one in here] == [{**one, "id": 0} for one in there]
    done = arcset_command("gallery", "import", "milvus:people.db/again", "people.parquet")
    assert "4 embeddings" in done.out


def test_a_file_that_cannot_be_taken_in_leaves_no_gallery(arcset_command, tmp_path):
    address = "milvus:birds.db/birds"
    rows = np.random.default_rng(0).normal(size=(3, 8))
    rows[1] = 0
    write_embeddings(tmp_path / "zero.npz", EmbeddingSet.of(rows, ["a", "b", "c"]))
    done = arcset_command("gallery", "import", address, "zero.npz")
    assert done.code == 2
    assert "row 1" in done.err
    done = arcset_command("gallery", "list", address)
    assert (done.code, address in done.err) == (2, True)
    write_embeddings(tmp_path / "whole.npz", EmbeddingSet.of(rows[:1, :5], ["a"]))
    done = arcset_command("gallery", "import", address, "whole.npz")  # of another dimension
    assert (done.code, done.err) == (0, "")
    assert arcset_command("gallery", "import", address, "zero.npz").code == 2
    assert "1 subject" in arcset_command("gallery", "list", address).out  # is left alone


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        (["gallery", "list", "milvus:none.db/people"], "milvus:none.db/people"),
        (["gallery", "list", "milvus://u:secret@h/2people"], "2people"),
        (["enroll", "milvus:none.db/people", "photos", "--keep-images"], "milvus:none.db/people"),
    ],
)
def test_wrong_use_is_one_line_and_leaves_nothing(arcset_command, tmp_path, made, words, quoted):
    if words[0] == "enroll":
        words = ["enroll", words[1], made / "photos", "--keep-images", "--model", made / "run"]
    done = arcset_command(*words)
    assert done.code == 2
    assert quoted in done.err
    assert "secret" not in done.err
    assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []

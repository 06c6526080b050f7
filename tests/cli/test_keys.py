"""`arcset keys`, as typed."""

import json

import pytest

from arcset.recognition.gallery import Gallery


@pytest.fixture
def gallery(tmp_path):
    Gallery.open(tmp_path / "people.db", dim=2).close()
    return "people.db"


def test_a_key_is_printed_once_and_only_then(arcset_command, gallery, tmp_path):
    made = arcset_command("keys", "add", gallery, "--role", "write", "--name", "door")
    secret = made.out.strip()
    assert made.code == 0
    assert secret.startswith("arcset_")
    listed = arcset_command("keys", "list", gallery)
    assert "door" in listed.out
    assert "write" in listed.out
    assert secret not in listed.out + (tmp_path / "people.db.keys.json").read_text()


def test_keys_as_json_and_their_end(arcset_command, gallery):
    made = json.loads(arcset_command("keys", "add", gallery, "--json").out)
    assert made["role"] == "read"
    (listed,) = json.loads(arcset_command("keys", "list", gallery, "--json").out)
    assert listed == {key: value for key, value in made.items() if key != "key"}
    assert arcset_command("keys", "remove", gallery, made["id"]).code == 0
    assert "no keys" in arcset_command("keys", "list", gallery).out


def test_another_file_of_keys(arcset_command, gallery, tmp_path):
    arcset_command("keys", "add", gallery, "--keys", "elsewhere.json")
    assert (tmp_path / "elsewhere.json").exists()
    assert "no keys" in arcset_command("keys", "list", gallery).out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "nobody.db"], "there is no gallery nobody.db"),
        (["add", "people.db", "--role", "admin"], "role 'admin' is unknown"),
        (["remove", "people.db", "abc"], "no key 'abc'"),
    ],
)
def test_wrong_words_are_one_line(arcset_command, gallery, words, said):
    found = arcset_command("keys", *words)
    assert found.code == 2
    assert said in found.err
    assert found.err.count("\n") == 1

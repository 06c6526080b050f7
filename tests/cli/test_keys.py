"""`arcset keys`, as typed. What a server does with keys: tests/service/test_access.py."""

import json
import stat

import pytest

from arcset import Gallery
from arcset.cli import main
from support.forked import started


@pytest.fixture
def gallery(tmp_path):
    Gallery.open(tmp_path / "people.db", dim=2).close()
    return "people.db"


def test_a_key_is_printed_once_and_only_then(arcset_command, gallery, tmp_path):
    made = arcset_command("keys", "add", gallery, "--role", "write", "--name", "door")
    secret = made.out.strip()
    assert made.code == 0
    assert secret.startswith("arcset_")
    assert len(secret) >= len("arcset_") + 43  # 32 random bytes
    assert secret != arcset_command("keys", "add", gallery).out.strip()
    file = tmp_path / "people.db.keys.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listed = arcset_command("keys", "list", gallery)
    assert "door" in listed.out
    assert "write" in listed.out
    assert secret not in listed.out + file.read_text()


def test_keys_as_json_and_their_end(arcset_command, gallery):
    made = json.loads(arcset_command("keys", "add", gallery, "--json").out)
    assert made["role"] == "read"
    (listed,) = json.loads(arcset_command("keys", "list", gallery, "--json").out)
    assert listed == {key: value for key, value in made.items() if key != "key"}
    assert arcset_command("keys", "remove", gallery, made["id"]).code == 0
    assert "no keys" in arcset_command("keys", "list", gallery).out


def test_a_name_takes_a_key_away_if_it_is_the_only_one(arcset_command, gallery):
    for name in ("twice", "twice", "once"):
        arcset_command("keys", "add", gallery, "--name", name)
    assert arcset_command("keys", "remove", gallery, "once").code == 0
    ids = [one["id"] for one in json.loads(arcset_command("keys", "list", gallery, "--json").out)]
    assert len(ids) == 2
    several = arcset_command("keys", "remove", gallery, "twice")
    assert several.code == 2
    assert all(one in several.err for one in ("'twice'", *ids))
    assert arcset_command("keys", "remove", gallery, ids[0]).code == 0
    assert arcset_command("keys", "remove", gallery, ids[0]).code == 2


def test_many_at_once_are_all_kept(arcset_command, gallery, tmp_path):
    words = ["keys", "add", gallery]
    makers = [started(main, words, place=tmp_path, written=tmp_path / "out") for _ in range(6)]
    for maker in makers:
        maker.join()
    assert len(json.loads(arcset_command("keys", "list", gallery, "--json").out)) == 6


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2, "keys": []}', '{"keys": 1}'])
def test_a_damaged_file_is_named(arcset_command, gallery, tmp_path, text):
    (tmp_path / "people.db.keys.json").write_text(text)
    for words in (["list"], ["add"]):
        found = arcset_command("keys", words[0], gallery)
        assert found.code == 2
        assert "people.db.keys.json" in found.err
    assert (tmp_path / "people.db.keys.json").read_text() == text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "nobody.db"], "nobody.db"),
        (["add", "people.db", "--role", "admin"], "'admin'"),
        (["add", "people.db", "--name", "x" * 101], "100"),
        (["add", "people.db", "--name", "a\nb"], "100"),
        (["remove", "people.db", "abc"], "'abc'"),
    ],
)
def test_wrong_words_are_one_line(arcset_command, gallery, tmp_path, words, said):
    found = arcset_command("keys", *words)
    assert found.code == 2
    assert said in found.err
    assert found.err.count("\n") == 1
    assert not (tmp_path / "people.db.keys.json").exists()

"""Keys in a file: found again, taken away, and never kept as they are."""

import threading

import pytest

from arcset.errors import DataError, OptionError
from arcset.service.keys import PREFIX, Keys


@pytest.fixture
def keys(tmp_path):
    return Keys(tmp_path / "people.db.keys.json")


def test_a_key_is_random_and_found_again(keys):
    made, secret = keys.add("write", "door")
    other, _ = keys.add()
    assert secret.startswith(PREFIX)
    assert len(secret) >= len(PREFIX) + 43  # 32 bytes
    assert keys.find(secret) == made
    assert (made.role, made.name, other.role) == ("write", "door", "read")
    for wrong in ("", secret[:-1], secret + "x", made.digest, made.id, "ü\udcff"):
        assert keys.find(wrong) is None


def test_keys_are_needed_once_there_was_one(keys):
    assert not keys.required
    made, secret = Keys(keys.path).add()  # by another process, as it were
    assert keys.required
    Keys(keys.path).remove(made.id)
    assert keys.required
    assert keys.find(secret) is None
    assert not Keys(keys.path).required


def test_they_are_taken_away_by_id_or_by_a_name_that_is_the_only_one(keys):
    first, _ = keys.add("read", "twice")
    keys.add("read", "twice")
    keys.add("read", "once")
    assert keys.remove("once").name == "once"
    with pytest.raises(OptionError, match="2 keys are named 'twice'"):
        keys.remove("twice")
    assert keys.remove(first.id) == first
    with pytest.raises(OptionError, match="has no key"):
        keys.remove(first.id)
    assert len(keys.all()) == 1


def test_what_is_no_role_and_no_name(keys):
    with pytest.raises(OptionError, match="role 'admin' is unknown"):
        keys.add("admin")
    for name in ("x" * 101, "a\nb"):
        with pytest.raises(OptionError, match="printable"):
            keys.add("read", name)
    assert not keys.path.exists()


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2, "keys": []}', '{"keys": 1}'])
def test_a_damaged_file_is_said_and_lets_nobody_in(keys, text):
    _, secret = keys.add()
    keys.path.write_text(text)
    assert keys.find(secret) is None
    with pytest.raises(DataError, match="is damaged"):
        Keys(keys.path)


def test_many_at_once_are_all_kept(keys):
    makers = [threading.Thread(target=Keys(keys.path).add) for _ in range(12)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert len({one.id for one in keys.all()}) == 12

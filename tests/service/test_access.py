"""Keys: who has one, who has none, and files of them. Which route takes which role is recorded in
tests/contract."""

import json
import shutil
import socket

import pytest

from support.servers import added_key, forked, typed
from support.watched_servers import main_with_a_route


@pytest.fixture
def server(keyed_server):
    return keyed_server


def keys_file(gallery):
    return gallery.with_name(f"{gallery.name}.keys.json")


@pytest.fixture
def file(keyed_gallery):
    """The file of keys."""
    return keys_file(keyed_gallery)


def listed(gallery):
    return json.loads(typed("keys", "list", gallery, "--json"))


def test_a_route_without_a_role_is_not_there(a_gallery, model, tmp_path):
    gallery = shutil.copy(a_gallery, tmp_path / "people.db")
    held = [added_key(gallery, role, role) for role in ("read", "write")]
    server = forked(gallery, "--model", model, command=main_with_a_route).wait()
    asked = [server.get("/v1/new", **{"X-API-Key": key}) for key in ("", *held)]
    assert server.stop() == 0
    assert [found.status for found in asked] == [404] * 3


def test_keys_come_in_either_header(server, keys):
    assert server.get("/v1/gallery", **{"X-API-Key": keys["read"]}).json()["role"] == "read"
    found = server.get("/v1/gallery", Authorization=f"bearer {keys['write']}")
    assert found.json()["role"] == "write"
    for scheme in ("Basic", ""):
        odd = server.get("/v1/gallery", Authorization=f"{scheme} {keys['write']}")
        assert odd.status == 401


def test_who_has_no_key_is_not_waited_for(server):
    """The body need not have arrived, so that strangers cannot take up room."""
    with socket.create_connection((server.host, server.port), timeout=20) as waiting:
        head = b"POST /v1/identify HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n"
        waiting.sendall(head)
        assert waiting.recv(100).startswith(b"HTTP/1.1 401 ")


def test_nothing_but_the_key_is_a_key(server, keys, keyed_gallery, file):
    for wrong in (
        *("", keys["read"][:-1], keys["read"] + "x", keys["read"].upper()),
        *(value for one in json.loads(file.read_text())["keys"] for value in one.values()),
    ):
        assert server.get("/v1/gallery", **{"X-API-Key": wrong}).status == 401


def test_a_key_works_as_soon_as_it_is_made_and_no_longer_than_it_is_there(server, keyed_gallery):
    secret = added_key(keyed_gallery, "read", "for a moment")
    assert server.get("/v1/gallery", **{"X-API-Key": secret}).status == 200
    typed("keys", "remove", keyed_gallery, "for a moment")
    assert server.get("/v1/gallery", **{"X-API-Key": secret}).status == 401


def test_keys_are_needed_from_the_first_one_on_even_when_it_is_taken_away(own_gallery, model):
    server = forked(own_gallery, "--model", model, "--no-log").wait()
    assert server.get("/v1/gallery").status == 200
    added_key(own_gallery, "read", "first")
    assert server.get("/v1/gallery").status == 401
    typed("keys", "remove", own_gallery, "first")
    assert server.get("/v1/gallery").status == 401
    assert server.stop() == 0


def test_a_damaged_file_of_keys_lets_nobody_in(server, file, keys):
    good = file.read_text()
    odd = json.loads(good)
    odd["keys"] = [{**key, "digest": "é" * 64} for key in odd["keys"]]
    for bad in ("", "{", '{"version": 1, "keys": []}', json.dumps(odd), "[" * 100_000):
        file.write_text(bad)
        assert server.get("/v1/gallery", **{"X-API-Key": keys["write"]}).status == 401
    file.unlink()
    assert server.get("/v1/gallery").status == 401
    file.write_text(good)
    assert server.get("/v1/gallery", **{"X-API-Key": keys["write"]}).status == 200


def test_neither_file_nor_log_tells_a_key(server, keyed_gallery, file, keys):
    server.get("/v1/gallery", **{"X-API-Key": keys["read"]})
    kept = file.read_text()
    for secret in keys.values():
        assert secret not in kept
        assert secret not in server.written()
    assert listed(keyed_gallery)[0]["id"] in server.written()  # so that one can tell who it was

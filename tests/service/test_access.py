"""Who may do what: every route is in one table, and a real server keeps to it."""

import json
import re
import socket
import stat

import pytest

from arcset.recognition import Recognizer
from arcset.recognition.gallery import Gallery
from arcset.service.access import ACCESS, role_for
from arcset.service.app import make_app
from arcset.service.keys import Keys, keys_file
from support.servers import multipart

#: What everybody may do, those with a read key, and those with a write key. Written down a second
#: time on purpose: a route that is added, or moved to another role, has to be moved here as well.
OPEN = ["GET /", "GET /page/{name}", "GET /healthz", "GET /readyz"]
READ = [
    "GET /metrics",
    "GET /openapi.json",
    "POST /v1/embed",
    "POST /v1/verify",
    "POST /v1/identify",
    "GET /v1/gallery",
    "GET /v1/threshold",
    "GET /v1/subjects",
    "GET /v1/subjects/{name}",
    "GET /v1/subjects/{name}/samples",
    "GET /v1/samples/{sample}/image",
    "GET /v1/views",
    "GET /v1/views/{id}",
    "GET /v1/views/{id}/sprite.png",
]
WRITE = [
    "POST /v1/subjects",
    "PATCH /v1/subjects/{name}",
    "DELETE /v1/subjects/{name}",
    "POST /v1/subjects/{name}/samples",
    "DELETE /v1/samples/{sample}",
]
TABLE = {
    **dict.fromkeys(OPEN, "open"),
    **dict.fromkeys(READ, "read"),
    **dict.fromkeys(WRITE, "write"),
}


@pytest.fixture
def server(keyed_server):
    return keyed_server


@pytest.fixture
def file(keyed_gallery):
    """The file of keys."""
    return keys_file(keyed_gallery)


def routes(router):
    """Method and template of all routes, those of routers within routers as well."""
    for route in router.routes:
        if hasattr(route, "methods"):
            yield from (f"{method} {route.path}" for method in route.methods - {"HEAD"})
        elif hasattr(route, "effective_candidates"):
            for inner in route.effective_candidates():
                yield from (f"{method} {inner.path}" for method in inner.methods - {"HEAD"})
        else:
            raise AssertionError(f"{route!r} is a kind of route that nobody looks into")


def test_every_route_is_listed_with_its_role(own_gallery, model, tmp_path):
    gallery = Gallery.open(own_gallery, Recognizer.load(model, device="cpu"), read_only=True)
    app = make_app(gallery, Keys(tmp_path / "none.json"))
    found = sorted(routes(app.router))
    app.state.service.close()
    assert found == sorted(TABLE)
    assert {f"{method} {path}": role for (method, path), role in ACCESS.items()} == TABLE


def test_a_route_that_nobody_listed_takes_the_highest_role():
    assert role_for("GET", "/v1/new") == "write"
    assert role_for("HEAD", "/healthz") == "open"


@pytest.mark.parametrize("route", sorted(TABLE))
@pytest.mark.parametrize("holder", ["nobody", "wrong", "read", "write"])
def test_the_table_is_kept(server, keys, route, holder):
    method, template = route.split()
    path = re.sub(r"{\w+}", "99", template)
    headers = {"Authorization": f"Bearer {keys.get(holder, 'arcset_wrong')}"}
    kind, body = multipart([("name", "99")])
    got = server.request(
        method,
        path,
        body if method in ("POST", "PATCH") else None,
        {"Content-Type": kind, **(headers if holder != "nobody" else {})},
    )
    needed = TABLE[route]
    if needed == "open" or holder == "write" or holder == needed:
        assert got.status not in (401, 403, 405)
    elif holder == "read":
        assert (got.status, got.code) == (403, "forbidden")
    else:
        assert (got.status, got.code) == (401, "unauthorized")
        assert got.headers["www-authenticate"].startswith("Bearer")


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


def test_a_key_works_as_soon_as_it_is_made_and_no_longer_than_it_is_there(server, file):
    held = Keys(file)
    made, secret = held.add("read", "for a moment")
    assert server.get("/v1/gallery", **{"X-API-Key": secret}).status == 200
    held.remove(made.id)
    assert server.get("/v1/gallery", **{"X-API-Key": secret}).status == 401


def test_a_damaged_file_of_keys_lets_nobody_in(server, file, keys):
    good = file.read_text()
    for bad in ("", "{", '{"version": 1, "keys": []}', '{"version": 1, "keys": [{}]}'):
        file.write_text(bad)
        assert server.get("/v1/gallery", **{"X-API-Key": keys["write"]}).status == 401
    file.unlink()
    assert server.get("/v1/gallery").status == 401
    file.write_text(good)
    assert server.get("/v1/gallery", **{"X-API-Key": keys["write"]}).status == 200


def test_neither_file_nor_log_tells_a_key(server, file, keys):
    server.get("/v1/gallery", **{"X-API-Key": keys["read"]})
    kept = file.read_text()
    for secret in keys.values():
        assert secret not in kept
        assert secret not in server.written()
    identity = json.loads(kept)["keys"][0]["id"]
    assert identity in server.written()  # so that one can tell who it was


def test_only_the_owner_reads_the_file_of_keys(tmp_path):
    held = Keys(tmp_path / "keys.json")
    held.add("read")
    held.add("write")
    assert stat.S_IMODE(held.path.stat().st_mode) == 0o600

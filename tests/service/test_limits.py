"""What is too much is refused, early and in one shape, and others are answered meanwhile."""

import base64
import http.client
import io
import json
import shutil
import socket
import time

import numpy as np
import pytest
from PIL import Image

from support.servers import NAMES, forked, served
from support.watched_servers import main_that_tells_what_it_opens

BODY, PIXELS, IMAGES, REQUESTS, SECONDS = 200_000, 10_000, 3, 2, 1.5


@pytest.fixture(scope="module")
def server(own_gallery, model):
    words = {
        "--model": model,
        "--max-body": BODY / (1 << 20),
        "--max-pixels": PIXELS,
        "--max-images": IMAGES,
        "--max-requests": REQUESTS,
        "--body-seconds": SECONDS,
    }
    given = [word for pair in words.items() for word in pair]
    with served(own_gallery, *given, "--cors", "https://door.example", "--read-only") as running:
        yield running


@pytest.fixture(scope="module")
def image(photos):
    return photos / NAMES[0] / "00.png"


def png(width, height):
    held = io.BytesIO()
    Image.fromarray(np.zeros((height, width), np.uint8)).save(held, "PNG")
    return held.getvalue()


def half_sent(server):
    """A connection on which a body begins, and does not end."""
    waiting = socket.create_connection((server.host, server.port), timeout=20)
    waiting.sendall(
        b"POST /v1/identify HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n"
        b"Content-Type: application/json\r\n\r\n{"
    )
    return waiting


def until_in_flight(server, count):
    line = f"arcset_requests_in_flight {count}.0"
    while line not in server.get("/metrics").body.decode():
        time.sleep(0.01)


def read(waiting):
    answer = http.client.HTTPResponse(waiting)
    answer.begin()
    return answer.status, json.loads(answer.read())["error"]["code"]


def test_pixels_and_images_are_counted(server, image):
    assert server.form("/v1/embed", *[("image", png(100, 100))] * IMAGES).status == 200
    for sent, code in (
        ([png(101, 100)], "image_too_large"),
        ([image] * (IMAGES + 1), "too_many_images"),
    ):
        refused = server.form("/v1/embed", *[("image", one) for one in sent])
        assert (refused.status, refused.code) == (422, code)


def test_more_requests_than_allowed_are_told_to_come_again(server, image):
    first = [half_sent(server) for _ in range(REQUESTS)]
    until_in_flight(server, REQUESTS)
    busy = server.form("/v1/identify", ("image", image))
    assert (busy.status, busy.code) == (429, "busy")
    assert int(busy.headers["retry-after"]) >= 1
    assert server.get("/readyz").status == 200  # neither busy nor gone
    for waiting in first:
        assert read(waiting) == (408, "too_slow")
        waiting.close()
    assert server.form("/v1/identify", ("image", image)).status == 200


def test_a_client_that_goes_away_frees_its_place(server, image):
    for _ in range(3 * REQUESTS):
        half_sent(server).close()
    until_in_flight(server, 0)
    assert server.form("/v1/identify", ("image", image)).status == 200


def test_headers_have_a_number_a_size_and_a_time(server):
    many = {f"X-{number}": "x" for number in range(200)}
    for odd in (many, {"X-Long": "x" * 40_000}, {"X-Longer": "x" * 400_000}):
        assert server.request("GET", "/healthz", headers=odd).status == 431
    assert server.get("/" + "x" * 20_000).status == 431


@pytest.mark.parametrize("begun", [b"GET /healthz HTTP/1.1\r\nX-Slow: ", b"\r\n"])
def test_a_head_that_never_ends_has_its_time_on_new_and_on_kept_connections(server, begun):
    kept = http.client.HTTPConnection(server.host, server.port, timeout=20)
    kept.request("GET", "/healthz")
    kept.getresponse().read()
    with socket.create_connection((server.host, server.port), timeout=20) as new:
        for waiting in (new, kept.sock):
            waiting.sendall(begun)
        for waiting in (new, kept.sock):
            assert read(waiting) == (408, "too_slow")
    kept.close()


PATHS = ("/v1/samples/1/image", "/v1/gallery", "/metrics", "/page/app.js", "/healthz", "/")


@pytest.mark.parametrize(
    ("site", "mode", "kind", "answered"),
    [
        ("same-origin", "cors", "empty", PATHS),
        ("none", "navigate", "document", PATHS),
        ("cross-site", "no-cors", "image", ()),  # browsers send no Origin with these
        ("same-site", "navigate", "iframe", ()),
        ("cross-site", "navigate", "image", ()),
        ("cross-site", "navigate", "document", ("/",)),  # a link
    ],
)
def test_other_pages_may_link_to_the_page_and_nothing_else(server, site, mode, kind, answered):
    sent = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": kind}
    found = {path: server.get(path, **sent).status for path in PATHS}
    assert found == {path: 200 if path in answered else 403 for path in PATHS}


def test_a_page_that_was_named_asks_with_what_was_named(server):
    named = {"Origin": "https://door.example", "Sec-Fetch-Site": "cross-site"}
    assert server.get("/v1/gallery", **named).status == 200
    post = {"Access-Control-Request-Method": "POST"}
    for odd in ({**post, "Access-Control-Request-Headers": "X-Other"}, {**post, "Origin": "null"}):
        bad = server.request("OPTIONS", "/v1/identify", headers={**named, **odd})
        assert (bad.status, bad.code) == (400, "bad_request")


def test_without_keys_nobody_asks_through_a_proxy(server):
    for header in ("X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Forwarded", "Via"):
        assert server.get("/v1/gallery", **{header: "127.0.0.1"}).code == "forbidden"


def test_read_only_means_nobody(server, image):
    refused = server.form("/v1/subjects", ("name", "new"), ("image", image))
    assert (refused.status, refused.code) == (403, "forbidden")
    found = server.get("/v1/gallery").json()
    assert (found["role"], found["read_only"]) == ("read", True)


def test_uploads_never_become_files(a_gallery, model, tmp_path, photos):
    """Neither as forms nor in JSON, however large."""
    gallery = shutil.copy(a_gallery, tmp_path / "people.db")
    large = (photos / NAMES[0] / "00.png").read_bytes() + bytes(6 << 20)  # what follows is not read
    text = base64.b64encode(large).decode()
    server = forked(gallery, "--model", model, command=main_that_tells_what_it_opens).wait()
    several = [("image", large)] * 2
    assert server.form("/v1/embed", *several).status == 200
    assert server.form("/v1/identify?threshold=0", *several).status == 200
    assert server.json("POST", "/v1/embed", {"images": [text]}).status == 200
    assert server.form("/v1/subjects", ("name", "large"), ("image", large)).status == 201
    assert server.stop() == 0
    ready, _, requests = server.written().partition('"route": "/readyz"')
    assert "opened to write: " in ready  # it is told
    assert "opened to write: " not in requests

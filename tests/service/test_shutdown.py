"""A service that is told to stop: what it has begun is finished, nothing new is taken, exit 0."""

import http.client
import json
import shutil
import signal
import socket
import threading
import time

import pytest

from arcset import Gallery
from support.servers import NAMES, forked, multipart, pattern, served


@pytest.fixture(scope="module")
def server(own_gallery, model):
    with served(own_gallery, "--model", model) as running:
        yield running


def half_sent(server, image):
    """A connection on which all but the last bytes of an identification were sent, and these."""
    kind, body = multipart([("image", image)])
    head = (
        f"POST /v1/identify HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    waiting = socket.create_connection((server.host, server.port), timeout=20)
    waiting.sendall(head.encode() + body[:-10])
    return waiting, body[-10:]


def read(waiting):
    answer = http.client.HTTPResponse(waiting)
    answer.begin()
    return answer.status, json.loads(answer.read())


def test_what_was_begun_is_answered_and_nothing_acknowledged_is_lost(
    server, own_gallery, photos, tmp_path
):
    """Clients enroll without a pause while the server is told to stop."""
    acknowledged, refused = [], []

    def enroll(worker):
        for number in range(10_000):
            name = f"enrolled {worker}-{number}"
            try:
                image = pattern(tmp_path / str(worker), name)
                got = server.form("/v1/subjects", ("name", name), ("image", image))
            except (OSError, http.client.HTTPException):
                return  # nobody listens any more
            if got.status != 201:
                refused.append((got.status, got.code))
                return
            acknowledged.append(name)

    workers = [threading.Thread(target=enroll, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    waiting, rest = half_sent(server, photos / NAMES[1] / "00.png")
    while len(acknowledged) < 20:
        time.sleep(0.01)

    server.process.send_signal(signal.SIGTERM)
    while (ready := server.get("/readyz")).status == 200:
        time.sleep(0.01)
    assert (ready.status, ready.code) == (503, "shutting_down")
    late = server.get("/v1/gallery")
    assert (late.status, late.code) == (503, "shutting_down")
    assert server.get("/healthz").status == 200
    assert server.process.poll() is None  # it waits for the one that was begun

    waiting.sendall(rest)
    status, found = read(waiting)
    waiting.close()
    assert (status, found["results"][0]["subject"]) == (200, NAMES[1])
    for worker in workers:
        worker.join()
    assert server.process.wait(20) == 0
    assert set(refused) <= {(503, "shutting_down")}
    with Gallery.open(own_gallery, read_only=True) as gallery:
        there = {one.name for one in gallery.subjects()}
    assert set(acknowledged) <= there


def test_another_file_takes_no_changes_and_ctrl_c_ends_it_at_once(own_gallery, model):
    server = forked(own_gallery, "--model", model).wait()
    idle = socket.create_connection((server.host, server.port))
    kept = http.client.HTTPConnection(server.host, server.port)
    kept.request("GET", "/healthz")
    kept.getresponse().read()
    moved = own_gallery.rename(own_gallery.with_name("moved.db"))
    shutil.copy(moved, own_gallery)  # as somebody would who restores a copy and forgets to stop
    assert server.get("/readyz").code == "gallery_unavailable"
    assert server.request("DELETE", "/v1/subjects/nobody").code == "gallery_unavailable"
    began = time.monotonic()
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(20) == 0
    assert time.monotonic() - began < 20  # and not when idle clients like
    assert "Traceback" not in server.written()
    idle.close()
    kept.close()

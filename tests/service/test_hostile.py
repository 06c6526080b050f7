"""Requests that mean harm: refused at once, with little memory, and the server goes on."""

import base64
import io
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from arcset import Gallery
from support.hostile_images import IMAGES
from support.hostile_requests import FORMS, HEADS, Raw, head
from support.servers import multipart, pattern, served, small_gallery

SECONDS = 0.5  # of a processor that each may cost
LONGEST = 10  # seconds until the answer, beside whatever else this machine does
EXTRA = 64 << 20  # bytes of memory that all of them together may cost
BODY = 16 << 20  # bytes of a request that are allowed
ARRIVAL = 0.5  # seconds that a body may take
AT_A_TIME = 70  # requests
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Warm: whatever is loaded with the first request is there."""
    folder = tmp_path_factory.mktemp("hostile")
    path = small_gallery(folder)
    with Gallery.open(path) as gallery:  # so that a list of all of them is long
        rows = np.random.default_rng(0).normal(size=(400, gallery.dim))
        gallery.enroll_many([f"{number:03}{'x' * 200}" for number in range(400)], embeddings=rows)
    words = ["--body-seconds", ARRIVAL, "--max-requests", AT_A_TIME, "--no-log"]
    with served(path, *words) as server:
        server.good = pattern(folder / "probes", "subject 1")
        for _ in range(5):
            assert answers(server)
        server.first_memory = server.memory()
        yield server
        assert answers(server)
        said = server.written()
    for word in ("Traceback", "passwd", '"internal"', '"error"'):
        assert word not in said


def answers(server):
    """Whether it does what it is there for."""
    found = server.form("/v1/identify", ("image", server.good), ("threshold", "0.8"))
    return found.status == 200 and found.json()["results"][0]["subject"] == "subject 1"


@pytest.fixture
def refused(server):
    """Ask by a function, and look at answer, its code, time and memory."""

    def ask(work, codes=None, seconds=SECONDS):
        before = server.processor_seconds()
        found = work()
        assert server.processor_seconds() - before <= seconds
        assert found.seconds <= LONGEST
        assert 400 <= found.status < 500, found
        assert codes is None or found.code in codes.split(), found
        assert server.memory() - server.first_memory <= EXTRA
        assert answers(server)

    return ask


# Images


@pytest.mark.parametrize("name", IMAGES)
def test_images(server, refused, name):
    content = IMAGES[name]()
    refused(lambda: server.form("/v1/identify", ("image", content)), "not_an_image image_too_large")


@pytest.mark.parametrize("name", ["png bomb", "text"])
@pytest.mark.parametrize("path", ["/v1/embed", "/v1/subjects", "/v1/subjects/subject%200/samples"])
def test_images_elsewhere(server, refused, name, path):
    fields = [("name", "somebody")] if path.endswith("subjects") else []
    fields.append(("image", IMAGES[name]()))
    refused(lambda: server.form(path, *fields), "not_an_image image_too_large")
    assert server.get("/v1/subjects/somebody").code == "no_such_subject"


LINKS = ["http://127.0.0.1/image.png", "file:///etc/passwd", "/etc/passwd", "../../etc/passwd"]
LINKS += ["data:image/png,abc", "data:text/html;base64,%%%", "data:;base64", "====", "a\x00b"]


@pytest.mark.parametrize("text", [*LINKS, "\ud800", "é" * 50, "QUJD", ""])
def test_what_is_no_image_in_json(server, refused, text):
    codes = "not_an_image bad_request"  # half a character is no JSON
    refused(lambda: server.json("POST", "/v1/identify", {"images": [text]}), codes)


# JSON

BODIES = [
    b"[" * 200_000,
    b'{"images":' * 100_000,
    b'{"images": [' + b"[" * 5_000 + b"]" * 5_000 + b"]}",
    b'{"images": ' + b"[" * 1_100 + b"]" * 1_100 + b"}",  # few enough to be parsed
    b'{"images": {"a": 1}}',
    b'{"images": [1, null, true]}',
    b'{"images": []}',
    b'{"images": ["QUJD"], "images": []}',
    b'{"images": ["QUJD"], "fpir": NaN}',
    b'{"images": ["QUJD"], "fpir": ' + b"9" * 100_000 + b"}",
    b'{"images": ["QUJD"], "candidates": 1e400}',
    b'{"images": ["QUJD"], "__class__": "os.system"}',
    b"null",
    b"",
    b"\x00\xff\xfe",
    b'{"images": ["QUJD"]',
    b"\x1f\x8b\x08",
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_json_that_is_none(server, refused, body):
    codes = "bad_request not_an_image"
    refused(lambda: server.request("POST", "/v1/identify", body, JSON), codes)


#: JSON of millions of elements, each within the bytes that are allowed.
MANY = {
    "numbers": lambda: b'{"images": [' + b"0," * 7_900_000 + b"0]}",
    "lists": lambda: b'{"images": [' + b"[]," * 5_000_000 + b"0]}",
    "objects": lambda: b'{"images": [' + b"{}," * 5_000_000 + b"0]}",
    "names": lambda: b'{"a":0' + b',"a":0' * 2_600_000 + b"}",
    "lists in UTF-16": lambda: ('{"images": [' + "[]," * 2_600_000 + "0]}").encode("utf-16"),
}


@pytest.mark.parametrize("path", ["/v1/identify", "/v1/verify"])
@pytest.mark.parametrize("name", MANY)
def test_json_of_millions_of_elements_is_refused_unparsed(server, refused, name, path):
    body = MANY[name]()
    refused(lambda: server.request("POST", path, body, JSON), "bad_request")


def test_others_are_answered_while_such_a_body_is_refused(server):
    over, body = threading.Event(), MANY["lists"]()

    def send():
        codes = {server.request("POST", "/v1/identify", body, JSON).code for _ in range(3)}
        assert codes <= {"bad_request", "too_slow"}  # the latter beside other work

    def slowest():
        found = [0.0]
        while not over.is_set():
            found.append(server.get("/healthz").seconds)
        return max(found)

    with ThreadPoolExecutor(3) as pool:
        watching = pool.submit(slowest)
        sending = [pool.submit(send) for _ in range(2)]
        try:
            for one in sending:
                one.result()
        finally:
            over.set()
        assert watching.result() < SECONDS


def in_base64(server):
    return base64.b64encode(server.good.read_bytes()).decode()


def test_as_many_images_as_are_allowed_are_taken_from_json(server):
    image = "data:image/png;base64," + in_base64(server)
    content = {"images": [image] * 64, "name": "[{,:" * 64}
    assert server.json("POST", "/v1/subjects", content).status == 201
    assert server.request("DELETE", "/v1/subjects/" + quote(content["name"])).status == 200


# Names and paths


@pytest.mark.parametrize(
    "name",
    ["", "x" * 257, "a\nb", "a\x00b", "a" * 10_000, "\u2028", "\ud800", "\r\nX-Evil: 1"],
)
def test_names_that_nobody_has(server, refused, name):
    body = json.dumps({"name": name, "images": [in_base64(server)]}).encode()
    refused(lambda: server.request("POST", "/v1/subjects", body, JSON), "bad_request")


def test_names_that_look_like_paths_are_only_names(server):
    for name in ("../../etc/passwd", "..", "/", "a/samples", "%2e%2e", "<script>", "'; DROP"):
        made = server.form("/v1/subjects", ("name", name), ("image", server.good))
        assert made.status == 201, made
        address = "/v1/subjects/" + "".join(f"%{byte:02X}" for byte in name.encode())
        assert server.get(address).json()["name"] == name
        assert server.request("DELETE", address).json() == {"removed": 1}


PATHS = """/../../../../etc/passwd /page/../../../../../etc/passwd /page/%2e%2e/%2e%2e/settings.py
/page/..%2f..%2f..%2fetc%2fpasswd /page//etc/passwd /page/%00 //etc/passwd /.env /docs /redoc
/v1/openapi.json /v1/subjects/..%2f..%2fetc%2fpasswd /v1/subjects/%ff /v1/samples/-1/image
/v1/samples/99999999999999999999/image /v1/samples/1e3/image /v1/samples/1/image?size=100000000
/v1/subjects?limit=1000000000 /v1/subjects?limit=-1 /v1/subjects?after=%00 /v1/threshold?fpir=nan
/v1/views/..%2f..%2f..%2fetc"""


@pytest.mark.parametrize("path", PATHS.split())
def test_paths(server, refused, path):
    codes = "not_found no_such_subject no_such_sample bad_request"
    refused(lambda: server.get(path), codes)


SPELLINGS = """/%76%31/identify /v1/%69dentify /v1%2Fidentify //v1/identify /v1//identify
/v1/./identify /v1/../v1/identify /v1/identify/ /V1/identify /v1/identify%20 /v1/identify;x
/%2576%2531/identify"""


@pytest.mark.parametrize("path", SPELLINGS.split())
def test_other_spellings_of_a_path_are_not_that_path(server, refused, path):
    kind, body = multipart([("image", server.good), ("threshold", "0.8")])
    refused(lambda: server.request("POST", path, body, {"Content-Type": kind}), "not_found")


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Host", "evil.example"),
        ("Host", "127.0.0.1.evil.example"),
        ("Host", ""),
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Origin", "http://["),
    ],
)
def test_pages_from_elsewhere(server, refused, header, value):
    """Without keys: neither a name that somebody points here, nor a page in a local browser."""
    refused(lambda: server.get("/v1/gallery", **{header: value}), "forbidden bad_request")


# Bodies and heads


@pytest.mark.parametrize("name", FORMS)
def test_forms(server, refused, name):
    (body, kind), path = FORMS[name], "/v1/identify"
    answered = "bad_request too_many_images unsupported_media_type not_an_image headers_too_large"
    refused(lambda: server.request("POST", path, body, {"Content-Type": kind}), answered)


@pytest.mark.parametrize("name", HEADS)
def test_heads(server, refused, name):
    refused(lambda: Raw(server).say(HEADS[name]).answer())


@pytest.mark.parametrize("path", ["/v1/identify", "/%76%31/identify"])
def test_the_bytes_of_a_body_are_counted_only_while_it_is_there(server, path):
    """However the path is spelled: five bodies together are more than may be held at a time."""
    for _ in range(5):
        found = server.request("POST", path, b" " * (15 << 20), JSON)
        assert found.code in ("bad_request", "not_found")
    assert answers(server)


def post(server, *lines, body=()):
    """What is answered to a head with these lines, and whatever of the body is sent."""
    return Raw(server).say(head("POST", "/v1/identify", *lines), *body).answer()


@pytest.mark.parametrize("length", [10 << 30, "9" * 30])
@pytest.mark.parametrize("more", ["A: b", "Expect: 100-continue"])
def test_a_body_that_says_it_is_huge(server, refused, length, more):
    codes = "body_too_large bad_request"
    refused(lambda: post(server, f"Content-Length: {length}", more), codes)


def test_a_body_that_turns_out_to_be_huge(server, refused):
    """In chunks, so that nothing says how long it gets."""
    block = b"%x\r\n" % (1 << 20) + bytes(1 << 20) + b"\r\n"
    blocks = [block] * ((BODY >> 20) + 8)
    line = "Transfer-Encoding: chunked"
    work = 3 * SECONDS  # to take in so much
    refused(lambda: post(server, line, body=blocks), "body_too_large", seconds=work)


def test_a_body_that_never_comes(server, refused):
    refused(lambda: post(server, "Content-Length: 1000", body=[b"{"]), "too_slow")


def test_many_bodies_that_never_come(server):
    """Others are answered meanwhile, and nothing stays open."""
    began = time.perf_counter()
    sent = head("POST", "/v1/identify", "Content-Length: 1000"), b"{"
    held = [Raw(server).say(*sent) for _ in range(AT_A_TIME - 10)]
    assert answers(server)
    assert {one.answer().code for one in held} == {"too_slow"}
    assert time.perf_counter() - began < len(held) * ARRIVAL / 2  # they were not waited for in turn


def test_headers_that_never_end(server):
    """A connection that never comes to the point is closed."""
    held = [Raw(server).say(b"POST /v1/identify HTTP/1.1\r\nHost: a\r\nA: ") for _ in range(20)]
    assert answers(server)
    assert {one.answer().code for one in held} == {"too_slow"}


def test_images_of_a_client_that_left_are_not_decoded(server):
    held = io.BytesIO()
    Image.fromarray(np.zeros((4000, 4000), np.uint8)).save(held, "PNG")
    kind, body = multipart([("image", held.getvalue())] * 12 + [("threshold", "0.8")])
    before, sent = server.processor_seconds(), {"Content-Type": kind}
    found = server.request("POST", "/v1/identify", body, sent, seconds=120)
    assert found.status == 200
    all_of_them = server.processor_seconds() - before
    length = f"Content-Length: {len(body)}"
    gone = Raw(server).say(head("POST", "/v1/identify", length, kind=kind), body)
    for count in (1, 0):
        while f"arcset_requests_in_flight {count}.0" not in server.get("/metrics").body.decode():
            time.sleep(0.01)
        if count:
            gone.socket.close()
            before = server.processor_seconds()
    assert server.processor_seconds() - before < all_of_them / 2


@pytest.mark.long
def test_answers_that_nobody_reads(server):
    """More of them than are answered at a time: they are given up, and others are answered."""
    question = head("GET", "/v1/subjects?limit=400")
    held = []
    for _ in range(AT_A_TIME + 10):
        held.append(socket.socket())
        held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        held[-1].connect((server.host, server.port))
        held[-1].sendall(question)
    end = time.monotonic() + 10
    while (found := server.get("/v1/gallery")).status != 200:
        assert found.code == "busy"
        assert time.monotonic() < end
        time.sleep(0.1)
    assert answers(server)
    for one in held:
        one.close()


@pytest.mark.parametrize("said", ["a b", "x" * 65, "é", '"; rm', "%0d%0a"])
def test_ids_of_requests_are_kept_where_they_are_sane(server, said):
    found = server.get("/healthz", **{"X-Request-ID": said.encode().decode("latin-1")})
    assert found.status == 200
    assert found.headers["x-request-id"].isalnum()
    assert server.get("/healthz", **{"X-Request-ID": "a-1"}).headers["x-request-id"] == "a-1"

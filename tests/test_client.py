"""`arcset.Client` against real servers: the same answers as a gallery on the own disk gives."""

import contextlib
import json
import math
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, datetime

import numpy as np
import pytest
from PIL import Image

import arcset
from arcset import Client, DataError, Gallery, InputError, OptionError, Recognizer
from arcset.client import ServiceError
from arcset.recognition.decisions import WorkingPoint
from support.servers import NAMES, added_key, free_port, pattern, served, small_gallery


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A gallery on the disk, a server of it, and keys."""
    folder = tmp_path_factory.mktemp("client")
    path = small_gallery(folder)
    keys = {role: added_key(path, role) for role in ("read", "write")}
    probe, stranger = (pattern(folder / "probes", name) for name in ("subject 3", "stranger"))
    with served(path, key=keys["write"]) as server:
        yield path, server, keys, probe, stranger


@pytest.fixture
def client(made):
    with Client(made[1].url, made[2]["write"]) as client:
        yield client


@pytest.fixture
def gallery(made):
    """The same one, opened here."""
    run = Recognizer.load(made[0].with_name("run"), device="cpu")
    with Gallery.open(made[0], run) as gallery:
        yield gallery


def same_match(one, other):
    assert one.subject == other.subject
    assert one.cosine == pytest.approx(other.cosine, abs=1e-5)
    assert one.threshold == pytest.approx(other.threshold)
    assert (one.fpir, one.reason, one.rough) == (other.fpir, other.reason, other.rough)
    assert [each.subject for each in one.candidates] == [each.subject for each in other.candidates]
    assert one.probability == pytest.approx(other.probability, abs=1e-3)


def test_it_answers_as_the_gallery_does(made, client, gallery):
    *_, probe, stranger = made
    for image in (probe, stranger):
        same_match(client.identify(image), gallery.identify(image))
    assert client.identify(probe).subject == "subject 3"
    assert not client.identify(stranger)
    same_match(*client.identify_all(probe), gallery.identify(probe))
    one = client.identify(probe, fpir=0.1, candidates=2)
    same_match(one, gallery.identify(probe, fpir=0.1, candidates=2))
    assert len(one.candidates) == 2
    assert client.identify(stranger, threshold=-1.0).fpir is None
    assert np.allclose(client.embed([probe, stranger]), gallery.recognizer.embed([probe, stranger]))
    found, wanted = client.verify(probe, stranger), gallery.recognizer.verify(probe, stranger)
    assert found.cosine == pytest.approx(wanted.cosine, abs=1e-6)
    assert (found.far, found.reason, found.note) == (wanted.far, wanted.reason, wanted.note)
    assert client.verify(probe, subject="subject 3").same
    assert not client.verify(probe, subject="subject 4", threshold=0.99).same
    assert client.threshold() == gallery.working_point()
    assert client.threshold(0.1) == gallery.working_point(0.1)
    assert list(client.subjects()) == list(gallery.subjects())
    assert [one.id for one in client.samples("subject 1")] == [
        one.id for one in gallery.samples("subject 1")
    ]
    told = client.gallery()
    assert (told["subjects"], told["samples"]) == (len(gallery), gallery.sample_count)
    assert (told["role"], told["digest"]) == ("write", gallery.model_digest)


def test_images_of_all_kinds_are_the_same(made, client):
    probe = made[3]
    with Image.open(probe) as image:
        kinds = [str(probe), probe, probe.read_bytes(), image.copy(), np.asarray(image)]
    rows = client.embed(kinds)
    assert rows.shape == (5, 32)
    assert rows.dtype == np.float32
    assert np.allclose(rows, rows[0])
    assert client.embed(probe).shape == (1, 32)
    assert client.embed(probe.parent).shape == (1, 32)  # a folder


def test_enrolling_and_removing(made, client, gallery):
    _, _, _, probe, stranger = made
    before = datetime.now(UTC)
    name = 'Zoë "Z" O\'Hara/../%2F 你好?&#'
    (first,) = client.enroll(name, [stranger])
    (second,) = client.enroll(name, [probe])
    assert second > first
    subject = client.subject(name)
    assert (subject.name, subject.samples) == (name, 2)
    assert before <= subject.added <= datetime.now(UTC)
    assert [one.source for one in client.samples(name)] == ["10.png", "10.png"]
    assert [one.id for one in gallery.samples(name)] == [first, second]
    assert client.image(first)[:4] == b"\x89PNG"
    assert [one.name for one in client.subjects(search="ZOË")] == [name]
    client.rename(name, "..")
    assert client.subject("..").samples == 2
    client.remove_sample(first)
    assert client.remove("..") == 1
    assert ".." not in gallery
    assert client.enroll("twice", [probe, stranger]) == (second + 1, second + 2)
    assert client.remove("twice") == 2


def test_more_than_a_request_may_hold_go_in_portions_and_keep_their_order(made, client):
    *_, probe, stranger = made
    assert client.gallery()["limits"]["max_images"] == 64
    images = [*[probe, stranger, b"nonsense"] * 21, stranger, b"alone"]
    found = client.identify_many(images)
    assert [getattr(one, "subject", "error") for one in found] == [
        *["subject 3", None, "error"] * 21,
        *[None, "error"],
    ]
    assert {one.code for one in found if isinstance(one, ServiceError)} == {"not_an_image"}
    rows = client.embed([probe, stranger] * 35)
    assert rows.shape == (70, 32)
    assert np.allclose(rows, np.tile(client.embed([probe, stranger]), (35, 1)), atol=1e-5)


def test_subjects_come_page_by_page(made, tmp_path):
    path = shutil.copy(made[0], tmp_path / "people.db")
    names = [f"later {number}" for number in range(1001)]  # a page has at most 1000
    with Gallery.open(path) as gallery:
        gallery.enroll_many(names, embeddings=np.random.default_rng(0).normal(size=(1001, 32)))
    with served(path, "--no-log") as server, Client(server.url) as client:
        assert [one.name for one in client.subjects()] == [*NAMES, *names]
        assert [one.name for one in client.subjects("ject 4")] == ["subject 4"]
        assert list(client.subjects("nobody")) == []
        assert next(iter(client.subjects())).name == "subject 0"


@pytest.mark.parametrize(
    ("ask", "code", "status"),
    [
        (lambda client: client.rename("subject 0", "subject 1"), "already_exists", 409),
        (lambda client: client.rename("subject 0", "a\nb"), "bad_request", 400),
        (lambda client: client.enroll("new", [b"nonsense"]), "not_an_image", 422),
        (lambda client: client.image(10**9), "no_such_sample", 404),
        (lambda client: client.enroll("new", [bytes(17 << 20)]), "body_too_large", 413),
    ],
)
def test_refusals_have_code_and_message(client, ask, code, status):
    with pytest.raises(ServiceError) as caught:
        ask(client)
    error = caught.value
    assert (error.code, error.status) == (code, status)
    assert str(error).endswith(".")
    assert bool(error.request_id) == (status != 200)  # of an answer that says why there is none
    assert isinstance(error, arcset.ArcsetError)
    assert client.subject("subject 0").samples == 2  # and it goes on


def test_a_key_that_may_only_read_is_shown_nowhere(made):
    with Client(made[1].url, made[2]["read"]) as client:
        assert client.identify(made[3]).subject == "subject 3"
        with pytest.raises(ServiceError) as caught:
            client.remove("subject 0")
        assert (caught.value.code, caught.value.status) == ("forbidden", 403)
        assert made[2]["read"] not in repr(client) + repr(vars(client))


def test_threads_may_share_one(made, client):
    *_, probe, stranger = made
    answers = []

    def ask(image, name):
        answers.extend(client.identify(image).subject == name for _ in range(10))

    threads = [
        threading.Thread(target=ask, args=pair)
        for pair in ((probe, "subject 3"), (stranger, None)) * 3
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 60


def test_wrong_use_is_told_before_anything_is_sent(client, tmp_path):
    for address in ("", "127.0.0.1:8321", "ftp://a", "http://", "http://a:b", "http://u:p@a"):
        with pytest.raises(OptionError):
            Client(address)
    for key in ("a\r\nX-Evil: 1", "é", " a"):
        with pytest.raises(OptionError):
            Client(key=key)
    with pytest.raises(OptionError):
        client.verify(b"1")
    with pytest.raises(OptionError):
        client.verify(b"1", b"2", subject="a")
    with pytest.raises(DataError, match=re.escape(str(tmp_path / "missing.png"))):
        client.identify(tmp_path / "missing.png")
    with pytest.raises(InputError):
        client.embed([])
    with pytest.raises(InputError):
        client.enroll("a", [1])
    for change in (
        lambda: client.enroll("\ud800", [b"1"]),
        lambda: client.remove("\ud800"),
        lambda: list(client.subjects("\ud800")),
    ):
        with pytest.raises(InputError, match="ud800"):
            change()


NOBODY = {"subject": None, "cosine": None, "probability": None, "threshold": 0.5}
NOBODY |= {"candidates": [], "fpir": 0.01, "reason": "empty gallery", "rough": False}
NOBODY |= {"subjects": 0, "prior": None, "note": "", "expected": None, "published": None}


def http(status, content):
    head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    body = json.dumps(content).encode()
    return head % (status, len(body)) + body


def test_in_an_empty_gallery_nobody_is_near():
    answer = {"results": [{**NOBODY, "decided": True}], "threshold": None}
    with speaking(http(b"200 OK", answer)) as (url, _), Client(url, timeout=5) as client:
        found = client.identify(b"anything")
    assert math.isnan(found.cosine)
    assert not found
    assert found.decided
    assert (found.box, found.faces) == (None, None)


def test_of_a_photo_each_face_has_its_answer():
    anna = {**NOBODY, "subject": "anna", "cosine": 0.75, "reason": "above threshold"}
    faces = [{**anna, "box": [4.5, 3, 20, 25]}, {**NOBODY, "box": [50, 3, 18, 22]}]
    answer = {"results": [{**anna, "faces": faces}], "threshold": None}
    no_face = {"error": {"code": "no_face", "message": "The photo shows no face."}}
    sent = [http(b"200 OK", answer)] * 3 + [http(b"422 Unprocessable Content", no_face)] * 2
    with speaking(*sent) as (url, _), Client(url, timeout=5) as client:
        for found in (client.identify(b"photo"), client.identify_many([b"photo"])[0]):
            assert (found.subject, found.box, found.faces) == ("anna", (4.5, 3, 20, 25), 2)
        matches = client.identify_all(b"photo")
        assert [(one.subject, one.box[0], one.faces) for one in matches] == [
            ("anna", 4.5, 2),
            (None, 50, 2),
        ]
        assert client.identify_all(b"photo") == []
        with pytest.raises(ServiceError, match="no face"):
            client.identify(b"photo")


def test_fields_that_only_a_later_service_has_are_passed_over():
    later = {"later": 1}
    anna = {"subject": "anna", "cosine": 0.75, "probability": None, **later}
    refusal = {"code": "no_face", "message": "The photo shows no face.", **later}
    point = {**vars(WorkingPoint.by_hand(0.5)), **later}
    results = [{**NOBODY, **later, "candidates": [anna]}, {"error": refusal}]
    sent = http(b"200 OK", {"results": results}), http(b"200 OK", {"working_point": point})
    with speaking(*sent) as (url, _), Client(url, timeout=5) as client:
        found, error = client.identify_many([b"one", b"two"])
        assert client.threshold() == WorkingPoint.by_hand(0.5)
    assert [one.subject for one in found.candidates] == ["anna"]
    assert error.code == "no_face"


class Heard(list):
    """Methods in the order of the requests; `closed` is released with each connection's end."""

    def __init__(self):
        super().__init__()
        self.closed = threading.Semaphore(0)


def receive(link):
    """A whole request, or nothing where the client has left."""
    content, whole = b"", 1
    while len(content) < whole:
        more = link.recv(1 << 16)
        if not more:
            return b""
        content += more
        head, mark, _ = content.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        whole = len(head + mark) + int(length[1]) if mark and length else len(content) + (not mark)
    return content


@contextlib.contextmanager
def speaking(*answers, close=()):
    """A server that gives these answers, one per request, and notes what it was sent.

    close: numbers of answers after which it closes the connection; without an answer (b"") it
    closes at once, and with None it says nothing and waits.
    """
    heard = Heard()

    def serve(listening):
        left, number = list(answers), 0
        while left:
            link, _ = listening.accept()
            with link:
                while left:
                    content = receive(link)
                    if not content:
                        break
                    heard.append(content.split(b" ")[0].decode())
                    answer, number = left.pop(0), number + 1
                    if answer is None:
                        over.wait(10)
                        return
                    link.sendall(answer)
                    if not answer or number in close:
                        break
            heard.closed.release()

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", heard
        over.set()
        thread.join(10)


GOOD = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"removed":1}'


def test_a_connection_closed_while_idle_is_opened_again():
    with speaking(GOOD, GOOD, GOOD, close=(1, 2)) as (url, heard), Client(url, timeout=5) as client:
        assert client.gallery() == {"removed": 1}
        assert heard.closed.acquire(timeout=5)
        assert client.remove("a") == 1  # never sent into the closed one
        assert heard.closed.acquire(timeout=5)
        assert client.gallery() == {"removed": 1}
    assert heard == ["GET", "DELETE", "GET"]


def test_after_close_it_opens_another_and_never_by_a_proxy_of_the_environment(made, monkeypatch):
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    with Client(made[1].url, made[2]["read"]) as client:
        for _ in range(2):
            assert client.gallery()["name"] == "people"
            client.close()


def test_without_httpx_one_sentence_says_what_to_install():
    code = """
        import sys
        sys.modules["httpx"] = None
        import arcset.client
        assert "torch" not in sys.modules
        try:
            arcset.Client()
        except arcset.OptionError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "pip install 'arcset[client]'" in done.stdout
    assert done.stdout.startswith("httpx ")


def test_only_questions_are_sent_twice():
    with speaking(GOOD, b"", GOOD) as (url, heard), Client(url, timeout=5) as client:
        client.gallery()
        assert client.gallery() == {"removed": 1}
    assert heard == ["GET", "GET", "GET"]
    with speaking(GOOD, b"", GOOD) as (url, heard), Client(url, timeout=5) as client:
        client.gallery()
        with pytest.raises(ServiceError) as caught:
            client.remove("a")
        assert caught.value.code == "disconnected"
        assert heard == ["GET", "DELETE"]
        client.gallery()
    with speaking(b"", b"", GOOD) as (url, heard), Client(url, timeout=5) as client:
        with pytest.raises(ServiceError) as caught:  # twice: the server is at fault
            client.gallery()
        assert caught.value.code == "disconnected"
        client.gallery()


def test_a_server_that_says_nothing_is_given_up():
    with speaking(None) as (url, _), Client(url, timeout=0.2) as client:
        with pytest.raises(ServiceError, match=r"0\.2") as caught:
            client.gallery()
        assert caught.value.code == "timeout"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000,
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000,
    ],
    ids=["a proxy", "a redirect", "a page", "nested JSON", "a nested error"],
)
def test_an_answer_of_something_else_is_told_as_such(answer):
    with speaking(answer) as (url, _), Client(url, timeout=5) as client:
        with pytest.raises(ServiceError) as caught:
            client.gallery()
        assert caught.value.code == "bad_answer"
        assert url in str(caught.value)


def test_a_busy_service_says_when_to_ask_again():
    content = {"error": {"code": "busy", "message": "Wait."}}
    busy = http(b"429 Too Many Requests\r\nRetry-After: 2", content)
    with speaking(busy) as (url, _), Client(url, timeout=5) as client:
        with pytest.raises(ServiceError, match=r"^Wait\.$") as caught:
            client.gallery()
        assert (caught.value.code, caught.value.retry_after) == ("busy", 2.0)


def test_where_nobody_listens_or_speaks_http():
    urls = [f"http://127.0.0.1:{free_port()}", "http://nowhere.invalid"]
    for url in urls:
        with Client(url, timeout=5) as client, pytest.raises(ServiceError, match=url) as caught:
            client.gallery()
        assert caught.value.code == "unreachable"
    greeting = [b"SSH-2.0-OpenSSH_9\r\n\r\n"] * 2
    with speaking(*greeting) as (url, _), Client(url, timeout=5) as client:
        with pytest.raises(ServiceError) as caught:
            client.gallery()
        assert caught.value.code == "disconnected"


def test_a_path_below_which_the_service_is(made):
    """As behind a proxy; the server itself knows nothing of it."""
    with Client(made[1].url + "/", made[2]["read"]) as client:
        assert client.gallery()["name"] == "people"
    with Client(made[1].url + "/below", made[2]["read"]) as client:
        with pytest.raises(ServiceError) as caught:
            client.gallery()
        assert caught.value.code == "not_found"

"""The service over HTTP: who may do what, what is answered, refused and said in headers, as it was
recorded with a real server.

The routes are those that the server itself lists in /openapi.json, and the page's. How a route
calls the names and numbers in its path is its own matter: they are {} here.
"""

import base64
import io
import json
import re
import socket
from dataclasses import dataclass
from urllib.parse import urljoin

import pytest
from PIL import Image

from contract.outside import arcset_command, json_shape
from contract.recording import recorded
from support.servers import (
    NAMES,
    Server,
    added_key,
    multipart,
    pattern,
    served,
    small_gallery,
)
from support.small_data import images

UNLISTED = ["GET /", "GET /page/{}", "GET /openapi.json"]
FRIEND, STRANGER = "https://friend.example", "https://stranger.example"
#: Headers that differ from answer to answer, or belong to HTTP itself.
PASSING = {"content-length", "content-type", "date", "etag", "transfer-encoding", "x-request-id"}
PASSING |= {"access-control-max-age"}


@dataclass(frozen=True)
class Served:
    """A server of six subjects and a run, asked with a key that may write."""

    server: Server
    keys: dict[str, str]
    keyless: dict[str, str]  # what was answered before there were keys
    photo: bytes
    other: bytes

    def ask(self, method, path, body=None, headers=None, key="write"):
        given = {} if key is None else {"X-API-Key": self.keys.get(key, f"arcset_{key}")}
        return self.server.request(method, path, body, {**given, **(headers or {})})

    def form(self, method, path, *fields):
        kind, body = multipart(fields)
        return self.ask(method, path, body, {"Content-Type": kind})

    def json(self, method, path, content):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.ask(method, path, body, {"Content-Type": "application/json"})


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    gallery = small_gallery(folder)
    words = ["--network", "mlp", "--dim", "2", "--epochs", "1", "--batch", "32", "--device", "cpu"]
    words += ["--set", "snapshot=5", "--no-report"]
    arcset_command("train", images(folder / "images.npz"), "--out", folder / "plane", *words)
    photo, other = (pattern(folder / "probes", name).read_bytes() for name in NAMES[:2])
    with served(gallery, "--runs", folder / "plane", "--cors", FRIEND) as server:
        keyless = asked_without_keys(server)
        keys = {role: added_key(gallery, role) for role in ("read", "write")}
        yield Served(server, keys, keyless, photo, other)


def asked_without_keys(server):
    """Who may do what as long as there are no keys."""
    own = f"127.0.0.1:{server.port}"
    who = {
        "somebody on this machine": {},
        "its own page": {"Origin": f"http://{own}"},
        "a page that --cors names": {"Origin": FRIEND},
        "another page": {"Origin": STRANGER},
        "an image in another page": {"Sec-Fetch-Site": "cross-site"},
        "another name for this machine": {"Host": "stranger.example"},
        "through a proxy": {"X-Forwarded-For": "192.0.2.1"},
    }
    found = {}
    for name, headers in who.items():
        answer = server.get("/v1/gallery", **headers)
        content = answer.json()
        found[name] = content.get("role") or content.get("error", {}).get("code")
    return found


def listed(service):
    """METHOD PATH to what /openapi.json says of it."""
    paths = service.ask("GET", "/openapi.json").json()["paths"]
    return {
        re.sub(r"{\w+}", "{}", f"{method.upper()} {path}"): operation
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


def some(path):
    """A path with something that is not there in the place of names and numbers."""
    return path.replace("{}", "99")


def told(answer):
    """Status, type, and keys where it is JSON."""
    found = {"status": answer.status, "type": answer.headers.get("content-type")}
    if found["type"] == "application/json" and answer.body:
        found["json"] = json_shape(answer.json())
    return found


def words(text):
    """Of a header that lists methods or headers; HEAD comes with GET, or it does not."""
    return sorted({word.strip().lower() for word in text.split(",")} - {"head"})


def headers(given):
    """By name, without those that pass. The order of words is free, and so is what else Vary has
    beside Origin."""
    found = {name: text for name, text in given.items() if name not in PASSING}
    for name in found:
        if name in ("allow", "vary") or name.startswith("access-control-"):
            found[name] = words(found[name])
    if "vary" in found:
        found["vary"] = [word for word in found["vary"] if word == "origin"]
    return found


def script(page):
    """The path of the first script that the page loads."""
    return "/" + re.search(rb'"/?(page/[^"]+\.js)"', page.body)[1].decode()


def test_routes_and_what_they_take(service):
    found, bodies = {}, {}
    for route, operation in listed(service).items():
        found[route] = sorted(
            f"{one['in']} {one['name']}{', required' if one.get('required') else ''}"
            for one in operation.get("parameters", [])
            if one["in"] != "path"
        )
        if "requestBody" in operation:
            bodies[route] = sorted(operation["requestBody"]["content"])
    recorded("http-routes", found)
    recorded("http-bodies", bodies)


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/docs/oauth2-redirect", "/api.json"])
def test_what_frameworks_add_is_not_there(service, path):
    assert service.ask("GET", path, key=None).status in (401, 404)


def test_what_the_page_loads_is_there_and_what_it_asks_for_is_listed(service):
    known = {route.split()[1] for route in (*listed(service), *UNLISTED)}
    loaded, asked, left = {}, set(), ["/"]
    while left:
        path = left.pop()
        answer = service.ask("GET", path, key=None)
        assert answer.status == 200, path
        text = answer.body.decode()
        loaded[path] = answer.headers["content-type"].partition(";")[0]
        names = re.findall(r"""(?:src=|href=|from |import |import\(|url\()["']([\w./-]+)""", text)
        left += {urljoin(path, name) for name in names} - loaded.keys() - {*left}
        asked |= {
            re.sub(r"\${.*?}", "{}", f"/{one}") for one in re.findall(r'["`]/?(v1/[^"`?]*)', text)
        }
    assert {*loaded.values()} >= {"text/html", "text/css", "text/javascript", "image/svg+xml"}
    assert {re.sub(r"^/page/[^/]+$", "/page/{}", path) for path in loaded} <= known
    assert "/v1/identify" in asked
    assert asked <= known


def test_who_may_do_what(service):
    found = {}
    for route in (*listed(service), *UNLISTED):
        method, path = route.split()
        kind, body = multipart([("name", "99")])
        sent = (body, {"Content-Type": kind}) if method in ("POST", "PATCH") else (None, {})
        found[route] = {}
        for holder in (None, "wrong", "read", "write"):
            status = service.ask(method, some(path), *sent, key=holder).status
            found[route][holder or "nobody"] = status if status in (401, 403) else "allowed"
    recorded("http-who_may_do_what", found)


def test_who_may_ask_without_keys(service):
    recorded("http-without_keys", service.keyless)


def test_methods_of_every_path(service):
    """As the answer to a method that none takes tells them."""
    found = {}
    for path in {route.split()[1] for route in (*listed(service), *UNLISTED)}:
        answer = service.ask("PUT", some(path))
        found[path] = {"status": answer.status, "allow": words(answer.headers.get("allow", ""))}
    recorded("http-methods", found)


def test_answers(service):
    """One of each kind; somebody is enrolled, renamed and removed on the way."""
    page = service.ask("GET", "/")
    image, other = ("image", service.photo), ("image", service.other)
    texts = [base64.b64encode(one).decode() for one in (service.photo, service.other)]
    subject = f"/v1/subjects/{NAMES[1].replace(' ', '%20')}"
    found = {
        "GET /": page,
        "GET /page/{}": service.ask("GET", script(page)),
        "GET /openapi.json": service.ask("GET", "/openapi.json"),
        "GET /metrics": service.ask("GET", "/metrics"),
        "GET /healthz": service.ask("GET", "/healthz"),
        "HEAD /healthz": service.ask("HEAD", "/healthz"),
        "GET /readyz": service.ask("GET", "/readyz"),
        "GET /v1/gallery": service.ask("GET", "/v1/gallery"),
        "POST /v1/embed": service.form("POST", "/v1/embed", image, other),
        "POST /v1/embed, JSON": service.json("POST", "/v1/embed", {"images": texts}),
        "POST /v1/verify": service.form("POST", "/v1/verify", ("a", image[1]), ("b", other[1])),
        "POST /v1/verify, JSON": service.json(
            "POST", "/v1/verify?far=0.1", {"a": texts[0], "b": texts[1]}
        ),
        "POST /v1/verify, a subject": service.form(
            "POST", "/v1/verify?threshold=0.5", ("subject", NAMES[0]), image
        ),
        "POST /v1/identify": service.form("POST", "/v1/identify?fpir=0.1&candidates=2", image),
        "POST /v1/identify, by hand": service.form(
            "POST", "/v1/identify", image, other, ("threshold", 0.99999)
        ),
        "POST /v1/identify, one unreadable": service.form(
            "POST", "/v1/identify", image, ("image", b"no image")
        ),
        "GET /v1/threshold": service.ask("GET", "/v1/threshold?fpir=0.1"),
        "GET /v1/threshold, unsupported": service.ask("GET", "/v1/threshold?fpir=0.0000001"),
        "GET /v1/subjects": service.ask("GET", "/v1/subjects?limit=2"),
        "GET /v1/subjects, the last page": service.ask("GET", "/v1/subjects?search=subject%201"),
        "GET /v1/subjects/{}": service.ask("GET", subject),
        "GET /v1/subjects/{}/samples": service.ask("GET", f"{subject}/samples"),
        "GET /v1/samples/{}/image": service.ask("GET", "/v1/samples/1/image?size=32"),
        "GET /v1/views": service.ask("GET", "/v1/views"),
        "GET /v1/views/{}": service.ask("GET", "/v1/views/plane"),
        "POST /v1/subjects": service.form("POST", "/v1/subjects", ("name", "new"), image),
        "POST /v1/subjects/{}/samples": service.form("POST", "/v1/subjects/new/samples", other),
    }
    (sample,) = found["POST /v1/subjects"].json()["sample_ids"]
    found |= {
        "DELETE /v1/samples/{}": service.ask("DELETE", f"/v1/samples/{sample}"),
        "PATCH /v1/subjects/{}": service.json("PATCH", "/v1/subjects/new", {"name": "newer"}),
        "DELETE /v1/subjects/{}": service.ask("DELETE", "/v1/subjects/newer"),
    }
    assert {route.partition(",")[0] for route in found} == {
        *listed(service),
        *UNLISTED,
        "HEAD /healthz",
    }
    shapes = {route: told(answer) for route, answer in found.items()}
    del shapes["GET /openapi.json"]["json"]  # as OpenAPI has it
    recorded("http-view", shapes.pop("GET /v1/views/{}"))
    recorded("http-answers", shapes)


def large():
    file = io.BytesIO()
    Image.new("1", (5000, 5000)).save(file, "PNG")
    return file.getvalue()


def test_refusals(service):
    """Their status and code; all have the one shape, with the id that the headers tell."""
    image = ("image", service.photo)
    enrolled = f"/v1/subjects/{NAMES[0].replace(' ', '%20')}"
    found = {
        "no such path": service.ask("GET", "/nowhere"),
        "no such part of the page": service.ask("GET", "/page/nothing.js"),
        "no such subject": service.ask("GET", "/v1/subjects/nobody"),
        "no such sample": service.ask("GET", "/v1/samples/999999/image"),
        "no such run": service.ask("GET", "/v1/views/nothing"),
        "verify with nobody": service.form("POST", "/v1/verify", image, ("subject", "nobody")),
        "another method": service.ask("PUT", "/v1/subjects"),
        "no key": service.ask("GET", "/v1/gallery", key=None),
        "a wrong key": service.ask("GET", "/v1/gallery", key="wrong"),
        "a key that may only read": service.ask("DELETE", enrolled, key="read"),
        "a name that is taken": service.form("POST", "/v1/subjects", ("name", NAMES[0]), image),
        "renamed to a taken name": service.json("PATCH", enrolled, {"name": NAMES[1]}),
        "no JSON": service.json("POST", "/v1/embed", b"{"),
        "an unknown field": service.json("POST", "/v1/embed", {"imgaes": []}),
        "an unknown field of a form": service.form("POST", "/v1/embed", image, ("imgae", "1")),
        "an unknown word of the query": service.ask("GET", "/v1/subjects?limits=1"),
        "no image": service.json("POST", "/v1/identify", {"images": []}),
        "a rate out of range": service.form("POST", "/v1/identify?fpir=2", image),
        "rate and threshold": service.form("POST", "/v1/identify?fpir=0.1&threshold=0.5", image),
        "a page of none": service.ask("GET", "/v1/subjects?limit=0"),
        "neither form nor JSON": service.ask(
            "POST", "/v1/embed", b"hello", {"Content-Type": "text/plain"}
        ),
        "what is no image": service.form("POST", "/v1/embed", ("image", b"no image")),
        "too many pixels": service.form("POST", "/v1/embed", ("image", large())),
        "too many images": service.form("POST", "/v1/embed", *[("image", b"1")] * 65),
        "too many bytes": service.ask("POST", "/v1/embed", None, {"Content-Length": "99999999"}),
    }
    also = {"allow", "retry-after", "www-authenticate"}
    refusals = {}
    for what, answer in found.items():
        error = answer.json().get("error", {})
        refusals[what] = {
            "status": answer.status,
            "code": error.get("code"),
            "json": json.dumps(json_shape(answer.json()), sort_keys=True),
            **{name: text for name, text in headers(answer.headers).items() if name in also},
        }
        if error:
            assert error["request_id"] == answer.headers["x-request-id"], what
    recorded("http-refusals", refusals)


def raw(service, sent):
    """What is answered to bytes that no library would send."""
    with socket.create_connection((service.server.host, service.server.port), 20) as link:
        link.sendall(sent)
        content = b""
        while more := link.recv(1 << 16):
            content += more
    head, _, body = content.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    pairs = (line.split(": ", 1) for line in lines[1:])
    kept = headers({name.lower(): text for name, text in pairs})
    shape = json_shape(json.loads(body))
    return {"status": int(lines[0].split()[1]), "headers": kept, "json": shape}


def test_headers_of_safety(service):
    """All headers of each kind of answer but those that differ from one to the next."""
    page = service.ask("GET", "/")
    old = {"If-None-Match": page.headers["etag"]}
    preflight = {"Access-Control-Request-Method": "POST"}
    found = {
        "the page": page,
        "the page, not changed": service.ask("GET", "/", headers=old),
        "a part of the page": service.ask("GET", script(page)),
        "health": service.ask("GET", "/healthz"),
        "metrics": service.ask("GET", "/metrics"),
        "JSON": service.ask("GET", "/v1/gallery"),
        "an image": service.ask("GET", "/v1/samples/1/image"),
        "a run": service.ask("GET", "/v1/views/plane"),
        "no key": service.ask("GET", "/v1/gallery", key=None),
        "forbidden": service.ask("DELETE", "/v1/samples/1", key="read"),
        "no such path": service.ask("GET", "/nowhere"),
        "no such subject": service.ask("GET", "/v1/subjects/nobody"),
        "another method": service.ask("PUT", "/v1/gallery"),
        "too many bytes": service.ask("POST", "/v1/embed", None, {"Content-Length": "99999999"}),
        "for a page that --cors names": service.ask("GET", "/healthz", headers={"Origin": FRIEND}),
        "for another page": service.ask("GET", "/healthz", headers={"Origin": STRANGER}),
        "asked before by a page that --cors names": service.ask(
            "OPTIONS", "/v1/identify", headers={"Origin": FRIEND, **preflight}
        ),
        "asked before by another page": service.ask(
            "OPTIONS", "/v1/identify", headers={"Origin": STRANGER, **preflight}
        ),
    }
    kinds = {
        kind: {"status": answer.status, "headers": headers(answer.headers)}
        for kind, answer in found.items()
    }
    kinds["no HTTP"] = raw(service, b"HELLO\r\n\r\n")
    many = b"".join(b"X-%d: 1\r\n" % number for number in range(150))
    kinds["too many headers"] = raw(service, b"GET / HTTP/1.1\r\nHost: a\r\n" + many + b"\r\n")
    recorded("http-headers", kinds)


def test_figures(service):
    """Names, kinds and labels of what /metrics tells."""
    service.form("POST", "/v1/identify", ("image", service.photo))
    text = service.ask("GET", "/metrics").body.decode()
    found = {name: {"kind": kind} for name, kind in re.findall(r"# TYPE (\S+) (\S+)", text)}
    for name, labels in re.findall(r"^(arcset_\w+)\{(.*)\} ", text, re.MULTILINE):
        family = next(one for one in found if name.startswith(one.removesuffix("_total")))
        words = set(re.findall(r"(\w+)=", labels)) - {"le"}
        found[family]["labels"] = sorted({*found[family].get("labels", ()), *words})
    mine = {
        name: one
        for name, one in found.items()
        if name.startswith("arcset_") and not name.endswith("_created")
    }
    recorded("http-figures", mine)

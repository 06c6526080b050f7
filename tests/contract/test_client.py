"""What `arcset.Client` returns, asked for by a real server, is as it was recorded.

Its methods, their parameters and defaults are among the public names: see test_python_names.py.
"""

import inspect

import pytest

import arcset
from contract.outside import json_shape, object_shape
from contract.recording import recorded
from support.servers import NAMES, added_key, free_port, pattern, served, small_gallery


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("client")
    path = small_gallery(folder)
    key = added_key(path, "write")
    photo, stranger = (pattern(folder / "probes", name) for name in (NAMES[0], "stranger"))
    with served(path) as server, arcset.Client(server.url, key) as client:
        yield server.url, client, photo, stranger


def test_methods_return_what_they_did(made):
    _, client, photo, stranger = made
    found = {
        "gallery": json_shape(client.gallery()),
        "embed": object_shape(client.embed([photo, stranger])),
        "verify": object_shape(client.verify(photo, stranger)),
        "verify, a subject": object_shape(client.verify(photo, subject=NAMES[0], threshold=0.5)),
        "identify": object_shape(client.identify(photo)),
        "identify, unknown": object_shape(client.identify(stranger, threshold=0.99999)),
        "identify_all": object_shape(client.identify_all(photo)),
        "identify_many": object_shape(client.identify_many([photo, b"no image", photo])),
        "threshold": object_shape(client.threshold(0.1)),
        "subjects": object_shape(list(client.subjects(search="subject"))),
        "subject": object_shape(client.subject(NAMES[1])),
        "samples": object_shape(client.samples(NAMES[1])),
        "enroll": object_shape(client.enroll("new", [stranger])),
        "enroll, again": object_shape(client.enroll("new", [stranger, photo])),
        "rename": object_shape(client.rename("new", "newer")),
    }
    sample = client.samples("newer")[0].id
    found |= {
        "image": object_shape(client.image(sample, size=32)),
        "remove_sample": object_shape(client.remove_sample(sample)),
        "remove": object_shape(client.remove("newer")),
    }
    public = {name for name, _ in inspect.getmembers(client, callable) if not name.startswith("_")}
    assert {name.partition(",")[0] for name in found} == public - {"close"}
    recorded("client-answers", found)


def test_refusals_are_errors_of_arcset(made):
    url, client, *_ = made
    asked = {
        "refused": lambda: client.subject("nobody"),
        "not an image": lambda: client.identify(b"no image"),
        "no key": lambda: arcset.Client(url).gallery(),
        "nobody there": lambda: arcset.Client(f"http://127.0.0.1:{free_port()}").gallery(),
    }
    found = {}
    for what, ask in asked.items():
        with pytest.raises(arcset.client.ServiceError) as caught:
            ask()
        error = caught.value
        assert isinstance(error, arcset.ArcsetError)
        found[what] = {"code": error.code, "status": error.status, **object_shape(error)}
    recorded("client-refusals", found)

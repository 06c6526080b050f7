"""What one asks the service over HTTP. That it answers as a gallery does: tests/test_client.py;
every route and refusal as it was recorded: tests/contract.
"""

import base64
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from arcset import Gallery, Recognizer
from support.patterns import calibrated_run, pictures
from support.servers import NAMES, pattern, served, small_gallery, typed


@pytest.fixture(scope="module")
def server(own_gallery, model):
    with served(own_gallery, "--model", model) as running:
        yield running


@pytest.fixture(scope="module")
def recognizer(model):
    return Recognizer.load(model, device="cpu")


def photo(photos, name, number=0):
    return photos / name / f"{number:02d}.png"


def as_text(path):
    return base64.b64encode(path.read_bytes()).decode()


def test_embeddings_are_those_of_the_package(server, recognizer, photos):
    files = [photo(photos, name) for name in NAMES]
    sent = server.form("/v1/embed", *(("image", file) for file in files))
    assert sent.status == 200
    found = sent.json()
    assert (found["model"], found["digest"]) == (recognizer.name, recognizer.digest)
    assert found["dim"] == recognizer.dim
    rows = np.array(found["embeddings"], np.float32)
    np.testing.assert_allclose(rows, recognizer.embed(files), atol=1e-6)

    for head in ("", "data:image/png;base64,"):
        texts = [head + as_text(file) for file in files]
        assert server.json("POST", "/v1/embed", {"images": texts}).json() == found


@pytest.mark.parametrize("fields", [("a", "b"), ("image", "subject"), ("a", "subject"), ("a",)])
def test_nothing_is_compared_with_nothing(server, fields):
    refused = server.json("POST", "/v1/verify", dict.fromkeys(fields))
    assert (refused.status, refused.code) == (400, "bad_request")


def test_where_known_begins_is_asked_for_in_query_or_body(server, photos):
    image = photo(photos, NAMES[0])
    by_query = server.form("/v1/identify?fpir=0.05&candidates=2", ("image", image)).json()
    by_field = server.form(
        "/v1/identify", ("image", image), ("fpir", 0.05), ("candidates", 2)
    ).json()
    assert by_query == by_field
    assert by_query["threshold"]["fpir"] == pytest.approx(0.05)
    assert len(by_query["results"][0]["candidates"]) == 2
    by_hand = server.form("/v1/identify?threshold=1", ("image", image)).json()
    assert by_hand["threshold"]["threshold"] == 1
    assert by_hand["threshold"]["gallery"] is None  # it is the same for galleries of any size


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("fpir=0.01&threshold=0.5", "bad_request"),
        ("fpir=nan", "bad_request"),
        ("candidates=five", "bad_request"),
        ("fpir=0.5&fpir=0.4", "bad_request"),
    ],
)
def test_what_cannot_be_asked(server, photos, query, code):
    image = photo(photos, NAMES[0])
    assert server.form(f"/v1/identify?{query}", ("image", image)).code == code
    fields = [tuple(part.split("=")) for part in query.split("&")]
    assert server.form("/v1/identify", ("image", image), *fields).code == code


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/v1/verify", ["a", "b", "image", "subject", "far", "threshold"]),
        ("/v1/subjects", ["image", "images", "name"]),
    ],
)
def test_a_file_in_another_field_is_told_which_field_takes_it(server, path, known):
    for refused in (
        server.form(path, ("file", bytes(10))),
        server.json("POST", path, {"file": "A" * 10}),
    ):
        assert (refused.status, refused.code) == (400, "bad_request")
        message = refused.json()["error"]["message"]
        assert "'file'" in message
        assert all(f"`{name}`" in message for name in known)


def test_one_unreadable_image_spoils_only_its_own_place(server, photos):
    good = photo(photos, NAMES[4])
    several = server.form("/v1/identify", ("image", good), ("image", b"no"), ("image", good))
    first, second, third = several.json()["results"]
    assert several.status == 200
    assert first["subject"] == third["subject"] == NAMES[4]
    assert second["error"]["code"] == "not_an_image"
    both = server.form("/v1/identify", ("image", b"no"), ("image", b"neither")).json()
    assert [one["error"]["code"] for one in both["results"]] == ["not_an_image"] * 2
    alone = server.form("/v1/identify", ("image", b"no"))
    assert (alone.status, alone.code) == (422, "not_an_image")
    for path, *fields in (["/v1/embed"], ["/v1/subjects", ("name", "half")]):  # all, or none
        sent = [*fields, ("image", good), ("image", b"no")]
        assert server.form(path, *sent).code == "not_an_image"
    assert server.get("/v1/subjects/half").code == "no_such_subject"


def test_pages_hold_everybody_once_in_order(server):
    names, after = [], ""
    while after is not None:
        page = server.get("/v1/subjects?limit=4" + (f"&after={quote(after)}" if after else ""))
        found = page.json()
        assert found["total"] == len(NAMES)
        names += [one["name"] for one in found["subjects"]]
        after = found["next"]
    assert names == NAMES
    assert all(one["samples"] == 2 and one["image"] for one in found["subjects"])
    searched = server.get("/v1/subjects?search=SUBJECT%203").json()
    assert [one["name"] for one in searched["subjects"]] == ["subject 3"]
    assert server.get("/v1/subjects?after=nobody").code == "no_such_subject"
    assert server.get("/v1/subjects?limit=0").code == "bad_request"


def test_thumbnails_hold_pixels_and_nothing_else(server, tmp_path):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 200, 3), np.uint8))
    told = Image.Exif()
    told[0x010E] = "where it was taken"
    held = io.BytesIO()
    image.save(held, "JPEG", exif=told)
    made = server.form("/v1/subjects", ("name", "large"), ("image", held.getvalue())).json()
    for words, size in (("", 256), ("?size=64", 64)):
        small = server.get(f"/v1/samples/{made['sample_ids'][0]}/image{words}")
        shown = Image.open(io.BytesIO(small.body))
        assert small.headers["content-type"] == "image/jpeg"
        assert max(shown.size) == size
        assert not shown.getexif()
    server.request("DELETE", "/v1/subjects/large")
    assert server.get("/v1/samples/99999/image").code == "no_such_sample"
    assert server.get("/v1/samples/1/image?size=9").code == "bad_request"


def test_what_another_process_changes_is_known_at_once(server, own_gallery, recognizer, tmp_path):
    def found():
        (answer,) = server.form("/v1/identify", ("image", second)).json()["results"]
        names = [one["name"] for one in server.get("/v1/subjects").json()["subjects"]]
        return answer["subject"], "xenia" in names, server.get("/v1/threshold").json()["subjects"]

    first, second = (pattern(tmp_path, "xenia", number) for number in (1, 2))
    assert found() == (None, False, len(NAMES))
    with Gallery.open(own_gallery, recognizer) as gallery:
        gallery.enroll("xenia", [first])
        assert found() == ("xenia", True, len(NAMES) + 1)
        gallery.remove("xenia")
    assert found() == (None, False, len(NAMES))


def test_many_at_once_get_their_own_answers(server, photos):
    def ask(number):
        name = NAMES[number % len(NAMES)]
        found = server.form("/v1/identify", ("image", photo(photos, name, number % 2)))
        return found.status, found.json()["results"][0]["subject"] == name

    def batches():
        text = server.get("/metrics").body.decode()
        return [
            float(re.search(rf"^arcset_batch_images_{name} (\S+)$", text, re.MULTILINE)[1])
            for name in ("count", "sum")
        ]

    before = batches()
    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(ask, range(96))) == {(200, True)}
    count, images = (after - old for after, old in zip(batches(), before, strict=True))
    assert images == 96
    assert count < 96  # those that waited went through the network together


def test_what_a_gallery_without_calibration_and_images_lacks(tmp_path):
    path = small_gallery(tmp_path, ["anna"], 1, keep_images=False, calibrated=False)
    image = pattern(tmp_path / "photos", "anna")
    with served(path, "--no-log") as server:
        asked = server.form("/v1/identify?fpir=0.01", ("image", image))
        assert (asked.status, asked.code) == (409, "no_calibration")
        verified = server.form("/v1/verify", ("subject", "anna"), ("image", image)).json()
        answered = server.form("/v1/identify", ("image", image)).json()
        (found,) = answered["results"]
        assert found["candidates"][0]["subject"] == "anna"
        assert (found["subject"], answered["threshold"]) == (verified["same"], None) == (None, None)
        for one in (found, verified):
            assert (one["decided"], one["reason"]) == (False, "no calibration")
        assert "alibrate" in answered["note"]
        assert "arcset calibrate" in verified["note"]
        (found,) = server.form("/v1/identify?threshold=0.5", ("image", image)).json()["results"]
        assert (found["subject"], found["reason"]) == ("anna", "above threshold")
        (sample,) = server.get("/v1/subjects/anna/samples").json()["samples"]
        kept = server.get(f"/v1/samples/{sample['id']}/image")
        assert (kept.status, kept.code) == (404, "no_image_kept")
        assert server.request("DELETE", "/v1/subjects/anna").status == 200
        (found,) = server.form("/v1/identify?threshold=0.5", ("image", image)).json()["results"]
        assert (found["subject"], found["reason"]) == (None, "empty gallery")
        assert found["decided"]


@pytest.fixture(scope="module")
def rough_server(tmp_path_factory):
    """A gallery of two subjects, whose model was calibrated on too few for any rate."""
    folder = tmp_path_factory.mktemp("rough")
    run = calibrated_run(folder / "run", identities=4)
    pictures(folder / "photos", ["anna", "ben"], 2)
    path = folder / "people.db"
    typed("enroll", path, folder / "photos", "--model", run, "--device", "cpu")
    with served(path, "--no-log") as server:
        yield server


def test_answers_by_a_rough_threshold_say_so(rough_server, tmp_path):
    image = pattern(tmp_path, "anna")
    found = rough_server.form("/v1/identify", ("image", image)).json()
    (one,) = found["results"]
    assert (one["subject"], one["decided"], one["rough"], one["fpir"]) == ("anna", True, True, 0.1)
    low, high = one["expected"]
    assert low < 0.1 < high
    assert found["threshold"]["rough"]
    same = rough_server.form("/v1/verify", ("subject", "anna"), ("image", image)).json()
    assert (same["same"], same["decided"], same["rough"]) == (True, True, True)
    low, high = same["expected"]
    assert low < 0.01 < high
    assert "4 identities" in same["note"]
    strict = rough_server.form("/v1/identify?fpir=0.01", ("image", image)).json()["threshold"]
    assert "cannot be pinned down" in strict["note"]
    assert strict["threshold"] > found["threshold"]["threshold"]
    told = rough_server.get("/v1/threshold").json()
    assert told["working_point"] == found["threshold"]
    assert min(filter(None, told["curves"]["false_accept"])) < 0.01


def test_large_images_among_small_ones_keep_their_places(server, photos):
    small = photo(photos, NAMES[2])
    held = io.BytesIO()
    Image.open(small).resize((1600, 1600)).save(held, "PNG")
    large, cut = held.getvalue(), held.getvalue()[:5000]
    sent = [small, large, b"no", cut, large, small]
    found = server.form("/v1/identify?threshold=-1", *(("image", one) for one in sent)).json()
    kinds = [one.get("error", {}).get("code", "fine") for one in found["results"]]
    assert kinds == ["fine", "fine", "not_an_image", "not_an_image", "fine", "fine"]
    alone = server.form("/v1/identify?threshold=-1", ("image", large)).json()["results"][0]
    for place, wanted in ((1, alone), (4, alone), (5, found["results"][0])):
        assert found["results"][place]["cosine"] == pytest.approx(wanted["cosine"], abs=1e-5)


def test_figures_and_log_tell_routes_and_never_names(server, photos):
    server.get(f"/v1/subjects/{quote(NAMES[0])}", **{"X-Request-ID": "for-the-log"})
    server.get(f"/v1/subjects?search={quote(NAMES[0])}")
    server.form("/v1/identify", ("image", photo(photos, NAMES[0])))
    figures = server.get("/metrics").body.decode()
    for part in (
        'arcset_requests_total{method="GET",route="/v1/subjects/{name}",status="200"}',
        'arcset_request_seconds_bucket{le="0.01",route="/v1/identify"}',
        "arcset_queue_requests 0.0",
    ):
        assert part in figures
    first, *lines = server.written().splitlines()
    assert first.startswith("serving ")
    told = [json.loads(line) for line in lines]
    mine = next(one for one in told if one.get("request_id") == "for-the-log")
    assert (mine["route"], mine["status"]) == ("/v1/subjects/{name}", 200)
    assert NAMES[0] not in figures + "".join(lines)

"""The files of the page, as they are sent. What the page does: tests/browser/page."""

import re

import pytest

from support.servers import served

SVG = "http://www.w3.org/2000/svg"  # a name, which nothing is fetched from


@pytest.fixture(scope="module")
def server(own_gallery, model):
    with served(own_gallery, "--model", model, "--no-log") as running:
        yield running


@pytest.fixture(scope="module")
def files(server):
    """Address to text of everything that the page consists of."""
    found, left = {}, ["/"]
    while left:
        name = left.pop()
        sent = server.get(name)
        assert sent.status == 200, name
        text = found[name] = sent.body.decode()
        asked = re.findall(r'(?:src|href)="(page/[^"#]+)"', text)
        asked += [f"page/{script}" for script in re.findall(r'from "\./([^"]+)"', text)]
        left += {f"/{one}" for one in asked} - found.keys() - set(left)
    return found


def test_it_asks_nothing_of_others_and_lets_no_text_become_html(files):
    assert len(files) > 12
    for name, text in files.items():
        assert set(re.findall(r"https?://[^\s\"')]+", text)) <= {SVG}, name
        assert "innerHTML" not in text, name
    assert "Your photos are not stored." in files["/"]
    assert not re.search(r"<script(?![^>]*src=)|\sstyle=|\son\w+=", files["/"])  # as the CSP has it


def test_it_is_sent_once_and_nothing_else_is(server):
    first = server.get("/")
    assert first.headers["content-type"].startswith("text/html")
    policy = first.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    again = server.get("/", **{"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    for path in ("/page/none.js", "/page/..%2Fviews.py", "/page/", "/page/%2e%2e/app.py"):
        assert server.get(path).code == "not_found"

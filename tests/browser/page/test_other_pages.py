"""A page from elsewhere, in the same browser as the service: it can link to it and nothing else."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

#: Both are this machine: to a browser the first is another site, the second another origin.
HOSTS = ("localhost", "127.0.0.1")


@pytest.fixture
def elsewhere(site):
    """The port of a server whose page shows what the service holds, as far as it can."""
    content = f"""<!DOCTYPE html><title>elsewhere</title>
        <img id="photo" src="{site.url}/v1/samples/1/image">
        <img id="icon" src="{site.url}/page/icon.svg">
        <a href="{site.url}/">people</a>"""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("host", HOSTS)
def test_another_page_shows_no_photo_and_may_link_to_the_service(browser, site, elsewhere, host):
    assert site.get("/v1/samples/1/image").status == 200  # it is there
    context = browser.new_context()
    context.set_default_timeout(15_000)
    page = context.new_page()
    page.goto(f"http://{host}:{elsewhere}/")
    for name in ("photo", "icon"):
        page.wait_for_function(f"document.getElementById('{name}').complete")
        assert page.evaluate(f"document.getElementById('{name}').naturalWidth") == 0
    page.click("a")
    page.wait_for_selector("#identify-point strong")  # and its own page shows what it holds
    context.close()

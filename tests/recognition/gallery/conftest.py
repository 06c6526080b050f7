"""Where galleries of each kind are: files, and collections of Milvus Lite and of a real server."""

import pytest

from arcset import Gallery
from support.galleries import Location
from support.milvus_server import milvus_server

LONG = pytest.mark.long


@pytest.fixture(scope="session")
def lite(tmp_path_factory):
    """A folder of Milvus Lite that stays open, so that galleries in it are opened quickly."""
    path = tmp_path_factory.mktemp("milvus") / "lite.db"
    with Gallery.open(f"milvus:{path}/held", dim=2):
        from pymilvus import MilvusClient

        client = MilvusClient(str(path))
        yield f"milvus:{path}", client
        client.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A real Milvus, and a client of it."""
    from pymilvus import MilvusClient

    with milvus_server(tmp_path_factory.mktemp("server")) as (address, _):
        client = MilvusClient(address.replace("milvus:", "http:"))
        yield address, client
        client.close()


@pytest.fixture
def make_location(request, tmp_path):
    """Makes a location of the kind 'file', 'lite' or 'server', which is cleared in the end."""
    made = []

    def make(kind):
        where = (tmp_path,) if kind == "file" else request.getfixturevalue(kind)
        made.append(Location(*where))
        return made[-1]

    yield make
    for location in made:
        location.clear()


@pytest.fixture(params=["file", *(pytest.param(kind, marks=LONG) for kind in ("lite", "server"))])
def location(request, make_location):
    """Files in `make test`, Milvus as well in `make test-all`; see `test_gallery`."""
    return make_location(request.param)


@pytest.fixture
def milvus(make_location):
    """Milvus Lite only."""
    return make_location("lite")

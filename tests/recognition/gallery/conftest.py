"""Places for galleries of both kinds: files, and collections of Milvus Lite."""

import pytest

from arcset import Gallery
from support.galleries import Place
from support.gallery_watching import Writers


@pytest.fixture(scope="session")
def lite(tmp_path_factory):
    """A folder of Milvus Lite that stays open, so that galleries in it are opened quickly."""
    path = tmp_path_factory.mktemp("milvus") / "lite.db"
    with Gallery.open(f"milvus:{path}/held", dim=2):
        from pymilvus import MilvusClient

        client = MilvusClient(str(path))
        yield path, client
        client.close()


@pytest.fixture
def make_place(request, tmp_path):
    """Makes a place of the kind 'file' or 'milvus', which is cleared in the end."""
    made = []

    def make(kind):
        where = (tmp_path,) if kind == "file" else request.getfixturevalue("lite")
        made.append(Place(*where))
        return made[-1]

    yield make
    for place in made:
        place.clear()


@pytest.fixture(params=["file", pytest.param("milvus", marks=pytest.mark.long)])
def place(request, make_place):
    """Files in `make test`, Milvus Lite as well in `make test-all`; see `test_gallery`."""
    return make_place(request.param)


@pytest.fixture
def milvus(make_place):
    """Milvus Lite only."""
    return make_place("milvus")


@pytest.fixture(scope="session")
def writers():
    """Processes that write to galleries, and can be killed."""
    found = Writers()
    yield found
    found.close()

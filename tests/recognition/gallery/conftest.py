"""Galleries of both kinds, for tests of what every gallery can do."""

import pytest

from arcset.recognition.gallery.milvus.address import Address
from arcset.recognition.gallery.milvus.connection import Connection
from support.galleries import Place


@pytest.fixture(scope="session")
def lite(tmp_path_factory):
    """A folder of Milvus Lite that stays open, so that galleries in it are opened quickly."""
    path = tmp_path_factory.mktemp("milvus") / "lite.db"
    connection = Connection(Address.parse(f"milvus:{path}/unused"))
    yield path
    connection.close()


@pytest.fixture(params=["file", "milvus"])
def place(request, tmp_path):
    folder = tmp_path if request.param == "file" else request.getfixturevalue("lite")
    made = Place(request.param, folder)
    yield made
    made.clear()

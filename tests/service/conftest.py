"""What tests of one server share: a gallery of six subjects."""

import shutil

import pytest

from support.servers import added_key, served, small_gallery


@pytest.fixture(scope="session")
def a_gallery(tmp_path_factory):
    """Its files, made once; tests copy or change it as they like, each module its own copy."""
    return small_gallery(tmp_path_factory.mktemp("gallery"))


@pytest.fixture(scope="module")
def own_gallery(a_gallery, tmp_path_factory):
    """A copy of the gallery for one module."""
    place = tmp_path_factory.mktemp("own") / "people.db"
    shutil.copy(a_gallery, place)
    return place


@pytest.fixture(scope="session")
def model(a_gallery):
    """The run that made its embeddings."""
    return a_gallery.with_name("run")


@pytest.fixture(scope="session")
def photos(a_gallery):
    """FOLDER/NAME/00.png and 01.png of everybody enrolled."""
    return a_gallery.with_name("photos")


@pytest.fixture(scope="session")
def keyed_gallery(a_gallery, tmp_path_factory):
    """A copy of the gallery for the server with keys."""
    place = tmp_path_factory.mktemp("keyed") / "people.db"
    shutil.copy(a_gallery, place)
    return place


@pytest.fixture(scope="session")
def keys(keyed_gallery):
    """A key for each of the roles."""
    return {role: added_key(keyed_gallery, role, f"for {role}") for role in ("read", "write")}


@pytest.fixture(scope="session")
def keyed_server(keyed_gallery, model, keys):
    """A server that takes keys, and as it comes none is sent to it."""
    with served(keyed_gallery, "--model", model) as running:
        yield running

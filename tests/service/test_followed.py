"""What takes long to work out is kept for as long as nobody changes the gallery.

Goes with the class; that a server follows what others change is in test_api.py.
"""

import subprocess

import pytest

from arcset import Gallery
from arcset.service.followed import Followed
from support.servers import ARCSET


@pytest.mark.long
def test_results_are_made_anew_when_anybody_changes_the_gallery(tmp_path):
    gallery = Gallery.open(tmp_path / "people.db", dim=2)
    gallery.enroll("anna", embeddings=[1, 0])
    followed, made = Followed(gallery), []

    def names():
        made.append(len(made))
        return [one.name for one in gallery.subjects()]

    for _ in range(3):
        assert followed.of("names", names) == ["anna"]
    assert len(made) == 1
    gallery.rename("anna", "Anna")
    assert followed.of("names", names) == ["Anna"]
    assert followed.of("other", lambda: 1) == 1
    command = [*ARCSET, "gallery", "rename", str(gallery.path), "Anna", "Ann"]
    subprocess.run(command, check=True, capture_output=True)
    assert followed.of("names", names) == ["Ann"]
    assert followed.of("names", names) == ["Ann"]
    assert len(made) == 3
    followed.close()
    assert followed.of("names", names) == ["Ann"]  # and no longer kept
    assert len(made) == 4
    gallery.close()

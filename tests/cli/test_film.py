"""`arcset film` from the outside."""

import pytest
from PIL import Image

from arcset.runs import RunConfig
from arcset.training import train


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    config = RunConfig(
        data="mnist-sample", network="mlp", classes="0-1", dim=2, epochs=1, batch=100, snapshot=40
    )
    return train(config, tmp_path_factory.mktemp("runs") / "arcface").path


def test_film_is_written_where_asked(arcset_command, run, tmp_path):
    words = ["--out", "film.gif", "--parts", "train,test", "--fps", "4", "--width", "300"]
    done = arcset_command("film", run, *words, "--seconds-per-epoch", "1")
    assert done.code == 0, done.err
    assert done.out == ""
    assert "film.gif" in done.err
    with Image.open(tmp_path / "film.gif") as film:
        assert (film.n_frames, film.width) == (5, 300)

"""The list of what is to be embedded, which shard holds what, and how much memory it all takes.

Of these, the last is what a user sees; the others go with the way in which processes share work.
"""

import subprocess
import sys
import tracemalloc

import pytest

from arcset import DataError, RunError
from arcset.data import open_source
from arcset.data.embeddings import Manifest, shard_path
from arcset.recognition.bulk import TrainedModel, embed_folder
from arcset.recognition.bulk.beginning import locked
from arcset.recognition.bulk.listed import InputList, write_list
from arcset.runs import Run
from support.bulk import photo_run
from support.bulk_memory import Many
from support.processes import environment


@pytest.mark.long
def test_the_list_takes_no_more_memory_for_more_inputs(tmp_path, monkeypatch):
    monkeypatch.setattr("arcset.recognition.bulk.listed._AT_ONCE", 512)
    peaks = []
    for count in (2000, 12_000):
        tracemalloc.start()
        listed = write_list(Many(count), tmp_path / "list.parquet")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (listed.inputs, listed.identities) == (count, count // 2)
    assert peaks[1] < peaks[0] * 1.2 + 30_000  # Parquet's own list of what is where
    names = InputList(tmp_path / "list.parquet", listed.digest)
    for places in (range(0, 1), range(500, 1200), range(11_999, 12_000)):
        expected = list(Many(12_000).entries())[places.start : places.stop]
        assert names.entries(places) == expected


def test_a_list_that_is_not_the_one_just_made(tmp_path):
    """As on a machine whose folder is not the one that the first process writes to."""
    with pytest.raises(DataError, match="list"):
        InputList(tmp_path / "list", "0")
    listed = write_list(Many(10), tmp_path / "list")
    assert InputList(tmp_path / "list", listed.digest).entries(range(10))
    write_list(Many(12), tmp_path / "list")
    with pytest.raises(DataError, match="list"):
        InputList(tmp_path / "list", listed.digest)
    (tmp_path / "list").write_bytes(b"no list")
    with pytest.raises(DataError, match="list"):
        InputList(tmp_path / "list", listed.digest)


def test_identities_in_no_order_are_counted_up_to_a_point(tmp_path, monkeypatch):
    source = Many(1000)
    source.grouped = False
    assert write_list(source, tmp_path / "list").identities == 500
    monkeypatch.setattr("arcset.recognition.bulk.listed._COUNTED", 100)
    assert write_list(source, tmp_path / "list").identities is None


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("bulk")
    photo_run(place)
    return place


@pytest.fixture
def model(made):
    return TrainedModel(Run.open(made / "run"), "cpu")


def embed(folder, source, model, **options):
    return embed_folder(folder, open_source(str(source)), model, **options)


def test_shards_that_come_from_elsewhere_are_noticed(made, model, tmp_path):
    folder = tmp_path / "out"

    def meanwhile(done, _):
        shard = shard_path(folder, 99)
        if done > 8 and not shard.exists():
            shard.write_bytes(shard_path(folder, 0).read_bytes())

    with pytest.raises(DataError, match="8 of 8"):
        embed(folder, made / "photos", model, shard_size=8, progress=meanwhile)
    assert embed(folder, made / "photos", model).made == 0


def test_two_at_once_are_refused(made, model, tmp_path, monkeypatch):
    monkeypatch.setattr("arcset.recognition.bulk.beginning._WAIT", 0.2)
    embed(tmp_path / "out", made / "photos", model)
    with (
        locked(tmp_path / "out"),
        pytest.raises(RunError, match="out"),
    ):
        embed(tmp_path / "out", made / "photos", model)
    assert embed(tmp_path / "out", made / "photos", model).made == 0


def test_a_chief_tells_how_far_all_are(made, model, tmp_path):
    told = []
    embed(
        tmp_path / "out",
        made / "photos",
        model,
        shard_size=8,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[-1] == (62, 62)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_which_inputs_are_in_a_shard():
    said = {"model": "m", "digest": "0", "dim": 2, "unit": True, "source": "s", "kind": "k"}
    manifest = Manifest(**said, inputs=10, listed="1", identities=None, shard_size=4)
    assert [list(manifest.inputs_of(n)) for n in range(manifest.shards)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    assert manifest.model_copy(update={"samples": 3}).identity == manifest.identity
    for key, value in {"digest": "1", "listed": "2", "shard_size": 5, "dtype": "float16"}.items():
        assert manifest.model_copy(update={key: value}).identity != manifest.identity


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="memory in kilobytes, as Linux tells")
def test_ten_times_the_samples_take_no_more_memory(tmp_path):
    """A hundred bytes for each would show."""
    peaks = {}
    for count in (50_000, 500_000):
        command = [sys.executable, "-m", "support.bulk_memory", str(tmp_path), str(count)]
        done = subprocess.run(
            command, env=environment(), stdout=subprocess.PIPE, text=True, check=True
        )
        peaks[count] = int(done.stdout)
    assert peaks[500_000] < peaks[50_000] + 30, peaks

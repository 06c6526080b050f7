"""`arcset embed` into folders, and whatever reads embeddings from them."""

import json
import re
import shutil

import numpy as np
import pytest

from arcset.data.embeddings import read_embeddings
from support.bulk import photo_run, rows_of
from support.random_runs import random_run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("made")
    photo_run(place)
    return place


@pytest.fixture
def run(arcset_command, made, tmp_path):
    """Runs a verb where a run and a folder `photos` lie; fails for another exit code."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)

    def called(*words, code=0):
        done = arcset_command(*words)
        assert done.code == code, done.err
        return done

    return called


def test_into_a_folder_and_on(run, tmp_path):
    words = ["embed", "run", "photos", "--device", "cpu", "--out"]
    done = run(*words, "out/", "--shard-size", "20")
    assert re.search(r"\b59 .*\b6 .*\bout\b.*\b4 files", done.out)
    assert "3 files" in done.err
    assert "  person 1/empty.png: " in done.err
    (tmp_path / "out/shard-00002.parquet").unlink()
    assert re.search(r"4 files.*\b1 ", run(*words, "out").out)
    done = run(*words, "out", "--check", "--json")
    content = json.loads(done.out)
    assert [content[key] for key in ("samples", "skipped", "inputs", "made")] == [59, 3, 62, 0]
    for name in ("file.parquet", "half.npz"):
        run(*words, name, *(["--dtype", "float16"] if "half" in name else []))
    whole, half = (read_embeddings(tmp_path / name) for name in ("file.parquet", "half.npz"))
    np.testing.assert_array_equal(half.embeddings, whole.embeddings.astype(np.float16))


@pytest.mark.parametrize("names", [("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")])
def test_a_process_makes_its_share_alone(run, tmp_path, names, monkeypatch):
    """Nobody is waited for: whoever finds that all shards are there says so."""
    words = ["embed", "run", "photos", "--shard-size", "4", "--json", "--device", "cpu", "--out"]
    run(*words, "one")
    monkeypatch.setenv(names[1], "2")
    monkeypatch.setenv(names[0], "1")
    done = run(*words, "two")
    made = sorted(int(file.stem[-5:]) for file in (tmp_path / "two").glob("shard-*"))
    assert made == list(range(1, 16, 2))
    assert done.out == ""
    assert "8 of 16 files" in done.err
    monkeypatch.setenv(names[0], "0")
    done = run(*words, "two")
    content = json.loads(done.out)
    assert (content["made"], content["samples"], content["processes"]) == (8, 59, 2)
    assert "stray.png" in done.err
    one, two = (rows_of(read_embeddings(tmp_path / name)) for name in ("one", "two"))
    assert one == two


@pytest.mark.parametrize("rank", ["2", "x"])
def test_a_rank_that_cannot_be(run, monkeypatch, rank):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert f"RANK={rank}" in run("embed", "run", "photos", "--out", "out/", code=2).err


def test_the_runs_own_data_and_parts_of_it(run, arcset_command, tmp_path):
    random_run(tmp_path / "split", data="mnist-sample", network="mlp", classes="0-6")
    for part, samples in {"unseen": 300, "train": 2800, "test": 700}.items():
        words = ["embed", "split", "--part", part, "--device", "cpu", "--out"]
        assert json.loads(run(*words, f"{part}/", "--json").out)["samples"] == samples
        run(*words, f"{part}.npz")
        ours, theirs = (read_embeddings(tmp_path / name) for name in (part, f"{part}.npz"))
        assert ours.names.tolist() == theirs.names.tolist()
        np.testing.assert_allclose(ours.embeddings, theirs.embeddings, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        (["run", "photos", "--out", "e.csv"], "e.csv"),
        (["run", "photos", "--out", "e.npz", "--check"], "--check"),
        (["run", "photos", "--out", "e", "--dtype", "int8"], "'int8'"),
        (["run", "photos", "--out", "e", "--shard-size", "0"], "--shard-size"),
        (["run", "./nosuch", "--out", "e"], "'./nosuch'"),
        (["run", "--out", "e", "--part", "unseen"], "unseen"),
        (["run", "images.npz", "--out", "e", "--part", "test"], "images.npz"),
        (["run", "--out", "e", "--part", "some"], "'some'"),
        (["nosuch", "photos", "--out", "e"], "nosuch"),
        (["net.onnx", "--out", "e"], "data"),
        (["net.onnx", "photos", "--part", "test", "--out", "e"], "--part test"),
        (["run", "run/config.toml", "--out", "e"], "config.toml"),
        (["run", "photos", "--out", "photos"], "person 0"),
        (["run", "photos", "--out", "run/config.toml/"], "run/config.toml"),
    ],
)
def test_wrong_use_is_one_line_and_leaves_nothing(run, tmp_path, words, quoted):
    np.savez(tmp_path / "images.npz", images=np.zeros((4, 10, 10), np.uint8), labels=[0, 0, 1, 1])
    (tmp_path / "net.onnx").touch()
    before = sorted(tmp_path.rglob("*"))
    done = run("embed", *words, "--device", "cpu", code=2)
    assert quoted in done.err
    assert done.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_folders_are_read_wherever_files_are(run, tmp_path):
    words = ["embed", "run", "photos", "--device", "cpu", "--out"]
    run(*words, "e/", "--shard-size", "7")
    run(*words, "e.parquet")
    measured = []
    for source in ("e", "e.parquet"):
        options = ["--allow-overlap", "--no-report", "--no-intervals", "--json"]
        done = run("evaluate", source, *options, "--out", f"judged-{source}")
        measured.append(json.loads(done.out)["verification"]["auc"])
    assert measured[0] == pytest.approx(measured[1], abs=1e-3)
    run("evaluate", "e", "--allow-overlap", "--no-report", "--no-intervals")
    assert (tmp_path / "e-evaluation/evaluation.json").exists()
    assert "--allow-overlap" in run("evaluate", "e", code=2).err  # some were in training

    done = run("gallery", "import", "people.db", "e", "--json")
    assert json.loads(done.out) == {"gallery": "people.db", "samples": 59, "subjects": 6}
    done = run("identify", "people.db", "e", "--threshold", "0.9", "--json")
    probes = json.loads(done.out)["probes"]
    assert len(probes) == 59
    assert all(probe["path"].startswith(probe["subject"]) for probe in probes)
    run("cluster", "e", "--threshold", "0.99")
    groups = (tmp_path / "e-groups/groups.csv").read_text().splitlines()
    assert len(groups) == 1 + 59


def test_a_gallery_takes_a_folder_of_its_own_model_only(run, tmp_path):
    run("enroll", "people.db", "photos", "--model", "run", "--device", "cpu")
    run("embed", "run", "photos", "--out", "e", "--device", "cpu")
    run("gallery", "import", "people.db", "e")
    random_run(tmp_path / "other", data=tmp_path / "photos", seed=7)
    run("embed", "other", "photos", "--out", "f", "--device", "cpu")
    done = run("gallery", "import", "people.db", "f", code=2)
    assert re.search(r"\bf\b.*people\.db.*\brun\b", done.err)
    for words in (["identify", "people.db", "f"], ["gallery", "calibrate", "people.db", "f"]):
        assert re.search(r"\bf\b.*\brun\b", run(*words, code=2).err)
    run("embed", "run", "photos", "--out", "e.parquet", "--device", "cpu")
    assert "e.parquet" in run("gallery", "import", "people.db", "e.parquet", code=2).err

"""`arcset identify` from the outside."""

import csv
import io
import json
import os
import pty
import re
import shutil
import sys

import pytest

from arcset.recognition import Recognizer
from arcset.recognition.gallery import Gallery
from support.patterns import calibrated_run, pictures

NAMES = [f"subject {number}" for number in range(6)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A calibrated run, a gallery of six subjects, and probes: two of them, two strangers."""
    folder = tmp_path_factory.mktemp("made")
    run = calibrated_run(folder / "run")
    with Gallery.open(folder / "people.db", Recognizer.load(run, device="cpu")) as gallery:
        for name in NAMES:
            gallery.enroll(name, pictures(folder / "photos", [name], 2))
    pictures(folder / "probes", [*NAMES[:2], "stranger", "stranger too"], 1, first=10)
    shutil.rmtree(folder / "calibrating")
    return folder


@pytest.fixture
def identify(arcset_command, tmp_path, made):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)

    def run(*words, model="run"):
        named = ["--model", model] if model else []
        return arcset_command("identify", "people.db", *words, *named, "--device", "cpu")

    return run


KNOWN = "probes/subject 0/10.png"
UNKNOWN = "probes/stranger/10.png"


def test_one_image_of_somebody_known(identify):
    done = identify(KNOWN)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == f"{KNOWN}: subject 0"
    assert lines[3].startswith("subject 0 ")
    assert len(lines) == 11  # five candidates
    assert lines[-2] == "probabilities among 6 subjects, at prior 0.5"
    assert re.search(r"FPIR 0\.01 .*\b12$", lines[-1])  # six of two samples each
    assert done.err == ""


def test_one_image_of_nobody_known_exits_with_1(identify):
    done = identify(UNKNOWN, "--candidates", "1")
    assert done.code == 1
    assert done.out.splitlines()[0] == f"{UNKNOWN}: unknown"


def test_whoever_is_accepted_although_it_is_more_likely_wrong_is_named(identify):
    done = identify("probes", "--threshold", "-1", "--format", "jsonl")
    doubtful = [row for row in map(json.loads, done.out.splitlines()) if row["probability"] < 0.5]
    assert UNKNOWN in [row["path"] for row in doubtful]
    for row in doubtful:
        assert f"{row['path']}: {row['note']}" in done.err
        assert (row["subjects"], row["prior"]) == (6, 0.5)
    assert KNOWN not in done.err


def test_as_json_lines_and_as_csv(identify):
    done = identify("probes", "--format", "jsonl", "--candidates", "2")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["path"] for row in rows[::2]] == [UNKNOWN, KNOWN]
    assert [row["subject"] for row in rows] == [None, None, "subject 0", "subject 1"]
    assert {len(row["candidates"]) for row in rows} == {2}
    done = identify("probes", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["subject"] for row in rows] == ["", "", "subject 0", "subject 1"]
    assert rows[0]["nearest"].startswith("subject ")


def test_without_a_calibration_it_says_how_to_get_one(identify, tmp_path):
    (tmp_path / "run" / "threshold.json").unlink()
    done = identify("probes")
    assert done.code == 1
    assert "4 undecided" in done.out
    assert "'run'" in done.err
    assert "`arcset gallery calibrate people.db FOLDER`" in done.err
    assert "`arcset calibrate MODEL FOLDER`" in done.err
    assert done.err.count("\n") == 1
    content = json.loads(identify("probes", "--json").out)
    assert content["point"] is None
    for probe in content["probes"]:
        assert (probe["subject"], probe["reason"]) == (None, "no calibration")
        assert probe["candidates"]
    done = identify("probes", "--fpir", "0.1")
    assert done.code == 2
    assert "fpir=0.1" in done.err
    assert identify("probes", "--threshold", "0.9").code == 0


def test_the_model_is_remembered_or_asked_for(identify, arcset_command, tmp_path):
    words = ["enroll", "own.db", "photos", "--model", "run", "--device", "cpu"]
    assert arcset_command(*words).code == 0
    assert arcset_command("identify", "own.db", "probes").code == 0
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    done = arcset_command("identify", "own.db", "probes")
    assert done.code == 2
    assert re.search(r"own\.db.*--model", done.err)


def test_unreadable_images_are_named(identify, tmp_path):
    (tmp_path / "probes" / "broken.png").write_text("no image")
    assert "  probes/broken.png: " in identify("probes").err
    done = identify("probes/broken.png")
    assert done.code == 2
    assert "probes/broken.png" in done.err


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        (["nosuch.png"], "nosuch.png"),
        (["probes", "--fpir", "2"], "fpir"),
        (["probes", "--threshold", "0.5", "--fpir", "0.1"], "fpir=0.1"),
        (["probes", "--candidates", "0"], "--candidates"),
        (["probes", "--format", "xml"], "'xml'"),
        (["probes", "x.npz"], "x.npz"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(identify, tmp_path, words, quoted):
    (tmp_path / "x.npz").write_bytes(b"")
    done = identify(*words)
    assert done.code == 2
    assert quoted in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""


def test_no_gallery(arcset_command, tmp_path):
    done = arcset_command("identify", "none.db", tmp_path)
    assert done.code == 2
    assert "`arcset enroll none.db FOLDER --model RUN`" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_of_80_columns(identify, tmp_path, monkeypatch):
    """A real one: no line is wider, whatever paths and names are."""
    wide = tmp_path / "a folder of a rather long name" / "and another one within it"
    shutil.copytree(tmp_path / "probes", wide)
    with Gallery.open(tmp_path / "people.db") as gallery:
        gallery.rename(
            "subject 0", "a subject with a name that goes on and on, 日本語テスト, and on"
        )
    reading, writing = pty.openpty()
    monkeypatch.setenv("COLUMNS", "80")
    with os.fdopen(writing, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        assert identify(wide.parent.name).code == 0
    lines = os.read(reading, 1 << 16).decode().replace("\r", "").splitlines()
    os.close(reading)
    widths = [sum(1 + (ord(letter) > 0x2E80) for letter in line) for line in lines]
    assert max(widths) == widths[1] == 80  # all of the room is used
    assert all(line.startswith("…") for line in lines[1:5])

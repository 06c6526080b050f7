"""Exit codes, help texts and errors of all verbs."""

import re
import resource
import subprocess
import sys

import pytest
import typer

import arcset
from arcset.cli.app import VERBS as TEXTS
from arcset.cli.app import app, main
from support.small_data import images


def _verbs():
    found = []
    for name, command in typer.main.get_command(app).commands.items():
        found += [f"{name} {sub}" for sub in getattr(command, "commands", [])] or [name]
    return found


def test_the_list_of_verbs_has_the_first_paragraph_of_their_help():
    for name, command in typer.main.get_command(app).commands.items():
        assert TEXTS[name] == " ".join(command.help.partition("\n\n")[0].split()), name


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["keys", "--help"],
        ["keys", "list", "people.db"],
        ["gallery", "list", "people.db"],
        ["gallery", "list", "people.db", "anna"],
        ["data", "list"],
        ["nosuch"],
    ],
)
def test_only_what_a_verb_needs_is_imported(tmp_path, words):
    """torch takes seconds and 300 MB, which nobody should pay for a list of names."""
    with arcset.Gallery.open(tmp_path / "people.db", dim=2) as gallery:
        gallery.enroll("anna", embeddings=[1.0, 0.0])
    code = (
        "import sys\n"
        "from arcset.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print('imported', *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == (2 if words == ["nosuch"] else 0), done.stderr
    *_, imported = done.stdout.splitlines()
    assert imported.startswith("imported ")
    assert not {"torch", "sklearn", "matplotlib", "onnxruntime"} & set(imported.split())


def test_help_is_quick(tmp_path):
    """Processor time of the fastest of three, as other work may slow down any of them."""
    command = [sys.executable, "-m", "arcset", "--help"]
    taken = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) <= 0.5


@pytest.mark.parametrize("verb", _verbs())
def test_help_has_an_example(arcset_command, verb):
    done = arcset_command(*verb.split(), "--help")
    assert done.code == 0
    assert f"Example: arcset {verb}" in " ".join(done.out.split())


def test_python_m():
    command = [sys.executable, "-m", "arcset", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"arcset {arcset.__version__}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "nosuch", "--out", "x"], "'nosuch'"),
        (["train", "mnist-sample", "--out", "x", "--loss", "acface"], "'arcface'"),
        (["train", "mnist-sample", "--out", "x", "--dim", "1"], "dim=1"),
        (["train", "mnist-sample", "--out", "x", "--dim", "1e12"], "--dim"),
        (["train", "mnist-sample", "--out", "x", "--set", "foo=1"], "'foo'"),
        (["train", "--resume", "x"], "config.toml"),
        (["train", "mnist-sample", "--bogus"], "--bogus"),
        (["compare", "mnist-sample", "--losses", "arcface,arcface"], "'arcface'"),
        (["evaluate", "run", "pairs.bin", "--against", "other"], "--against"),
        (["nosuch"], "'nosuch'"),
        (["train", "mnist-sample", "--out", "x", "--device", "meta"], "'meta'"),
        (["train", "mnist-sample", "--out", "/dev/null/x"], "/dev/null/x"),
    ],
)
def test_wrong_use_is_one_line_exit_2_and_writes_nothing(arcset_command, tmp_path, words, message):
    done = arcset_command(*words)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    if "Usage:" not in done.err:
        assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_debug_lets_the_error_through_with_its_traceback(capsys):
    with pytest.raises(arcset.RunError, match="nowhere"):
        main(["--debug", "train", "--resume", "nowhere"])
    assert "nowhere" not in capsys.readouterr().err  # what is not caught, Python shows


def test_help_shows_no_python_types_and_fills_the_lines(monkeypatch, arcset_command):
    monkeypatch.setenv("COLUMNS", "80")
    for words in ([], ["verify"], ["enroll"], ["gallery", "calibrate"], ["data", "check"]):
        done = arcset_command(*words, "--help")
        assert done.code == 0
        assert not re.search(r"<bool>|<Any>|list\[", done.out)
    said = arcset_command("enroll", "--help").out
    lines = [line.strip() for line in said.splitlines()]
    assert any(line.startswith("read are skipped") for line in lines)  # broken where the screen is


def test_a_module_that_registers_a_network_is_imported_before_the_verb(tmp_path):
    images(tmp_path / "images.npz")
    (tmp_path / "mynets.py").write_text(
        "from torch import nn\n"
        "from arcset.networks import NETWORKS\n\n"
        "@NETWORKS.register('tiny')\n"
        "def build_tiny(shape, dim):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], dim))\n"
    )
    train = "train images.npz --network tiny --dim 4 --epochs 1 --out run --no-report"
    command = [sys.executable, "-m", "arcset", "--import", "mynets", *train.split()]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert (tmp_path / "run" / "config.toml").is_file()


def test_a_module_that_cannot_be_imported_is_named_with_the_reason(
    arcset_command, tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "broken.py").write_text("print(1 / 0)")
    for module, reason in (("nosuch.nets", "'nosuch'"), ("broken", "ZeroDivisionError")):
        done = arcset_command("--import", module, "data", "list")
        assert done.code == 2
        assert f"--import {module}" in done.err
        assert reason in done.err


def test_a_misspelled_verb_is_answered_with_the_closest(arcset_command):
    assert "'train'" in arcset_command("trian").err
    assert "mean" not in arcset_command("sweep").err  # nothing is close
    assert "'list'" in arcset_command("gallery", "lst", "people.db").err

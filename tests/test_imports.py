"""What is imported with what: measuring and deciding need neither torch nor scikit-learn."""

import subprocess
import sys
import textwrap

import pytest

from arcset.recognition.export import export
from support.photos import photos
from support.processes import environment
from support.random_runs import random_run

LIGHT = (
    "arcset",
    "arcset.checks",
    "arcset.text",
    "arcset.evaluation",
    "arcset.evaluation.calibration",
    "arcset.evaluation.pairs",
    "arcset.recognition.calibration",
    "arcset.recognition.clustering",
    "arcset.recognition.decisions",
)
HEAVY = {"torch", "sklearn", "pyarrow", "matplotlib"}


def test_measuring_and_deciding_import_numpy_and_scipy_only():
    code = f"import sys, {', '.join(LIGHT)}; print(*{HEAVY} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


#: Verbs, in an order in which each finds what it needs; all with a model in an ONNX file.
LIGHT_VERBS = (
    "enroll people.db photos --model model.onnx",
    "identify people.db photos",
    "verify model.onnx 'photos/person 000/0.png' 'photos/person 001/0.png'",
    "gallery calibrate people.db",
    "gallery list people.db",
    "cluster photos --model model.onnx --threshold 0.9 --no-sheet",
    "keys add people.db --name phone",
    "export model.onnx --out again.onnx",
    "serve people.db --port 0",
)


def test_recognizing_with_an_onnx_file_imports_no_torch(tmp_path):
    export(random_run(tmp_path / "run"), tmp_path / "model.onnx")
    photos(tmp_path / "photos", [4] * 14, side=10)
    program = f"""
        import shlex
        import sys
        import arcset.service.server
        from arcset.cli import main
        arcset.service.server.run = lambda *words: None  # the service is made, and not begun
        for words in {LIGHT_VERBS}:
            try:
                main(shlex.split(words))
            except SystemExit as ended:
                assert ended.code in (None, 0, 1), words
            assert not {{"torch", "sklearn"}} & set(sys.modules), words
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    subprocess.run(command, cwd=tmp_path, env=environment(), check=True)


def test_public_names_are_imported_when_asked_for():
    code = "import sys, arcset; arcset.build_loss; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]


def test_a_name_that_is_not_there():
    import arcset
    import arcset.recognition

    for package in (arcset, arcset.recognition):
        with pytest.raises(AttributeError, match="recogniser"):
            package.recogniser  # noqa: B018

"""What is imported with what: measuring and deciding need neither torch nor scikit-learn."""

import subprocess
import sys

import pytest

LIGHT = (
    "arcset",
    "arcset.checks",
    "arcset.text",
    "arcset.evaluation",
    "arcset.evaluation.calibration",
    "arcset.evaluation.pairs",
    "arcset.recognition.clustering",
    "arcset.recognition.decisions",
)
HEAVY = {"torch", "sklearn", "pyarrow", "matplotlib"}


def test_measuring_and_deciding_import_numpy_and_scipy_only():
    code = f"import sys, {', '.join(LIGHT)}; print(*{HEAVY} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


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

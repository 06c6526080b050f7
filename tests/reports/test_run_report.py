"""The report of real runs, put together."""

import html

import pytest

from arcset.reports import RunReport, RunView
from arcset.training import train
from support.patterns import pictures

from .conftest import CONFIG


def test_two_classifiers_have_pictures_that_one_has_not(views, tmp_path):
    """All others have their names in tests/contract."""
    RunReport("two losses", [views["slim"], views["softmax"]]).write(tmp_path, separate=True)
    drawn = {path.stem for path in (tmp_path / "pictures").iterdir()}
    assert {"no-threshold", "no-threshold-last", "bias"} <= drawn


def test_a_single_run_without_classifier(views, tmp_path):
    RunReport("triplet", [views["triplet"]]).write(tmp_path, separate=True)
    drawn = {path.stem for path in (tmp_path / "pictures").iterdir()}
    assert drawn == {"history", "embedding", "roc", "no-threshold", "margins", "data"}


def test_names_of_identities_are_only_names(tmp_path):
    """Neither formulas of matplotlib's nor tags nor Jinja2's."""
    names = ["$x^$", "$5 and $6", "<img src=x onerror=alert(1)>", "{{7*7}}", "\\frac{", "a_b"]
    pictures(tmp_path / "data", names, 6)
    config = CONFIG.replace(
        data=str(tmp_path / "data"), classes=None, hold_out={"test": 0.4}, size=(8, 8)
    )
    run = train(config, tmp_path / "run", device="cpu")
    RunReport("names", [RunView(run.path)]).write(tmp_path, separate=True)
    assert len([*(tmp_path / "pictures").iterdir()]) >= 6
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<img src=x" not in page
    assert all(html.escape(name) in page for name in names)


@pytest.mark.long  # with one unseen class: tests/cli/test_train.py
def test_one_unseen_class_or_none(tmp_path):
    for classes in ("0-8", None):
        config = CONFIG.replace(classes=classes, batch=512, snapshot=20)
        run = train(config, tmp_path / str(classes), device="cpu")
        page = RunReport("few", [RunView(run.path)]).write(run.path).read_text(encoding="utf-8")
        assert "Same or different, never seen" not in page
        assert ("How sure a classifier is" in page) == (classes is not None)

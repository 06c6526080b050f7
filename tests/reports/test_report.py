"""The report: one file, complete, safe and the same every time."""

import html
import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from arcset.errors import InputError
from arcset.reports.page import Section
from arcset.reports.run_report import RunReport
from arcset.reports.view import RunView
from arcset.runs import Run
from arcset.training import train
from support.patterns import pictures

from .conftest import CONFIG

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)> & \"quoted\""
MEASURES = {"accuracy": "share named rightly", "unseen_eer": "errors on <unseen> classes"}


def cell(mean: float, spread: float = 0.0) -> dict[str, float]:
    return {"mean": mean, "low": mean - spread, "high": mean + spread}


COMPARISON = {
    "runs": [{"loss": "a", "seed": 0}, {"loss": "a", "seed": 1}],
    "summary": {
        "softmax": {"accuracy": cell(0.9, 0.05), "unseen_eer": cell(0.3)},
        "arcface": {"accuracy": cell(0.93, 0.01), "unseen_eer": cell(0.4)},
        HOSTILE: {"accuracy": cell(0.5), "unseen_eer": {"mean": None, "low": None, "high": None}},
        "triplet": {"unseen_eer": cell(0.35)},
    },
}


MORE = [Section("Rows", [], "A & table.", "When <it> stands alone.", rows=[["loss"], [HOSTILE]])]


@pytest.fixture(scope="module")
def four(views: dict[str, RunView]) -> list[RunView]:
    """Both kinds of space, with and without centers, 2, 3 and 5 dimensions."""
    return [views[name] for name in ("softmax", "sphere", "triplet", "wide")]


def written(folder: Path, views: list[RunView], **options: Any) -> str:
    given = {"title": "Digits", "comparison": COMPARISON, "measures": MEASURES, "more": MORE}
    report = RunReport(runs=views, command="arcset demo", **{**given, **options})
    return report.write(folder).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(four: list[RunView], tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("page"), four)


def payload(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    content: dict[str, Any] = json.loads(found.group(1))
    return content


def test_it_is_one_small_file_that_asks_for_nothing(page: str) -> None:
    assert len(page.encode()) < 2_000_000
    assert not re.search(r"https?://|<link|<script[^>]*\ssrc|url\((?!data:)|@import", page)
    sources = re.findall(r'<img[^>]*\ssrc="([^"]{0,20})', page)
    assert sources
    assert all(source.startswith("data:image/") for source in sources)


def test_the_same_input_gives_the_same_bytes(
    page: str, four: list[RunView], tmp_path: Path
) -> None:
    assert written(tmp_path, [RunView(view.run.path) for view in four]) == page


def test_hostile_names_stay_text(four: list[RunView], tmp_path: Path) -> None:
    view = RunView(four[0].run.path, HOSTILE)
    hostile = {**MEASURES, "accuracy": HOSTILE}
    words = dict.fromkeys(("title", "verdict"), HOSTILE)
    page = written(tmp_path, [view], measures=hostile, **words)
    assert "alert('x')</script>" not in page
    assert "<img src=x" not in page
    assert '"quoted"' not in page.replace('\\"quoted\\"', "")
    assert page.count("<script") == 2
    assert payload(page)["runs"][0]["name"] == HOSTILE


def test_the_best_is_marked_and_what_cannot_be_told_from_it(page: str) -> None:
    table, _, _ = page.partition("Look around")
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table, re.DOTALL)
    marks = {name: re.findall(r'<td class="(\w*)">', cells) for name, cells in rows}
    assert marks["softmax"] == ["near", "best"]  # its seeds reach arcface's; the least error
    assert marks["arcface"] == ["best", ""]
    assert marks["triplet"] == ["none", ""]
    assert "errors on &lt;unseen&gt; classes" in page


@pytest.mark.parametrize(
    ("names", "some", "missing"),
    [
        (("slim", "softmax"), {"no-threshold", "no-threshold-last", "bias"}, set()),
        (("triplet",), {"history", "embedding", "roc"}, {"angle", "confidence", "bias"}),
    ],
)
def test_pictures_depend_on_the_runs(views, names, some, missing, tmp_path) -> None:
    """What all of them are called is in tests/contract."""
    RunReport("some", [views[name] for name in names]).write(tmp_path, separate=True)
    drawn = {path.stem for path in (tmp_path / "pictures").iterdir()}
    assert some <= drawn
    assert not missing & drawn


@pytest.mark.long  # with one unseen class: tests/cli/test_train.py
def test_kept_embeddings_that_are_not_finite_are_refused(views, tmp_path):
    path = shutil.copytree(views["sphere"].run.path, tmp_path / "run")
    run = Run.open(path)
    last = run.embeddings(run.epochs()[-1])
    last["test"][0] = math.nan
    run.save_embeddings(run.epochs()[-1], last)
    with pytest.raises(InputError, match="not finite"):
        RunReport(title="run", runs=[RunView(path)]).write(tmp_path / "report")


def test_one_unseen_class_or_none(tmp_path):
    for classes in ("0-8", None):
        config = CONFIG.replace(classes=classes, batch=512, snapshot=20)
        run = train(config, tmp_path / str(classes), device="cpu")
        page = RunReport("few", [RunView(run.path)]).write(run.path).read_text(encoding="utf-8")
        assert "Same or different, never seen" not in page
        assert ("How sure a classifier is" in page) == (classes is not None)


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

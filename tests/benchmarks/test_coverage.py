"""benchmarks/coverage.py: with few sets in seconds, and what it promises, with many."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "coverage.py"
MEASURES = {"auc", "eer", "tar_at_far[0.1]", "tar_at_far[0.01]", "recall_at[1]", "rank[1]"}
WIDEST = {20: 2.0, 50: 1.5, 200: 1.2}


def run(folder, *options):
    command = [sys.executable, str(SCRIPT), "--out", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    cells = json.loads((folder / "coverage-judged.json").read_text())["cells"]
    assert {cell["measure"] for cell in cells} == MEASURES
    return cells, done.stdout


def test_few_identities_are_covered(tmp_path):
    """Of 60 sets, 90 % less three standard errors."""
    options = ("--sets", "60", "--identities", "20", "--draws", "200")
    cells, shown = run(tmp_path, *options)
    assert "coverage" in shown
    for cell in cells:
        assert cell["interval"]["coverage"] >= 0.78, cell
        assert cell["interval"]["width"] <= 2.5, cell
    means = [sum(cell[form]["coverage"] for cell in cells) for form in ("percentile", "interval")]
    assert means[0] < means[1]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_intervals_hold_the_truth_in_nine_of_ten_sets(tmp_path):
    """Of 200 sets of three sizes, 90 % less two standard errors; the benchmark takes 1,000."""
    for cell in run(tmp_path, "--sets", "200")[0]:
        assert cell["interval"]["coverage"] >= 0.86, cell
        assert cell["interval"]["width"] <= 1.1 * WIDEST[cell["identities"]], cell

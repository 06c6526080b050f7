"""The Python in the docs runs as it stands there, and links lead somewhere.

That of the README and of some guides belongs to what stands around it, and runs with that:
tests/contract/test_readme.py and test_guides.py, tests/test_python_guides.py,
tests/recognition/test_embedder.py and, for faces, tests/recognition/faces/test_recognizer.py.
"""

import itertools
import re
import tomllib
from pathlib import Path

import pytest
from PIL import Image

from arcset.margins import MARGINS
from support.random_runs import random_run

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE = ("README.md", "embed-at-scale.md", "long-runs.md", "own-loop.md", "python.md")
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUN = re.compile(r"Recognizer\.load\(\"(.+?)\"\)")
PICTURE = re.compile(r"\"([\w-]+\.(?:jpg|png))\"")
PATH = re.compile(r"`((?:src|tests|tools)/[\w/.-]+)`")  # of this tree
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def blocks():
    for page in PAGES:
        found = CODE.findall(page.read_text(encoding="utf-8"))
        for number, block in enumerate(found if page.name not in ELSEWHERE else []):
            if block.startswith("# faces.py\n"):  # wants models for faces, and photos of people
                continue
            yield pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")


@pytest.fixture
def _margins_as_they_were():
    """Without CONTRIBUTING's margin, which whoever follows that page has already."""
    before = {name: MARGINS[name] for name in MARGINS.names()}
    MARGINS.remove("halfway")
    yield
    MARGINS.remove("halfway")
    if "halfway" in before:
        MARGINS.add("halfway", before["halfway"])
    assert {name: MARGINS[name] for name in MARGINS.names()} == before


@pytest.mark.usefixtures("_margins_as_they_were")
@pytest.mark.parametrize("block", list(blocks()))
def test_code_runs(block, tmp_path, monkeypatch):
    """In a folder with the runs and images that it loads; long trainings are shortened."""
    monkeypatch.chdir(tmp_path)
    for path in RUN.findall(block):
        random_run(tmp_path / path)
    for shade, name in enumerate(PICTURE.findall(block)):
        Image.linear_gradient("L").resize((40 + shade, 60)).save(tmp_path / name)
    code = re.sub(r"epochs=\d+", "epochs=1", block)
    exec(compile(code, "document", "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
    for path in PATH.findall(page.read_text(encoding="utf-8")):
        assert "NAME" in path or (ROOT / path).exists(), f"{page.name} names {path}"


def test_contributing_names_what_is_there():
    """Every path, NAME aside, and every function or class that stands behind one in its row."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.partition("## Where is what")[2].partition("\n## ")[0]
    rows = [re.findall(r"`([^`]+)`", line) for line in table.splitlines() if line.startswith("|")]
    files: list[Path] = []
    for words in rows:
        for word in words:
            if "/" in word:
                files.append(ROOT / (word if "NAME" not in word else Path(word).parent))
                assert files[-1].exists(), word
            elif word.endswith(".py"):
                assert (ROOT / files[-1].parent / word).exists() or any(
                    (folder / word).exists() for folder in files
                ), word
            elif word.isidentifier() and files[-1].is_file():
                source = files[-1].read_text(encoding="utf-8")
                assert re.search(rf"^ *(?:def|class) {word}\b|^{word}\b", source, re.M), word
    assert len(files) > 20


def test_the_picture_of_the_layers_is_what_import_linter_enforces():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    drawn = (ROOT / "docs" / "pictures" / "house.svg").read_text(encoding="utf-8")
    height = {
        word: float(y)
        for y, words in re.findall(
            r'<text x="[^"]+" y="([^"]+)"[^>]*font-family="ui-mono[^>]*>([^<]+)<', drawn
        )
        for word in words.split()
    }
    floors = [[height[name] for name in re.findall(r"\w+", layer)] for layer in contract["layers"]]
    for above, below in itertools.pairwise(floors[:-1]):  # errors stand with the other small tools
        assert max(above) <= min(below)
    assert floors[-1][0] == max(floors[-2])

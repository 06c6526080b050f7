"""The Python in README and docs runs as it stands there, and links lead somewhere."""

import re
from pathlib import Path

import pytest
from PIL import Image

from arcset.margins import MARGINS
from support.random_runs import random_run, with_thresholds

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUN = re.compile(r"Recognizer\.load\(\"(.+?)\"\)")
PICTURE = re.compile(r"\"([\w-]+\.(?:jpg|png))\"")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def blocks():
    for page in PAGES:
        for number, block in enumerate(CODE.findall(page.read_text(encoding="utf-8"))):
            yield pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")


@pytest.mark.parametrize("block", list(blocks()))
def test_code_runs(block, tmp_path, monkeypatch):
    """In a folder with the runs and images that it loads; long trainings are shortened."""
    monkeypatch.chdir(tmp_path)
    for path in RUN.findall(block):
        with_thresholds(random_run(tmp_path / path))
    for shade, name in enumerate(PICTURE.findall(block)):
        Image.linear_gradient("L").resize((40 + shade, 60)).save(tmp_path / name)
    MARGINS.names()  # all loaded, so that what the block registers is all that is taken out again
    monkeypatch.setattr(MARGINS, "_entries", {**MARGINS._entries})
    MARGINS.remove("halfway")  # whoever follows CONTRIBUTING.md has it already
    code = re.sub(r"epochs=\d+", "epochs=1", block)
    assert compile(code, "document", "exec")
    exec(code, {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"

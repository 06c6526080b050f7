"""docs/guides/serve.md: every command in it runs against a real server, in its order."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from arcset import Gallery
from arcset.cli.app import app
from arcset.service.errors import STATUS
from support.servers import added_key, pattern, served, small_gallery

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "serve.md"
ADDRESS = "http://127.0.0.1:8321"
CURLS = 22  # in the guide, at least: so that none is missed


def blocks(kind):
    text = GUIDE.read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands():
    """Each with the lines that it goes on in, without remarks."""
    lines = "".join(blocks("sh")).replace("\\\n", " ").splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with what the guide speaks of, and a server, which has no key at first."""
    folder = tmp_path_factory.mktemp("guide")
    path = small_gallery(folder, ["anna", "ben", "chris"])
    for name, who, number in (
        ("visitor", "anna", 10),
        ("stranger", "stranger", 0),
        ("zoe-1", "zoe", 0),
        ("zoe-2", "zoe", 1),
        ("zoe-3", "zoe", 2),
        ("carla-1", "carla", 0),
        ("carla-2", "carla", 1),
    ):
        shutil.copy(pattern(folder / "probes", who, number), folder / f"{name}.png")
    (folder / ".curlrc").write_text("silent\nshow-error\nfail-with-body\n")
    with served(path) as server:
        yield folder, server


@pytest.mark.long  # most of them are processes that import everything
@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_every_command(place):
    folder, server = place
    environment = {
        **os.environ,
        "CURL_HOME": str(folder),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    count, said = 0, {}
    for command in commands():
        if command.startswith("sqlite3") and not shutil.which("sqlite3"):
            continue
        done = subprocess.run(
            ["bash", "-c", command.replace(ADDRESS, server.url)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        if command.startswith("curl"):
            count += 1
            if " -o " not in command and "/metrics" not in command:
                said[command] = json.loads(done.stdout)
        if count == 1 and "KEY" not in environment:  # the running server notices
            environment["KEY"] = server.key = added_key(folder / "people.db", "write")
    assert count >= CURLS
    first, *_ = said.values()
    assert first["results"][0]["subject"] == "anna"
    assert (folder / "thumbnail.png").read_bytes()[:4] == b"\x89PNG"
    assert server.get("/v1/subjects/zoe").code == "no_such_subject"
    for copy in ("people-copy.db", "people-small.db"):
        if shutil.which("sqlite3"):
            with Gallery.open(folder / copy) as gallery:
                assert {one.name for one in gallery.subjects()} == {"anna", "ben", "chris"}
                assert gallery.sample_count == 5
    assert (folder / "people.parquet").stat().st_size > 0


def test_the_python(place, monkeypatch, capsys):
    folder, server = place
    monkeypatch.chdir(folder)
    if server.key:
        monkeypatch.setenv("KEY", server.key)
    (block,) = blocks("py")
    exec(compile(block.replace(ADDRESS, server.url), "guide", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("anna 0.9")
    assert lines[1].startswith("carla 2 ")
    assert lines[2].startswith("different")
    assert lines[3].startswith("no_such_subject ")


def test_every_code_and_limit_is_explained(place):
    text = GUIDE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d, ]+) \| (`[`\w, ]+`) \|", text, re.MULTILINE)
    assert {code for _, told in rows for code in re.findall(r"\w+", told)} == STATUS.keys()
    document = place[1].get("/openapi.json").json()
    operations = [one for methods in document["paths"].values() for one in methods.values()]
    answered = {status for one in operations for status in one["responses"] if status >= "400"}
    assert {status for told, _ in rows for status in told.split(", ")} == answered
    usual = place[1].get("/v1/gallery").json()["limits"]
    options = typer.main.get_command(app).commands["serve"].params
    arrival = next(one.default for one in options if "--body-seconds" in one.opts)
    for line in (
        f"| `--max-body` | {usual['max_body'] >> 20} MB ",
        f"| `--max-pixels` | {usual['max_pixels'] // 1_000_000} million ",
        f"| `--max-images` | {usual['max_images']} ",
        f"| `--max-requests` | {usual['max_requests']} ",
        f"| `--body-seconds` | {arrival:g} s ",
    ):
        assert line in text


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_the_unit(tmp_path):
    """systemd understands every line, and finds it well protected."""
    (unit,) = blocks("ini")
    known = unit.replace("/opt/arcset/bin/arcset", sys.executable).replace(
        "User=arcset", "User=root"
    )
    (tmp_path / "arcset.service").write_text(known)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "arcset.service")]
    done = subprocess.run(command, capture_output=True, text=True)
    mine = [line for line in done.stderr.splitlines() if "arcset.service" in line]
    assert not mine, mine

"""What the documentation shows is what happens: its code runs, its commands parse, its recipes decode, its links lead
somewhere, and its generated pages are those that would be generated now."""

from __future__ import annotations

import doctest
import importlib.util
import io
import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from riverrun.cli.commands import Command
from riverrun.cli.main import run
from riverrun.config import decode_recipe

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md"])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
TREEBANK = Path(str(resources.files("riverrun"))) / "bundled" / "mini-treebank"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`(riverrun [^`]+)`(?!`)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    line: int


def blocks(page: Path, *languages: str) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = [Block(m[1], m[2], text.count("\n", 0, m.start()) + 2) for m in FENCE.finditer(text)]
    return [block for block in found if block.language in languages]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def commands(text: str) -> Iterator[str]:
    """The calls of riverrun in lines of a shell, without what is piped in and where the output goes."""
    for line in text.replace("\\\n", " ").splitlines():
        for part in line.split(" | "):
            if part.startswith("riverrun "):
                yield part.split(" > ")[0].split(" 2>")[0]


def parses(command: str) -> None:
    """A SystemExit, which is no test's success, where the command line is wrong."""
    import tyro
    from tyro.conf import FlagCreatePairsOff, OmitSubcommandPrefixes

    tyro.cli(Command, args=shlex.split(command)[1:], config=(OmitSubcommandPrefixes, FlagCreatePairsOff))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the first sentences of the miniature treebank, in which the blocks of a page run."""
    for part, sentences in (("train", 60), ("dev", 20), ("test", 20)):
        found = (TREEBANK / f"{part}.conllu").read_text(encoding="utf-8").split("\n\n")[:sentences]
        (tmp_path / f"{part}.conllu").write_text("\n\n".join(found) + "\n\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # for modules that a page writes
    return tmp_path


def short(arguments: list[str]) -> list[str]:
    """The same command with a small net and few steps: a test is not a training."""
    if arguments[0] != "train":
        return arguments
    small = ("train.steps=2", "model.encoder.hidden=8", "model.words.size=8", "train.device=cpu")
    return [*arguments, *(part for setting in small for part in ("--set", setting))]


def execute(page: Path, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of Python, and every command of riverrun, of a page, in their order and in one folder."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page, "python", "sh"):
        where = f"{page.name}:{block.line}"
        if block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                given = re.match(r"echo [\"'](.*)[\"'] \| ", line)
                for command in commands(line):
                    if given:
                        typed = io.TextIOWrapper(io.BytesIO(f"{given[1]}\n".encode()), encoding="utf-8")
                        monkeypatch.setattr(sys, "stdin", typed)
                    assert run(short(shlex.split(command)[1:])) == 0, f"{where}: {command}\n{capsys.readouterr().err}"
        elif block.text.startswith(">>> "):
            test = doctest.DocTestParser().get_doctest(block.text, names, where, str(page), block.line - 1)
            said = io.StringIO()
            doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=said.write, clear_globs=False)
            assert not said.getvalue(), said.getvalue()
            names.update(test.globs)
        else:
            # A block that names its file in the first line is a module that later blocks import.
            if named := re.match(r"# (\w+)\.py\n", block.text):
                (here / f"{named[1]}.py").write_text(block.text, encoding="utf-8")
            exec(compile(block.text, where, "exec"), names)


@pytest.mark.train
@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_code_of_a_page_runs(page, here, capsys, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    if page.stem == "recipes":  # its commands are about files that are not here; they are parsed below
        monkeypatch.setattr(sys.modules[__name__], "run", lambda arguments: 0)
    execute(page, here, capsys, monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_parses(page):
    for block in blocks(page, "sh", "console"):
        for command in commands(block.text):
            parses(command)
    for command in INLINE.findall(prose(page)):
        # In a sentence a verb may stand alone.
        verb = shlex.split(command)[1]
        assert verb in VERBS, command
        if len(shlex.split(command)) > 2 and verb != "data":
            parses(command)


VERBS = {"demo", "train", "evaluate", "predict", "export", "data", "recipes", "models", "doctor"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_recipe_decodes(page):
    for block in blocks(page, "toml"):
        decode_recipe(tomllib.loads(block.text), source=f"{page.name}:{block.line}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page):
    for link in LINK.findall(prose(page)):
        if re.match(r"https?://|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {link}"


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_says_what_it_is(page):
    for block in blocks(page, ""):
        pytest.fail(f"{page.name}:{block.line}: a block without a language is checked by nothing; write text, sh, ...")


@pytest.mark.train
def test_generated_pages_are_up_to_date():
    pytest.importorskip("torch")
    pytest.importorskip("numba")
    spec = importlib.util.spec_from_file_location("build", ROOT / "docs" / "build.py")
    assert spec is not None and spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    for path, text in build.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is not what `make docs` writes; run it"


@pytest.mark.train
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_example_runs(example, here, capsys, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(sys, "argv", [example.name, "--short"] if example.stem == "train_tagger" else [example.name])
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_every_page_and_example_is_on_the_map():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert all(f"]({page.name}" in index for page in PAGES if page.name not in ("index.md", "CONTRIBUTING.md"))
    assert "](../CONTRIBUTING.md)" in index
    assert all(f"](../examples/{example.name})" in index for example in EXAMPLES)

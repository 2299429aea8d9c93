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
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from riverrun.cli.commands import VERBS, parse
from riverrun.cli.main import run
from riverrun.config import decode_recipe, load_recipe
from riverrun.text.formats import read_conllu, write_conllu

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md"])
SHOWN = [*PAGES, ROOT / "README.md"]  # its code is run where its models are: commands and recipes are checked here
NOT_RUN = ("CONTRIBUTING.md", "results.md")  # they set up an installation, or take hours and data sets
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BUNDLED = Path(str(resources.files("riverrun"))) / "bundled"
TREEBANK, PLAYS = BUNDLED / "mini-treebank", BUNDLED / "mini-shakespeare" / "plays.txt"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`(riverrun [^`]+)`(?!`)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMES = {name.split()[0] for name in VERBS}
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
            part = part.strip().removeprefix("python -m ")
            if part.startswith("riverrun "):
                yield part.split(" > ")[0].split(" 2>")[0]


def parses(command: str) -> None:
    """A SystemExit where the command line is wrong."""
    parse(shlex.split(command, comments=True)[1:])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which the blocks of a page run: the first sentences of the miniature treebank, as CoNLL-U and, with
    its names as spans, in four columns; the first lines of some plays; and minimal pairs."""
    for part, sentences in (("train", 60), ("dev", 20), ("test", 20)):
        found = list(islice(read_conllu(TREEBANK / f"{part}.conllu"), sentences))
        write_conllu(tmp_path / f"{part}.conllu", found)
        with (tmp_path / f"{part}.conll").open("w", encoding="utf-8") as file:
            for sentence in found:
                for form, tag in zip(sentence.forms, sentence.column("upos"), strict=True):
                    file.write(f"{form} _ {tag} {'B-NAME' if tag == 'PROPN' else 'O'}\n")
                file.write("\n")
    lines = PLAYS.read_text(encoding="utf-8").splitlines(keepends=True)
    for name, some in (("train.txt", lines[:400]), ("dev.txt", lines[400:440]), ("book.txt", lines[:200])):
        (tmp_path / name).write_text("".join(some), encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("Speak, speak.\tSpeaks, speak.\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # for the modules that a page writes
    modules = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - modules:
        if (tmp_path / f"{name}.py").is_file():
            del sys.modules[name]


def short(arguments: list[str]) -> list[str]:
    """The same command with a small net and few steps: a test is not a training."""
    if arguments[:1] != ["train"]:
        return arguments
    if not load_recipe(arguments[1]).by_gradient:
        return arguments
    size = "model.size=8" if arguments[1].startswith("lm/") else "model.words.size=8"
    small = ("train.steps=2", "model.encoder.hidden=8", size, "train.device=cpu")
    return [*arguments, *(part for setting in small for part in ("--set", setting))]


def execute(page: Path, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of Python, and every command of riverrun, of a page, in their order and in one folder."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page, "python", "sh", "toml"):
        where = f"{page.name}:{block.line}"
        if named := re.match(r"# (\w+\.(?:py|toml))\n", block.text):
            (here / named[1]).write_text(block.text, encoding="utf-8")  # what a later block imports or names
        if block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                if given := re.match(r"echo [\"'](.*)[\"'] \| ", line):
                    typed = io.TextIOWrapper(io.BytesIO(f"{given[1]}\n".encode()), encoding="utf-8")
                    monkeypatch.setattr(sys, "stdin", typed)
                for command in commands(line):
                    capsys.readouterr()
                    code = run(short(shlex.split(command)[1:]))
                    said = capsys.readouterr()
                    assert code == 0, f"{where}: {command}\n{said.err}"
                    if target := re.search(r" > (\S+)$", line):
                        (here / target[1]).write_text(said.out, encoding="utf-8")
        elif block.text.startswith(">>> "):
            test = doctest.DocTestParser().get_doctest(block.text, names, where, str(page), block.line - 1)
            wrong = io.StringIO()
            doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=wrong.write, clear_globs=False)
            assert not wrong.getvalue(), wrong.getvalue()
            names.update(test.globs)
        elif block.language == "python":
            exec(compile(block.text, where, "exec"), names)


@pytest.mark.train
@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in NOT_RUN], ids=lambda page: page.stem)
def test_code_of_a_page_runs(page, here, capsys, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    execute(page, here, capsys, monkeypatch)


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.stem)
def test_every_command_parses(page):
    for block in blocks(page, "sh", "console"):
        for command in commands(block.text):
            parses(command)
    for command in INLINE.findall(prose(page)):
        verb, *rest = shlex.split(command)[1:]
        assert verb in {*NAMES, "--help"}, command
        if rest and rest != ["--help"]:  # in a sentence a verb may stand alone
            parses(command)


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.stem)
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
    settings = ["train.steps=2", "train.tokens=128"] if "SETTING" in example.read_text(encoding="utf-8") else []
    monkeypatch.setattr(sys, "argv", [example.name, *settings])
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_every_page_and_example_is_on_the_map():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert all(
        f"]({page.name}" in index for page in PAGES if page.name not in ("index.md", "CONTRIBUTING.md", "results.md")
    )
    assert "](../CONTRIBUTING.md)" in index
    assert all(f"](../examples/{example.name})" in index for example in EXAMPLES)

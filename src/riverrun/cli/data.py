"""``riverrun data``: what a recipe would see in a file, and whether a model's files are still what they were."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from tyro.conf import Positional, arg

from riverrun.cli.options import File, Flag, Model, Name, Text, read_columns
from riverrun.cli.screen import aligned, say_notes
from riverrun.errors import CheckpointError


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Read a file as a tagger would: sizes, tags and their scheme, lengths, unknown words, coverage of vectors."""

    file: Annotated[Positional[str], arg(metavar="FILE", help_behavior_hint="")]
    """A file in CoNLL-U or CoNLL columns."""

    format: Name = None
    """conllu or conll; guessed where it is not given."""

    columns: Text = None
    """Which column holds what, for example "form=0, tag=3"."""

    encoding: Name = None
    """The character encoding, where it is neither UTF-8 nor Latin-1."""

    train: File = None
    """A training file: how many words of FILE are not in it."""

    vectors: File = None
    """A file of word vectors: how many words of FILE have one."""

    json: Flag = False
    """One JSON object."""

    def run(self) -> None:
        """Print the survey."""
        from riverrun.cli import survey

        columns = read_columns(self.columns)
        found = survey.read(self.file, format=self.format, columns=columns, encoding=self.encoding)
        sections = [survey.facts(found), survey.tags(found)]
        if self.train:
            known = survey.read(self.train, format=self.format, columns=columns, encoding=self.encoding)
            sections.append(survey.unknown(found, known))
        if self.vectors:
            sections.append(survey.coverage(found, self.vectors))
        if self.json:
            print(
                msgspec.json.encode({name: value for section in sections for name, value in section.items()}).decode()
            )
        else:
            print("\n\n".join(aligned(survey.rows(section)) for section in sections))
        say_notes(found.notes)


class Verify(msgspec.Struct, frozen=True, kw_only=True):
    """Compare the checksums of a model's files, and of the data it was trained on, with those it was written with."""

    model: Model
    """A model's folder, or the name of a bundled model."""

    def run(self) -> None:
        """Print a line for each file.

        Raises:
            CheckpointError: when a file of the model is not what it was, or a data file was changed.
        """
        from riverrun.tasks import folder

        path = folder.find(self.model)
        config, damaged = folder.compared(path)
        rows = [(str(path / name), "CHANGED" if name in damaged else "same") for name in config.files]
        rows += [(name, _state(Path(name), checksum)) for name, checksum in config.data.items()]
        print(aligned(rows))
        wrong = list(damaged.values())
        changed = [name for name, state in rows[len(config.files) :] if state == "CHANGED"]
        if changed:
            wrong.append(
                f"{', '.join(changed)}: not the data that {path} was trained on; its checksum is another one. "
                "Find the file as it was, or train again"
            )
        if wrong:
            raise CheckpointError("\n".join(wrong))


def _state(file: Path, checksum: str) -> str:
    """What became of a data file; one that is not here says nothing about the model."""
    from riverrun.text.sources import sha256

    if not file.is_file():
        return "not here"
    return "same" if sha256(file) == checksum else "CHANGED"

"""``riverrun score``: the probability of each line."""

from __future__ import annotations

import msgspec

from riverrun.cli.options import Flag, Input, Model, Name, Number
from riverrun.cli.screen import say_notes


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """Write the natural logarithm of the probability of each line, the end of the line included."""

    model: Model
    """A language model's folder."""

    file: Input = "-"
    """What to read; - is stdin. .gz and .zst are read."""

    tokens: Flag = False
    """A line for each symbol, symbol and logarithm, and an empty one behind each line of the file."""

    encoding: Name = None
    """The character encoding of FILE, for example latin-1; found out where it is not given."""

    json: Flag = False
    """One JSON object a line."""

    threads: Number = None
    """CPU threads."""

    def run(self) -> None:
        """Read and write, a part at a time."""
        from riverrun.tasks.language_model import LanguageModel
        from riverrun.text.formats import read_lines

        model = LanguageModel.load(self.model, threads=self.threads)
        for symbols in model.score_symbols(read_lines(self.file, encoding=self.encoding, notes=model.notes)):
            total = sum(score for _, score in symbols)
            if self.json:
                line = {"log_prob": total, **({"tokens": symbols} if self.tokens else {})}
                print(msgspec.json.encode(line).decode())
            elif self.tokens:
                print("".join(f"{shown(symbol)}\t{score:.6f}\n" for symbol, score in symbols))
            else:
                print(f"{total:.6f}")
        say_notes(model.notes)


def shown(symbol: str) -> str:
    """A symbol that takes one line and one column.

    >>> shown("a"), shown("\\n")
    ('a', '\\\\n')
    """
    return symbol.encode("unicode_escape").decode() if symbol in "\t\n\r\\" else symbol

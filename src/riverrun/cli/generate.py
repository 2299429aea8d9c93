"""``riverrun generate``: a language model writes."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from riverrun.cli.options import File, Flag, Fraction, Model, Number, Texts
from riverrun.cli.screen import say, say_notes
from riverrun.errors import ConfigError

if TYPE_CHECKING:
    from riverrun.tasks.writing import Writing


class Generate(msgspec.Struct, frozen=True, kw_only=True):
    """Let a language model write. One text is shown as it is written; of several, each when it is whole."""

    model: Model
    """A language model's folder."""

    prompt: str = ""
    """How the text begins."""

    strategy: Literal["greedy", "sample", "top-k", "top-p", "min-p", "typical", "beam"] = "sample"
    """How the next symbol is chosen."""

    temperature: float = 1.0
    """Below 1 the likely becomes likelier; 0 is greedy."""

    k: int = 40
    """Symbols that top-k leaves."""

    p: Fraction = None
    """The mass that top-p (0.9) and typical (0.95) leave; of min-p (0.05), the share of the likeliest symbol's
    probability."""

    beam: int = 8
    """Hypotheses of beam."""

    length: int = 200
    """Symbols to write, at most."""

    n: int = 1
    """How many texts, in one batch."""

    stop: Texts = ()
    """End before this text; may be given again and again."""

    repetition: float = 1.0
    """Raise the probability of what was written before to this power (Keskar et al. 2019); 1 does nothing."""

    no_repeat: Number = None
    """Never write so many symbols in a row twice."""

    past_end: Flag = False
    """Go on behind the end of a line, where the model knows one."""

    seed: Number = None
    """The same seed gives the same text; one is drawn, and said, where it is not given."""

    stream: File = None
    """Go on from a stream that was saved."""

    save: File = None
    """Save the stream behind the text, to go on from it later."""

    json: Flag = False
    """One JSON object a text."""

    threads: Number = None
    """CPU threads."""

    def run(self) -> None:
        """Load the model, let it write, say the seed."""
        from riverrun.tasks.language_model import LanguageModel

        model = LanguageModel.load(self.model, threads=self.threads)
        if self.save and self.n != 1:
            raise ConfigError(f"--save: a stream of one text is saved, received --n {self.n}")
        seed = secrets.randbelow(1 << 32) if self.seed is None else self.seed
        writing = model.generate(
            self.prompt,
            stream=model.load_stream(self.stream) if self.stream else None,
            strategy=self.strategy,
            temperature=self.temperature,
            k=self.k,
            p=self.p,
            beam=self.beam,
            length=self.length,
            n=self.n,
            stop=self.stop,
            repetition=self.repetition,
            no_repeat=self.no_repeat,
            past_end=self.past_end,
            seed=seed,
        )
        self._show(writing, seed)
        if self.save:
            model.save_stream(writing.stream, Path(self.save))
        if self.seed is None and self.strategy not in ("greedy", "beam"):
            say(f"Again: --seed {seed}")
        say_notes(model.notes)

    def _show(self, writing: Writing, seed: int) -> None:
        if self.json:
            texts, scores = [""] * writing.rows, [0.0] * writing.rows
            for piece in writing:
                texts[piece.row] += piece.text
                scores[piece.row] += piece.log_prob
            for text, score in zip(texts, scores, strict=True):
                line = {"prompt": self.prompt, "text": text, "log_prob": score, "seed": seed}
                print(msgspec.json.encode(line).decode(), flush=True)
        elif writing.rows == 1:
            print(self.prompt, end="", flush=True)
            for piece in writing:
                print(piece.text, end="", flush=True)
            print()
        else:
            for text in writing.texts():
                print(self.prompt + text, flush=True)

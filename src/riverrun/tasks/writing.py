"""How a model writes: what a user asks for in terms of the decoder, and the text as it comes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import msgspec
import numpy as np

from riverrun.data.padded import Padded
from riverrun.decode.beam import beam_search
from riverrun.decode.filters import Filter, compose
from riverrun.decode.generate import Generation, generate
from riverrun.decode.repetition import control
from riverrun.decode.step import StepModel
from riverrun.decode.stream import Stream
from riverrun.errors import ConfigError, nearest
from riverrun.text.units import AnyUnits

Strategy = Literal["greedy", "sample", "top-k", "top-p", "min-p", "typical", "beam"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)

_USUAL_P = {"top-p": 0.9, "min-p": 0.05, "typical": 0.95}


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """How a text is to be written.

    Args:
        strategy: how the next symbol is chosen.
        temperature: below 1 the likely becomes likelier; 0 is greedy.
        k: symbols that ``top-k`` leaves.
        p: the mass that ``top-p`` and ``typical`` leave; of ``min-p``, the share of the likeliest one's probability.
        beam: hypotheses of ``beam``.
        length: symbols to write, at most.
        n: how many texts, in one batch.
        stop: strings that end a text and are no part of it.
        repetition: the power to which the probability of what was written before is raised; 1 does nothing.
        no_repeat: never write an n-gram of this length twice.
        past_end: go on behind the end of a line.
        seed: the same seed gives the same text.
    """

    strategy: Strategy = "sample"
    temperature: float = 1.0
    k: int = 40
    p: float | None = None
    beam: int = 8
    length: int = 200
    n: int = 1
    stop: tuple[str, ...] = ()
    repetition: float = 1.0
    no_repeat: int | None = None
    past_end: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ConfigError(
                f"strategy: expected one of {', '.join(STRATEGIES)}, received '{self.strategy}'"
                f"{nearest(self.strategy, STRATEGIES)}"
            )
        if self.n < 1:
            raise ConfigError(f"n: expected a number of texts, at least 1, received {self.n}")
        if self.length < 1:
            raise ConfigError(f"length: expected a number of symbols, at least 1, received {self.length}")
        if self.p is not None and self.strategy not in _USUAL_P:
            raise ConfigError(f"p: belongs to {', '.join(_USUAL_P)}, received strategy '{self.strategy}'; remove it")
        if self.strategy == "beam" and self.n > self.beam:
            raise ConfigError(f"n: a beam of {self.beam} finds at most as many texts, received {self.n}")
        if self.strategy == "beam" and (self.stop or self.past_end):
            raise ConfigError("stop, past_end: a beam weighs whole texts, as the model ends them; remove them")

    @property
    def filter(self) -> Filter:
        """Which symbols may be drawn."""
        p = _USUAL_P.get(self.strategy) if self.p is None else self.p
        return compose(
            temperature=self.temperature,
            top_k=self.k if self.strategy == "top-k" else None,
            top_p=p if self.strategy == "top-p" else None,
            min_p=p if self.strategy == "min-p" else None,
            typical=p if self.strategy == "typical" else None,
        )


class Piece(msgspec.Struct, frozen=True):
    """Some text that was written: of which text, what, its natural logarithm, and whether it is the end."""

    row: int
    text: str
    log_prob: float
    last: bool


class Writing(Iterator[Piece]):
    """A text as it is written; iterate to see it come, or ask for all of it.

    Attributes:
        rows: how many texts there are.
    """

    def __init__(self, model: StepModel, units: AnyUnits, stream: Stream, prompt: list[int], wish: Wish) -> None:
        self.rows = wish.n
        self._generation: Generation | None = None
        self._pieces: Iterator[Piece]
        given = Padded(np.array([prompt], np.int64).reshape(1, len(prompt)), np.array([len(prompt)]))
        controlled = wish.repetition != 1 or wish.no_repeat is not None
        against = control(penalty=wish.repetition, no_repeat=wish.no_repeat) if controlled else None
        if wish.strategy == "beam":
            (found,) = beam_search(
                model, stream, width=wish.beam, limit=wish.length, best=wish.n, prompt=given, control=against
            )
            self.rows = len(found)
            self._pieces = (
                Piece(row, _text(units, prompt, each.ids), each.log_prob, True) for row, each in enumerate(found)
            )
            return
        self._generation = generate(
            model,
            stream,
            limit=wish.length,
            seed=None if wish.strategy == "greedy" else wish.seed,
            samples=wish.n,
            prompt=given,
            filter=wish.filter,
            control=against,
            past_eos=wish.past_end,
            pieces=units.pieces,
            stops=wish.stop,
        )
        self._pieces = (
            Piece(symbol.row, symbol.text, symbol.log_prob, symbol.end is not None) for symbol in self._generation
        )

    def __next__(self) -> Piece:
        return next(self._pieces)

    @property
    def stream(self) -> Stream:
        """Where the texts are now, to go on from."""
        if self._generation is None:
            raise ConfigError("a beam has no stream to go on from; feed the text that it found")
        return self._generation.stream

    def texts(self) -> list[str]:
        """Everything from here to the end."""
        found = [""] * self.rows
        for piece in self:
            found[piece.row] += piece.text
        return found


def _text(units: AnyUnits, before: list[int], ids: tuple[int, ...]) -> str:
    """The text of some symbols behind others, with which a word or a character may have begun."""
    pieces = units.pieces()
    for id in before:
        pieces.feed(id)
    return "".join(map(pieces.feed, ids)) + pieces.rest()

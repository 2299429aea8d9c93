"""Text that ends at a string: symbols come in, and what can no longer become a part of that string goes out."""

from __future__ import annotations

from collections.abc import Sequence

from riverrun.errors import ConfigError


class StopText:
    """Lets text through up to the first of some strings, which may come in any number of pieces.

    It ends at the string that is complete first; of several that are complete at the same character, at the longest
    one. Neither the string nor what follows it is let through. So it does not matter how the text was cut.

    >>> text = StopText(["END"])
    >>> [text.feed(piece) for piece in ("a", "bE", "N", "X", "EN", "D!")], text.stopped
    (['a', 'b', '', 'ENX', '', ''], True)
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if isinstance(stops, str) or not all(isinstance(stop, str) and stop for stop in stops):
            raise ConfigError(f"stops: expected a list of strings that are not empty, received {stops!r}")
        self._stops = sorted(stops, key=len, reverse=True)
        self._held = ""
        self.stopped = False

    def feed(self, piece: str) -> str:
        """The text that is certain now; nothing after a stop."""
        if self.stopped:
            return ""
        through: list[str] = []
        for character in piece:
            self._held += character
            complete = next((stop for stop in self._stops if self._held.endswith(stop)), None)
            if complete is not None:
                self.stopped = True
                through.append(self._held[: -len(complete)])
                self._held = ""
                break
            keep = self._beginning()
            through.append(self._held[: len(self._held) - keep])
            self._held = self._held[len(self._held) - keep :]
        return "".join(through)

    def rest(self) -> str:
        """What was held back, where no more text comes."""
        rest, self._held = self._held, ""
        return rest

    def _beginning(self) -> int:
        """How many characters at the end of the held text may be the beginning of a stop."""
        longest = min(len(self._held), max(map(len, self._stops), default=1) - 1)
        return next(
            (n for n in range(longest, 0, -1) if any(stop.startswith(self._held[-n:]) for stop in self._stops)), 0
        )

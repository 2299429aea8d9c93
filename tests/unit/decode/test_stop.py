"""Stop strings, however the text is cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.decode.stop import StopText
from riverrun.errors import ConfigError


def whole(text: str, stops: list[str]) -> tuple[str, bool]:
    """What is let through of a text that is seen at once."""
    for end in range(len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            return text[: end - max(map(len, complete))], True
    return text, False


def fed(pieces: list[str], stops: list[str]) -> tuple[str, bool]:
    stop = StopText(stops)
    return "".join([stop.feed(piece) for piece in pieces]) + stop.rest(), stop.stopped


@given(st.text("ab", max_size=14), st.lists(st.text("ab", min_size=1, max_size=5), max_size=4), st.data())
def test_how_the_text_is_cut_does_not_matter(text: str, stops: list[str], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert fed(pieces, stops) == fed(list(text), stops) == whole(text, stops)


def test_every_pair_of_short_stops_on_every_short_text() -> None:
    words = ["".join(letters) for n in (1, 2, 3, 4) for letters in itertools.product("ab", repeat=n)]
    for pair in itertools.permutations(words[:14], 2):
        for text in words:
            assert fed(list(text), [*pair]) == whole(text, [*pair])


@given(st.text("ab", max_size=14), st.lists(st.text("ab", min_size=1, max_size=5), max_size=4))
def test_only_what_may_become_a_stop_is_held_back(text: str, stops: list[str]) -> None:
    """What was let through so far is as much as any continuation allows."""
    stop, shown = StopText(stops), ""
    for n, character in enumerate(text, start=1):
        shown += stop.feed(character)
        if stop.stopped:
            return
        rest = text[:n][len(shown) :]
        assert text.startswith(shown)
        assert rest == "" or any(each.startswith(rest) for each in stops)


def test_nothing_comes_after_a_stop() -> None:
    stop = StopText(["\n\n"])
    assert [stop.feed(piece) for piece in ("one\n", "\ntwo", "three")] == ["one", "", ""]
    assert stop.stopped
    assert stop.rest() == ""


def test_without_stops_all_goes_through() -> None:
    stop = StopText([])
    assert (stop.feed("abc"), stop.rest(), stop.stopped) == ("abc", "", False)


@pytest.mark.parametrize("stops", ["END", [""], ["a", ""], [3]])
def test_stops_that_are_none_are_refused(stops: object) -> None:
    with pytest.raises(ConfigError, match="stops: expected a list of strings that are not empty, received "):
        StopText(stops)  # type: ignore[arg-type]

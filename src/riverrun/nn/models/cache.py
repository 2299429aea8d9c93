"""A language net that remembers where it was when it met a symbol, and expects the symbol when it is there again."""

from __future__ import annotations

import torch
from torch import Tensor

from riverrun.data.batch import Batch
from riverrun.data.padded import Array, Padded
from riverrun.decode.state import State
from riverrun.decode.step import Step
from riverrun.errors import ConfigError
from riverrun.nn.models.stepper import NetStepper

KEYS, SYMBOLS, LAST, BEGUN = "cache.keys", "cache.symbols", "cache.last", "cache.begun"
"""The names in a state: vectors (B, K, window, H) and the symbols that came after them (B, K, window), the latest last,
-1 where there is none; the vector (B, K, H) whose symbol is the next one read, and whether there is one (B, K)."""

_SCORES = 1 << 22
"""How many inner products are held at a time when texts are scored."""


class CachedStepper:
    r"""The continuous cache (Grave et al. 2017b), as a step model around another one.

    .. math::
        p(v) = (1 - \lambda)\, p_{\mathrm{net}}(v \mid h_t) + \lambda\, p_{\mathrm{cache}}(v) \qquad
        p_{\mathrm{cache}}(v) \propto \sum_{i = t - \mathrm{window}}^{t - 1} [w_{i+1} = v]\, \exp(\theta\, h_t^\top h_i)

    While nothing is in the cache, and where ``window`` or ``share`` is 0, it is the net alone.

    Args:
        model: the net as a step model.
        window: how many positions are remembered.
        theta: how strongly near vectors are preferred.
        share: lambda.

    >>> from riverrun.nn.layers.embed import Embedding
    >>> from riverrun.nn.layers.full_softmax import FullSoftmax
    >>> from riverrun.nn.models.window_lm import WindowLM
    >>> plain = NetStepper(WindowLM(Embedding(9, 4), 3, 5, FullSoftmax(5, 9), bos=0).eval(), bos=0)
    >>> model = CachedStepper(plain, window=4, theta=1.0, share=0.5)
    >>> text = Padded(torch.tensor([[0, 7, 7, 7]]), torch.tensor([4]))
    >>> found, expected = (each.score(text, each.start())[0][0] for each in (model, plain))
    >>> bool(found[0] == expected[0]), bool(found[2] > expected[2])
    (True, True)
    """

    def __init__(self, model: NetStepper, *, window: int, theta: float, share: float) -> None:
        if window < 0 or not 0 <= share < 1:
            raise ConfigError(
                f"cache: expected a window from 0 on and a share from 0 to below 1, received {window} and {share}"
            )
        self.model, self.window, self.theta, self.share = model, window, theta, share
        self.size, self.bos, self.eos = model.size, model.bos, model.eos

    @property
    def _off(self) -> bool:
        return not self.window or not self.share

    def start(self, source: Batch | None = None, *, rows: int = 1) -> State:
        """The state that has read nothing, with an empty cache."""
        state = self.model.start(source, rows=rows)
        if self._off:
            return state
        width, device = self.model.net.output.features, self.model.device
        dtype = next(self.model.net.parameters()).dtype  # type: ignore[attr-defined]
        empty = {
            KEYS: torch.zeros((rows, 1, self.window, width), dtype=dtype, device=device),
            SYMBOLS: torch.full((rows, 1, self.window), -1, device=device),
            LAST: torch.zeros((rows, 1, width), dtype=dtype, device=device),
            BEGUN: torch.zeros((rows, 1), dtype=torch.bool, device=device),
        }
        return State(state.fixed, {**state.moving, **empty})

    @torch.no_grad()
    def step(self, ids: Array, state: State) -> Step:
        """Read one symbol of each hypothesis, (B, K)."""
        inner, cache = _parts(state)
        found = self.model.step(ids, inner)
        if self._off:
            return found
        hidden = found.extras["hidden"]
        read = torch.as_tensor(ids, device=hidden.device).long()
        # The vector of the step before has its symbol now.
        keys = torch.cat([cache[KEYS], cache[LAST].unsqueeze(2)], 2)[:, :, 1:]
        symbols = torch.cat([cache[SYMBOLS], torch.where(cache[BEGUN], read, -1).unsqueeze(2)], 2)[:, :, 1:]
        weights = _shares(self.theta * (keys @ hidden.unsqueeze(3)).squeeze(3), symbols >= 0)
        cached = torch.zeros_like(found.log_probs).scatter_add_(2, symbols.clamp(min=0), weights)
        log_probs = self._mixed(found.log_probs, cached, (symbols >= 0).any(2, keepdim=True))
        new = {KEYS: keys, SYMBOLS: symbols, LAST: hidden, BEGUN: torch.ones_like(cache[BEGUN])}
        return Step(log_probs, State(found.state.fixed, {**found.state.moving, **new}), found.extras)

    @torch.no_grad()
    def score(self, ids: Padded, state: State) -> tuple[Tensor, State]:
        """The log probability of each symbol of ``ids`` (B, 1 + T) but the first one of each row."""
        inner, cache = _parts(state)
        if self._off:
            return self.model.score(ids, inner)
        rows, window = len(ids), self.window
        size = max(1, min(window, _SCORES // (2 * window * max(1, rows))))
        scores = []
        first = torch.as_tensor(ids.data[:, :1], device=self.model.device).long()
        for reading, targets, after in self.model.pieces(ids, inner, positions=size * rows):
            plain = self.model.likelihoods(reading, targets)
            hidden, count, steps = reading.vectors.data, targets.lengths, targets.data.shape[1]
            # All that can be remembered in this piece: before it, at its beginning, within it.
            keys = torch.cat([cache[KEYS][:, 0], cache[LAST], hidden], 1)
            pending = torch.where(cache[BEGUN], first, -1)
            symbols = torch.cat([cache[SYMBOLS][:, 0], pending, targets.zeroed().data], 1)
            products = self.theta * hidden @ keys.transpose(1, 2)  # (B, t, window + 1 + t)
            time = torch.arange(steps, device=hidden.device)[:, None]
            place = torch.arange(keys.shape[1], device=hidden.device)
            seen = (place > time) & (place <= time + window) & (symbols >= 0)[:, None]
            weights = _shares(products, seen)
            same = symbols[:, None] == targets.data.unsqueeze(2)
            mixed = self._mixed(plain, (weights * same).sum(2), seen.any(2))
            scores.append(Padded(mixed, count).zeroed().data)
            kept = count[:, None] + torch.arange(window, device=hidden.device)
            ended = (count > 0)[:, None]
            last = hidden.gather(1, (count - 1).clamp(min=0)[:, None, None].expand(-1, 1, hidden.shape[2]))
            cache = {
                KEYS: keys.gather(1, kept.unsqueeze(2).expand(-1, -1, keys.shape[2])).unsqueeze(1),
                SYMBOLS: symbols.gather(1, kept).unsqueeze(1),
                LAST: torch.where(ended.unsqueeze(2), last, cache[LAST]),
                BEGUN: cache[BEGUN] | ended,
            }
            first, inner = targets.data[:, -1:], after
        return self.model.joined(scores, rows), State(inner.fixed, {**inner.moving, **cache})

    def _mixed(self, plain: Tensor, cached: Tensor, some: Tensor) -> Tensor:
        share = torch.tensor(self.share, dtype=plain.dtype, device=plain.device)
        return torch.where(some, torch.logaddexp(plain + torch.log1p(-share), cached.log() + share.log()), plain)


def _shares(scores: Tensor, seen: Tensor) -> Tensor:
    """The softmax over what is seen, along the last axis; zeros where nothing is."""
    return torch.where(seen, scores.masked_fill(~seen, -torch.inf).softmax(-1), 0)


def _parts(state: State) -> tuple[State, dict[str, Tensor]]:
    """The state of the net, and what is remembered beside it."""
    cache = {name: value for name, value in state.moving.items() if name.startswith("cache.")}
    return State(state.fixed, {k: v for k, v in state.moving.items() if k not in cache}), cache

"""From config and a stream of symbols to a model that counts: the only place where they meet."""

from __future__ import annotations

from pathlib import Path

from riverrun.classic.ngram import NGram
from riverrun.classic.snm import SparseNonNegative
from riverrun.config import lm
from riverrun.data.stream import TokenStream
from riverrun.text.units import AnyUnits

# What Kneser-Ney takes off where a text is too small or too regular to estimate it; the model's notes say so.
FALLBACK = (0.5, 1.0, 1.5)


def build_counts(
    model: lm.NGram | lm.SparseNonNegative, stream: TokenStream, units: AnyUnits, *, folder: Path
) -> tuple[NGram | SparseNonNegative, tuple[str, ...]]:
    """Count, and smooth or learn; the model, and what a user should know of how its numbers were found.

    Args:
        stream: the training text.
        units: what it is made of.
        folder: where counts are sorted that do not fit into the memory.
    """
    from riverrun.classic.counts import count
    from riverrun.classic.smoothing import smooth
    from riverrun.classic.snm_training import learn_snm

    if isinstance(model, lm.NGram):
        counts = count(
            stream.ids,
            order=model.order,
            size=units.size,
            bos=units.bos,
            eos=units.eos,
            unknown=units.unknown,
            memory=model.memory,
            folder=folder,
        )
        counted = smooth(
            counts,
            model.smoothing,
            discount=model.discount,
            k=model.k,
            backoff=model.backoff,
            prune=model.prune,
            fallback=FALLBACK,
        )
        return counted, counted.notes
    learned = learn_snm(
        stream.ids,
        size=units.size,
        bos=units.bos,
        eos=units.eos,
        unknown=units.unknown,
        order=model.order,
        skips=model.skips,
        span=model.span,
        rate=model.rate,
        passes=model.passes,
        buckets=model.buckets,
        memory=model.memory,
        folder=folder,
    )
    return learned, ()

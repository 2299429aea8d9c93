"""``riverrun models``: the models that come with riverrun."""

from __future__ import annotations

from pathlib import Path

import msgspec

from riverrun.cli.options import Flag
from riverrun.cli.screen import aligned, say, size


class Models(msgspec.Struct, frozen=True, kw_only=True):
    """List the bundled models: name, task, size, score."""

    json: Flag = False
    """One JSON object a model."""

    def run(self) -> None:
        """Print a line for each model."""
        from riverrun.tasks import folder

        rows = []
        for name, path in folder.bundled().items():
            config = folder.read(path)
            written = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            scores = _scores(path / "metrics.json")
            if self.json:
                entry = {"name": name, "task": config.task, "bytes": written, "metrics": scores}
                print(msgspec.json.encode(entry).decode())
            shown = ", ".join(f"{metric} {value:.4f}" for metric, value in scores.items())
            rows.append((name, config.task, size(written), shown))
        if not rows:
            say("No bundled models in this installation.")
        elif not self.json:
            print(aligned(rows, right=[2]))


def _scores(path: Path) -> dict[str, float]:
    """The scores that a model folder states, none where it states none."""
    if not path.is_file():
        return {}
    return msgspec.json.decode(path.read_bytes(), type=_Scores).metrics


class _Scores(msgspec.Struct):
    """The part of ``metrics.json`` that is printed."""

    metrics: dict[str, float] = msgspec.field(default_factory=dict)

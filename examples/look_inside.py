"""Look into a tagger: what the gates of its LSTM do at each word of a sentence, as a picture made of text.

python examples/look_inside.py FOLDER          a tagger that was trained with an LSTM, and not exported
python examples/look_inside.py [SETTING...]    a small one, trained for a few seconds; for example train.epochs=9
"""

import sys
from importlib.resources import files
from pathlib import Path

import torch

import riverrun

SENTENCE = ["The", "river", "that", "you", "see", "runs", "past", "Eve", "and", "Adam", "'s", "."]
SHADES = " .:-=+*#%@"  # from 0 to 1
SMALL = ["train.epochs=3", "train.rate=0.01", "model.encoder.hidden=24", "model.words.size=32", "model.chars=none"]


def small_tagger(settings: list[str]) -> riverrun.Tagger:
    """A tagger that has seen the miniature treebank a few times."""
    treebank = Path(str(files("riverrun"))) / "bundled" / "mini-treebank"
    tagger = riverrun.Tagger("tagger/upos", settings=[*SMALL, *settings])
    return tagger.fit(treebank / "train.conllu", treebank / "dev.conllu")


def gates_of(tagger: riverrun.Tagger, words: list[str]) -> dict[str, torch.Tensor]:
    """name -> (T, H): the values in the first layer, which reads from left to right."""
    layer = next(part for part in tagger.net.encoder.modules() if isinstance(part, riverrun.Recurrent))
    seen = []
    handle = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    tagger.predict([words])
    handle.remove()
    with torch.no_grad():
        _, _, values = layer.trace(seen[0], names=["i", "f", "o"])
    return {name: value[0] for name, value in values.items()}


def bar(share: float, width: int = 12) -> str:
    """A number from 0 to 1 as a bar."""
    return ("#" * round(share * width)).ljust(width, ".")


arguments = sys.argv[1:]
tagger = riverrun.load(arguments[0]) if arguments and "=" not in arguments[0] else small_tagger(arguments)
(answer,) = tagger.predict([SENTENCE])
gates = gates_of(tagger, SENTENCE)

print("How far the gates are open, the mean over the units:\n")
print(f"{'':14}{'input':14}{'forget':14}output")
for k, (word, tag) in enumerate(zip(answer.forms, answer.tags, strict=True)):
    print(f"{word:7}{tag:7}" + "  ".join(bar(gates[name][k].mean().item()) for name in "ifo"))

print("\nThe forget gate of each unit (a row), word by word; @ keeps, a blank forgets:\n")
for unit in range(min(24, gates["f"].shape[1])):
    row = (SHADES[min(9, int(10 * value))] for value in gates["f"][:, unit].tolist())
    print(f"unit {unit:2}  " + "  ".join(row))

"""The tagger of ``tagger.py`` in flair, by its public interface, in an interpreter that has flair; it obeys on stdin.

The first line is the path of a JSON file with the data and the sizes; then each line is ``train UPDATES`` or
``tag SENTENCES``, and each is answered by a JSON object on a line of stdout, where flair's own log is too.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import flair
import torch
from flair.data import Corpus, Dictionary, Sentence
from flair.datasets import DataLoader, FlairDatapointDataset
from flair.embeddings import CharacterEmbeddings, OneHotEmbeddings, StackedEmbeddings
from flair.models import SequenceTagger
from flair.training_utils import store_embeddings


def sentence(forms: list[str], tags: list[str] | None = None) -> Sentence:
    """A flair sentence with its tags."""
    made = Sentence(forms, use_tokenizer=False)
    for token, tag in zip(made, tags or (), strict=False):
        token.add_label("upos", tag)
    return made


def build(task: dict) -> tuple[SequenceTagger, FlairDatapointDataset]:
    """The net and the training data."""
    data = FlairDatapointDataset([sentence(forms, tags) for forms, tags in task["train"]])
    corpus = Corpus(train=data, dev=data, test=data, name="bench", sample_missing_splits=False)
    sizes = task["sizes"]
    chars = Dictionary()
    for char in sorted({char for forms, _ in task["train"] for form in forms for char in form}):
        chars.add_item(char)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chars"
        chars.save(path)
        spelling = CharacterEmbeddings(str(path), sizes["char"], sizes["spelling"])
    words = OneHotEmbeddings.from_corpus(corpus, min_freq=1, embedding_length=sizes["word"])
    tagger = SequenceTagger(
        StackedEmbeddings([words, spelling]),
        corpus.make_label_dictionary("upos", add_unk=False),
        "upos",
        hidden_size=sizes["hidden"],
        rnn_layers=1,
        use_crf=True,
        reproject_embeddings=False,
        dropout=task["dropout"],
        word_dropout=0.0,
        locked_dropout=0.0,
        tag_format="BIO",
    )
    return tagger, data


def main() -> None:
    """Obey until stdin ends."""
    task = json.loads(Path(sys.stdin.readline().strip()).read_text())
    torch.set_num_threads(task["threads"])
    flair.device = torch.device("cpu")
    flair.set_seed(task["seed"])
    tagger, data = build(task)
    optimizer = torch.optim.Adam(tagger.parameters(), task["rate"], fused=True)
    parameters = sum(weight.numel() for weight in tagger.parameters())
    told = {"version": version("flair"), "torch": torch.__version__, "parameters": parameters}
    print(json.dumps(told), flush=True)
    batches = iter(())
    for line in sys.stdin:
        what, *rest = line.split()
        tokens = 0
        if what == "train":
            tagger.train()
            begin = time.perf_counter()
            for _ in range(int(rest[0])):
                batch = next(batches, None)
                if batch is None:
                    batches = iter(DataLoader(data, batch_size=task["batch"], shuffle=True))
                    batch = next(batches)
                optimizer.zero_grad(set_to_none=True)
                loss, count = tagger.forward_loss(batch)
                (loss / count).backward()
                torch.nn.utils.clip_grad_norm_(tagger.parameters(), 5.0)
                optimizer.step()
                store_embeddings(batch, "none")
                tokens += sum(map(len, batch))
            seconds, right = time.perf_counter() - begin, None
        else:
            tagger.eval()
            part = task["dev"][: int(rest[0])]
            begin = time.perf_counter()
            sentences = [sentence(forms) for forms, _ in part]
            tagger.predict(sentences, mini_batch_size=task["batch"], label_name="found")
            answers = [[token.get_label("found").value for token in made] for made in sentences]
            seconds = time.perf_counter() - begin
            tokens = sum(map(len, answers))
            gold = [tag for _, tags in part for tag in tags]
            found = [tag for tags in answers for tag in tags]
            right = sum(a == b for a, b in zip(gold, found, strict=True)) / tokens
        print(json.dumps({"tokens": tokens, "seconds": seconds, "accuracy": right}), flush=True)


if __name__ == "__main__":
    main()

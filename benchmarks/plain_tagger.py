"""The tagger of ``tagger.py`` as a good loop in plain PyTorch: what riverrun has to be at least as fast as.

What is known to help is done: batches of similar length, padded and never packed (packing takes oneDNN away),
both directions in one call of ``nn.LSTM``, the distinct forms of a batch spelled once, a CRF over the whole batch at a
time with one matrix product a step, fused Adam, ids of the training data computed beforehand. It is allowed what
riverrun is not: padding runs through the recurrences, so a sentence's scores depend a little on its neighbours.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

Pair = tuple[list[str], list[str]]  # forms, tags
LONGEST = 42  # characters of a form, marks included
POSITIONS = 2048  # of a batch to tag, padding included


class Net(nn.Module):
    """Words and spellings -> BiLSTM -> linear-chain CRF."""

    def __init__(self, words: int, chars: int, tags: int, sizes: dict[str, int], dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(words, sizes["word"])
        self.chars = nn.Embedding(chars, sizes["char"], padding_idx=0)
        self.spelling = nn.LSTM(sizes["char"], sizes["spelling"], bidirectional=True, batch_first=True)
        self.encoder = nn.LSTM(
            sizes["word"] + 2 * sizes["spelling"], sizes["hidden"], bidirectional=True, batch_first=True
        )
        self.dropout = nn.Dropout(dropout)
        self.emission = nn.Linear(2 * sizes["hidden"], tags)
        self.transitions = nn.Parameter(torch.zeros(tags, tags))
        self.start = nn.Parameter(torch.zeros(tags))
        self.stop = nn.Parameter(torch.zeros(tags))

    def forward(self, words: Tensor, forms: Tensor, form_lengths: Tensor, index: Tensor) -> Tensor:
        """(B, T) word ids, (U, L) characters of the distinct forms and which form stands where -> (B, T, C)."""
        read, _ = self.spelling(self.chars(forms))
        half = read.shape[2] // 2
        spelled = torch.cat([read[torch.arange(len(forms)), form_lengths - 1, :half], read[:, 0, half:]], 1)
        x = torch.cat([self.words(words), nn.functional.embedding(index, spelled)], 2)
        return self.emission(self.dropout(self.encoder(self.dropout(x))[0]))

    def loss(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """The negative log likelihood, summed over the batch."""
        rows, last = torch.arange(len(tags)), lengths - 1
        mask = torch.arange(tags.shape[1]) < lengths[:, None]
        gold = (emissions.gather(2, tags[..., None])[..., 0] * mask).sum()
        gold = gold + (self.transitions[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]).sum()
        gold = gold + self.start[tags[:, 0]].sum() + self.stop[tags[rows, last]].sum()
        factors = self.transitions.exp()
        alpha = self.start + emissions[:, 0]
        for t in range(1, emissions.shape[1]):
            peak = alpha.detach().max(1, keepdim=True).values
            new = torch.mm((alpha - peak).exp(), factors).log() + peak + emissions[:, t]
            alpha = torch.where(mask[:, t, None], new, alpha)
        return torch.logsumexp(alpha + self.stop, 1).sum() - gold

    def best(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """(B, T), the best path of each row."""
        mask = torch.arange(emissions.shape[1]) < lengths[:, None]
        score = self.start + emissions[:, 0]
        pointers = []
        stay = torch.arange(emissions.shape[2]).expand_as(score)
        for t in range(1, emissions.shape[1]):
            best, pointer = (score[:, :, None] + self.transitions).max(1)
            going = mask[:, t, None]
            score = torch.where(going, best + emissions[:, t], score)
            pointers.append(torch.where(going, pointer, stay))
        tag = (score + self.stop).argmax(1, keepdim=True)
        path = [tag]
        for pointer in reversed(pointers):
            tag = pointer.gather(1, tag)
            path.append(tag)
        return torch.cat(path[::-1], 1)


class Plain:
    """The peer: vocabularies of the training data, the net, an optimiser."""

    name = f"plain PyTorch {torch.__version__}"

    def __init__(
        self, train: Sequence[Pair], *, sizes: dict[str, int], dropout: float, rate: float, batch: int, seed: int
    ) -> None:
        torch.manual_seed(seed)
        self.train_data, self.batch = train, batch
        self.random = np.random.default_rng(seed)
        self.word = {"<unk>": 0}
        self.char = {"<pad>": 0, "<unk>": 1, "<w>": 2, "</w>": 3}
        self.tag: dict[str, int] = {}
        for forms, tags in train:
            for form, tag in zip(forms, tags, strict=True):
                self.word.setdefault(form.lower(), len(self.word))
                self.tag.setdefault(tag, len(self.tag))
                for char in form:
                    self.char.setdefault(char, len(self.char))
        self.names = list(self.tag)
        self.row: dict[str, int] = {}
        self.table: list[tuple[int, list[int]]] = []
        self.rows = [np.array([self._row(form) for form in forms]) for forms, _ in train]
        self.tags = [np.array([self.tag[tag] for tag in tags]) for _, tags in train]
        self.net = Net(len(self.word), len(self.char), len(self.tag), sizes, dropout)
        self.optimizer = torch.optim.Adam(self.net.parameters(), rate, fused=True)

    def _row(self, form: str) -> int:
        row = self.row.get(form)
        if row is None:
            row = self.row[form] = len(self.table)
            spelling = [2, *(self.char.get(char, 1) for char in form[: LONGEST - 2]), 3]
            self.table.append((self.word.get(form.lower(), 0), spelling))
        return row

    def _inputs(self, rows: list[np.ndarray]) -> tuple[tuple[Tensor, ...], np.ndarray, np.ndarray]:
        """What the net reads, the lengths and the mask."""
        lengths = np.array([len(row) for row in rows])
        mask = np.arange(lengths.max()) < lengths[:, None]
        distinct, index = np.unique(np.concatenate(rows), return_inverse=True)
        spelled = [self.table[k] for k in distinct]
        form_lengths = np.array([len(chars) for _, chars in spelled])
        forms = np.zeros((len(spelled), form_lengths.max()), np.int64)
        for row, (_, chars) in zip(forms, spelled, strict=True):
            row[: len(chars)] = chars
        words, places = np.zeros(mask.shape, np.int64), np.zeros(mask.shape, np.int64)
        words[mask] = np.array([word for word, _ in spelled])[index]
        places[mask] = index
        return tuple(map(torch.from_numpy, (words, forms, form_lengths, places))), lengths, mask

    def train(self, batches: int) -> tuple[int, float]:
        """So many updates; tokens and seconds."""
        order = self.random.permutation(len(self.rows))[: batches * self.batch]
        order = order[np.argsort([len(self.rows[k]) for k in order], kind="stable")]
        self.net.train()
        tokens, begin = 0, time.perf_counter()
        for k in self.random.permutation(batches):
            chosen = order[k * self.batch : (k + 1) * self.batch]
            inputs, lengths, mask = self._inputs([self.rows[k] for k in chosen])
            tags = np.zeros(mask.shape, np.int64)
            tags[mask] = np.concatenate([self.tags[k] for k in chosen])
            count = int(lengths.sum())
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.net.loss(self.net(*inputs), torch.from_numpy(tags), torch.from_numpy(lengths)) / count
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 5.0, foreach=True)
            self.optimizer.step()
            loss.item()
            tokens += count
        return tokens, time.perf_counter() - begin

    def tag_all(self, sentences: Sequence[Sequence[str]]) -> tuple[list[list[str]], float]:
        """The tags of every sentence, in order, and the seconds it took."""
        self.net.eval()
        begin = time.perf_counter()
        answers: list[list[str]] = [[]] * len(sentences)
        order = sorted(range(len(sentences)), key=lambda k: len(sentences[k]))
        with torch.inference_mode():
            start = 0
            while start < len(order):
                end = start + 1
                while end < len(order) and (end + 1 - start) * len(sentences[order[end]]) <= POSITIONS:
                    end += 1
                chosen = order[start:end]
                rows = [np.array([self._row(form) for form in sentences[k]]) for k in chosen]
                inputs, lengths, _ = self._inputs(rows)
                paths = self.net.best(self.net(*inputs), torch.from_numpy(lengths)).tolist()
                for k, path, length in zip(chosen, paths, lengths.tolist(), strict=True):
                    answers[k] = [self.names[tag] for tag in path[:length]]
                start = end
        return answers, time.perf_counter() - begin

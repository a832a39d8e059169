"""Texts for recovery: what is trained on, what is watched meanwhile, and what is reported and nothing is chosen on.

Three parts, because one is not enough: on trained text any loss falls; on the watched text the best step is chosen, so
its loss there is too good; the reported text is neither trained on nor chosen on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from headlens.data.batch import Batch, Encoded, EncodedData
from headlens.data.builtin import index
from headlens.data.dataset import KINDS, DataSet, Example, Split
from headlens.data.encode import encode
from headlens.data.select import default_for, load_data
from headlens.errors import DataError

if TYPE_CHECKING:
    from headlens.lens import Lens

WATCH_SHARE = 1 / 8
"""Share of the training examples that is watched instead of trained on."""
WATCH_LEAST, WATCH_MOST = 8, 48
"""Fewer choose the best step badly (but never more than a third of all); more cost too much at each evaluation."""


@dataclass(frozen=True)
class RecoveryData:
    """The three parts; no example is in two of them.

    Attributes:
        train: trained on.
        watch: measured every few steps; the best step is chosen on it.
        report: measured before and after, and on nothing else does the result rest.
        notes: what a reader should know, one sentence each.
    """

    train: DataSet
    watch: DataSet
    report: DataSet
    notes: tuple[str, ...] = ()


def recovery_data(
    lens: Lens,
    spec: str | None = None,
    *,
    held_out: str | None = None,
    split: Split | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> RecoveryData:
    """The examples of a recovery.

    Args:
        lens: the model that is trained.
        spec: a data file, a built-in set, or several built-in sets with commas between them; None takes the set that
            the model is measured on by default.
        held_out: what is reported. None: the held-out half of ``spec`` (a file is split into halves by the seed, so
            that ``evaluate --data FILE --split held-out`` measures the same examples).
        split: the part of ``spec`` that is trained on, ``score`` or ``all`` (only with ``held_out``). None: the score
            half; all of a file where ``held_out`` names the reported examples.
        limit: only the first so many examples of the trained and of the reported part.
        seed: decides the halves of a file, and which examples are watched.

    Raises:
        DataError: unusable data, too few examples for three parts, or data of a kind that the task does not take.
    """
    if lens.task not in KINDS:
        raise DataError(f"{lens.name} is a {lens.task} model, for which there is no data to train on")
    if split == "held-out" or (split == "all" and held_out is None):
        raise DataError(f"--split {split} would train on what is reported; name other data for that with --held-out")
    names = _names(lens, spec)
    trained_on = split or ("all" if held_out is not None and not _is_set(names[0]) else "score")
    reported = _names(lens, held_out) if held_out is not None else names

    def load(found: Sequence[str], part: Split | None, default: Split) -> DataSet:
        parts = [
            load_data(name, task=lens.task, split=part, default_split=default, limit=limit, seed=seed) for name in found
        ]
        return _joined(parts)

    if held_out is None and not _is_set(names[0]):
        _check_enough(load_data(names[0], task=lens.task, split="all"))
    report = load(reported, "held-out" if held_out is None else None, "held-out")
    return _apart(load(names, trained_on, "score"), report, seed)


def _check_enough(whole: DataSet) -> None:
    """Whether a file has an example for each of three parts; raises DataError."""
    different = len(set(whole.examples))
    if different < len(("train", "watch", "report")):
        raise DataError(
            f"{whole.name}: {different} different example{'' if different == 1 else 's'} cannot be trained on, watched "
            "and reported; add some, or name other data for what is reported: --held-out FILE"
        )


def _names(lens: Lens, spec: str | None) -> list[str]:
    """Built-in sets that a list names, or the one thing that is meant."""
    if spec is None:
        return [default_for(lens)]
    parts = [part.strip() for part in spec.split(",")]
    return list(dict.fromkeys(parts)) if all(_is_set(part) for part in parts) else [spec]


def _is_set(name: str) -> bool:
    return any(entry.name == name for entry in index())


def _joined(parts: Sequence[DataSet]) -> DataSet:
    """Several sets as one."""
    first = parts[0]
    for part in parts:
        if part.kind != first.kind:
            raise DataError(
                f"{part.name} is {part.kind} and {first.name} is {first.kind}; sets of one kind can be joined"
            )
    examples = tuple(example for part in parts for example in part.examples)
    return replace(first, name=",".join(part.name for part in parts), examples=examples)


def _apart(train: DataSet, report: DataSet, seed: int) -> RecoveryData:
    """Takes what is reported, and then what is watched, out of what is trained on."""
    notes = []
    held_out = set(report.examples)
    left = tuple(example for example in train.examples if example not in held_out)
    if len(left) < len(train.examples):
        notes.append(f"{len(train.examples) - len(left)} examples that are also reported were left out of the training")
    watch = watched(left, seed)
    trained = tuple(example for example in left if example not in watch)
    if not trained or not watch:
        raise DataError(
            f"{train.name}: {len(set(left))} different examples are left to train on and to watch, and at least 2 are "
            "needed beside the reported ones; add some"
        )
    watch_set = replace(train, examples=tuple(example for example in left if example in watch))
    return RecoveryData(replace(train, examples=trained), watch_set, report, tuple(notes))


def watched(examples: Sequence[Example], seed: int) -> frozenset[Example]:
    """Which examples are watched: by the sha256 of seed and content, so neither order nor repetition decides.

    An eighth of the different ones, between ``WATCH_LEAST`` (or a third of them) and ``WATCH_MOST``; none where there
    are fewer than two.
    """
    different = sorted(set(examples), key=lambda e: hashlib.sha256(f"watch|{seed}|{e!r}".encode()).digest())
    if len(different) < 2:
        return frozenset()
    least = max(1, min(WATCH_LEAST, len(different) // 3))
    return frozenset(different[: min(WATCH_MOST, max(least, round(WATCH_SHARE * len(different))))])


class Feed:
    """Batches to train on: every epoch in an order of its own, which depends on the seed and the epoch alone.

    So the batch of a step can be made at any time, and a run that goes on after a break sees what it would have seen.
    Masked language models get other hidden words in every epoch (Liu et al. 2019, RoBERTa, section 4.1).

    Args:
        lens: the model.
        data: what is trained on.
        per_step: examples of one step.
        rows: examples that are run at a time; it changes no gradient beyond rounding.
        max_tokens: cut of each example.
        seed: draws orders and hidden words.

    Raises:
        DataError: see :func:`headlens.data.encode.encode`.
    """

    def __init__(
        self, lens: Lens, data: DataSet, *, per_step: int, rows: int, max_tokens: int = 128, seed: int = 0
    ) -> None:
        self.lens, self.data, self.per_step, self.rows = lens, data, per_step, rows
        self.max_tokens, self.seed = max_tokens, seed
        whole = self._encode(0)
        self.hash = whole.hash
        self.used = [i for i, example in enumerate(whole.examples) if example.predicted or lens.task == "embedding"]
        self._epochs: dict[int, EncodedData] = {0: whole}
        self._shuffled: tuple[int, np.ndarray] = (-1, np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        """Examples of one epoch: those in which something is predicted."""
        return len(self.used)

    def batches(self, step: int) -> list[Batch]:
        """What step number ``step`` (from 0) is trained on."""
        places = range(step * self.per_step, (step + 1) * self.per_step)
        chosen = sorted((self._example(place) for place in places), key=lambda example: -example.length)
        first = self._epochs[next(iter(self._epochs))]
        whole = replace(first, examples=tuple(chosen))
        return [whole.batch(range(i, min(i + self.rows, len(chosen)))) for i in range(0, len(chosen), self.rows)]

    def _example(self, place: int) -> Encoded:
        epoch, at = divmod(place, len(self.used))
        return self._epoch(epoch).examples[self.used[int(self._order(epoch)[at])]]

    def _order(self, epoch: int) -> np.ndarray:
        if self._shuffled[0] != epoch:
            self._shuffled = (epoch, np.random.default_rng([self.seed, epoch]).permutation(len(self.used)))
        return self._shuffled[1]

    def _epoch(self, epoch: int) -> EncodedData:
        """The examples as they are in one epoch."""
        number = epoch if self.lens.task == "masked-lm" else 0
        if number not in self._epochs:
            for old in [key for key in self._epochs if key < number - 1]:
                del self._epochs[old]
            self._epochs[number] = self._encode(number)
        return self._epochs[number]

    def _encode(self, epoch: int) -> EncodedData:
        drawn = np.random.default_rng([self.seed, 1 + epoch]).integers(2**31)
        return encode(self.lens, self.data, max_tokens=self.max_tokens, seed=int(drawn))

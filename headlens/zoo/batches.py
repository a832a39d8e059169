"""Training batches, drawn from the generators: the same seed and step always give the same batch.

Held-out examples come from the same generators. Stories and scenes are so many that a repetition is out of the
question; of the numbers a fixed share is never trained on (:func:`headlens.zoo.number_words.part_of`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Any

import torch
from torch import Tensor

from headlens.data.batch import IGNORE
from headlens.data.encode import MASKED_SHARE
from headlens.zoo import english, number_words, shapes
from headlens.zoo.recipes import Recipe, reader
from headlens.zoo.vocabulary import PAD

Inputs = dict[str, Tensor]
Draw = Callable[[int], Inputs]
"""From the number of a step, counted from 1, to what the model's forward takes, with labels."""

MOST_HIDDEN = 0.4
"""Largest share of a story's words that is hidden in training. More hidden words teach more a step: with the measured
share alone (0.15), BERT had not learnt to repeat, to recall and to agree after 5,000 steps."""
GROUP = 4
"""Batches that are drawn together and sorted by length, so that little is padded."""


def draw(recipe: Recipe, seed: int) -> Draw:
    """What gives the batch of each training step of a model."""
    examples = {"causal": _Stories, "masked": _Stories, "pairs": _Pairs, "pictures": _Pictures}[recipe.kind](recipe)

    @lru_cache(maxsize=1)
    def group(number: int) -> list[Inputs]:
        rng = Random(f"{seed}|{recipe.kind}|{number}")
        drawn = sorted(examples(rng, GROUP * recipe.batch), key=lambda example: len(example[0]))
        batches = [examples.batch(drawn[i : i + recipe.batch]) for i in range(0, len(drawn), recipe.batch)]
        rng.shuffle(batches)
        return batches

    return lambda step: group((step - 1) // GROUP)[(step - 1) % GROUP]


Example = tuple[list[int], list[int]]
"""Ids that go in, and ids that are to come out."""


class _Stories:
    """Stories for a model that writes (``<s> ... </s>``), or with hidden words for one that fills gaps."""

    def __init__(self, recipe: Recipe) -> None:
        tokenizer: Any = reader(recipe)
        self.ids: dict[str, int] = tokenizer.get_vocab()
        self.masked = recipe.kind == "masked"
        names = ("cls_token_id", "sep_token_id") if self.masked else ("bos_token_id", "eos_token_id")
        self.first, self.last = (int(getattr(tokenizer, name)) for name in names)
        self.mask = tokenizer.mask_token_id

    def __call__(self, rng: Random, count: int) -> list[Example]:
        texts = [[self.ids[word] for word in english.story(rng).words] for _ in range(count)]
        texts = [[self.first, *ids, self.last] for ids in texts]
        return [self._hide(ids, rng) if self.masked else (ids, ids) for ids in texts]

    def _hide(self, ids: list[int], rng: Random) -> Example:
        """Hides at least as many words as are hidden when the model is measured, up to :data:`MOST_HIDDEN`."""
        ordinary = range(1, len(ids) - 1)
        share = rng.uniform(MASKED_SHARE, MOST_HIDDEN)
        hidden = set(rng.sample(ordinary, max(1, round(share * len(ordinary)))))
        shown = [self.mask if i in hidden else number for i, number in enumerate(ids)]
        return shown, [number if i in hidden else IGNORE for i, number in enumerate(ids)]

    def batch(self, examples: list[Example]) -> Inputs:
        return _padded(examples)


class _Pairs:
    """Number words in English and German."""

    def __init__(self, recipe: Recipe) -> None:
        self.tokenizer: Any = reader(recipe)

    def __call__(self, rng: Random, count: int) -> list[Example]:
        pairs = [number_words.pair(rng, "train") for _ in range(count)]
        sources = self.tokenizer([pair.source for pair in pairs])["input_ids"]
        targets = self.tokenizer([pair.target for pair in pairs])["input_ids"]
        return list(zip(sources, targets, strict=True))

    def batch(self, examples: list[Example]) -> Inputs:
        return _padded(examples)


class _Pictures:
    """Pictures of shapes with the number of the right answer, scaled as ViT's image processor does."""

    def __init__(self, recipe: Recipe) -> None:
        del recipe

    def __call__(self, rng: Random, count: int) -> list[Any]:
        scenes = [shapes.scene(rng) for _ in range(count)]
        return [(shapes.picture(scene), shapes.LABELS.index(scene.answer)) for scene in scenes]

    def batch(self, examples: list[Any]) -> Inputs:
        pixels = torch.stack([torch.from_numpy(picture) for picture, _ in examples])
        labels = torch.tensor([label for _, label in examples])
        return {"pixel_values": pixels.permute(0, 3, 1, 2).float() / 127.5 - 1, "labels": labels}


def _padded(examples: list[Example]) -> Inputs:
    """Padded token ids, attention mask and labels, each ``[row, token]``."""

    def rows(lists: list[list[int]], fill: int) -> Tensor:
        longest = max(map(len, lists))
        return torch.tensor([each + [fill] * (longest - len(each)) for each in lists])

    shown, wanted = [ids for ids, _ in examples], [ids for _, ids in examples]
    mask = rows([[1] * len(ids) for ids in shown], 0)
    return {"input_ids": rows(shown, PAD), "attention_mask": mask, "labels": rows(wanted, IGNORE)}

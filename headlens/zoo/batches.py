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
from headlens.zoo.grammar import Story
from headlens.zoo.recipes import Recipe, reader
from headlens.zoo.vocabulary import PAD

Inputs = dict[str, Tensor]
Draw = Callable[[int], Inputs]
"""From the number of a step, counted from 1, to what the model's forward takes, with labels."""

MOST_HIDDEN = 0.5
"""Share of the words that need a skill which a model that fills gaps is asked for in steps of practice
(:attr:`headlens.zoo.recipes.Recipe.practice`): it has to see enough of them to learn from. Others are asked for all."""
OTHERS = 0.2
"""In those steps, how much rarer words without a skill are asked for. Later steps ask as the model is measured, so that
it does not believe whatever it is asked for to be a skill's word."""
GROUP = 4
"""Batches that are drawn together and sorted by length, so that little is padded."""


def draw(recipe: Recipe, seed: int) -> Draw:
    """What gives the batch of each training step of a model."""
    examples = {"causal": _Stories, "masked": _Stories, "pairs": _Pairs, "pictures": _Pictures}[recipe.kind](recipe)

    @lru_cache(maxsize=1)
    def group(number: int) -> list[Inputs]:
        rng = Random(f"{seed}|{recipe.kind}|{number}")
        practice = number * GROUP < recipe.practice * recipe.steps
        drawn = sorted(examples(rng, GROUP * recipe.batch, practice), key=lambda example: len(example[0]))
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

    def __call__(self, rng: Random, count: int, practice: bool) -> list[Example]:
        return [self._example(english.story(rng), rng, practice) for _ in range(count)]

    def _example(self, story: Story, rng: Random, practice: bool) -> Example:
        ids = [self.first, *(self.ids[word] for word in story.words), self.last]
        if not self.masked and not practice:
            return ids, ids
        most = MOST_HIDDEN if self.masked else 1.0
        asked = {1 + i for i in (_practised(story, rng, most) if practice else _as_measured(story, rng))}
        wanted = [number if i in asked else IGNORE for i, number in enumerate(ids)]
        return ([self.mask if i in asked else number for i, number in enumerate(ids)] if self.masked else ids), wanted

    def batch(self, examples: list[Example]) -> Inputs:
        return _padded(examples)


def _as_measured(story: Story, rng: Random) -> set[int]:
    """As many words as are hidden when the model is measured."""
    count = len(story.words)
    return set(rng.sample(range(count), max(1, round(MASKED_SHARE * count))))


def _practised(story: Story, rng: Random, most: float) -> set[int]:
    """Many of the words that need a skill (share ``most``) and few of the others; at least one."""
    shares = [most * OTHERS if skill is None else most for skill in story.skills]
    asked = {i for i, share in enumerate(shares) if rng.random() < share}
    return asked or {rng.randrange(len(shares))}


class _Pairs:
    """Number words in English and German."""

    def __init__(self, recipe: Recipe) -> None:
        self.tokenizer: Any = reader(recipe)

    def __call__(self, rng: Random, count: int, practice: bool) -> list[Example]:
        del practice
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

    def __call__(self, rng: Random, count: int, practice: bool) -> list[Any]:
        del practice
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

"""Stories in small English with their dependency parse, tokenised for any model whose tokenizer can align words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import torch

from headlens.data.batch import Encoded, EncodedData
from headlens.data.encode import TOKENIZER_LOCK
from headlens.roles.base import Links
from headlens.zoo import english

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.batch import Batch
    from headlens.lens import Lens
    from headlens.zoo.grammar import Story

STORIES = 40
LEAST = 30
"""A relation that comes less often in all stories together is left out: a share of few words is mostly luck."""
OWN_TOKENS = 0.8
"""A story is used if so many of its words have tokens of their own."""
LEFT_OUT = frozenset({"punct"})

RELATIONS: tuple[str, ...] = tuple(
    sorted({slot.relation for each in english.GRAMMAR.templates for slot in each.slots if slot.head >= 0} - LEFT_OUT)
)
KINDS: tuple[str, ...] = tuple(
    f"{relation}, {direction}" for relation in RELATIONS for direction in ("word to head", "head to word")
)
"""Every kind of link: a relation and a direction; ``obj, word to head`` leads from an object to its verb."""

Questions = list[tuple[int, int, frozenset[int]]]
"""(kind, the word that looks, the words that it should look at)."""


@dataclass(frozen=True)
class ParsedStories:
    """Stories for one model.

    Attributes:
        data: the tokenised stories.
        one_way, both_ways: what the parse asks of a causal layer, which sees only words before, and of any other.
    """

    data: EncodedData
    one_way: tuple[Links, ...]
    both_ways: tuple[Links, ...]

    def seen(self, site: str, causal: bool, batch: Batch) -> dict[str, Any] | None:
        """See :class:`headlens.roles.base.Source`."""
        if site not in ("self", "enc", "text"):
            return None
        links = self.one_way if causal else self.both_ways
        return {"links": tuple(links[index] for index in batch.indices)}


def parsed_stories(lens: Lens, *, seed: int) -> ParsedStories | None:
    """Stories whose words the tokenizer knows and mostly keeps apart; None where it does not, or gives no offsets.

    Args:
        lens: the model.
        seed: draws the stories.
    """
    tokenizer: Any = lens.tokenizer
    if tokenizer is None or not lens.accepts("input_ids") or not getattr(tokenizer, "is_fast", False):
        return None
    rng = Random(f"parsed {seed}")
    stories, examples, aligned = [], [], []
    for _ in range(STORIES):
        story = english.story(rng)
        found = _tokenised(lens, story)
        if found is not None:
            stories.append(story)
            examples.append(found[0])
            aligned.append(found[1])
    if len(examples) < STORIES / 2:
        return None
    examples = [_with_decoder(lens, example) for example in examples]
    pad = int(getattr(tokenizer, "pad_token_id", None) or 0)
    data = EncodedData("parsed stories", "all", tuple(examples), pad, lens.device)
    one_way, both_ways = (links(stories, aligned, causal=causal) for causal in (True, False))
    return ParsedStories(data, one_way, both_ways)


def links(stories: Sequence[Story], word_of: Sequence[Tensor], *, causal: bool) -> tuple[Links, ...]:
    """What the parse of each story asks of a layer, with the answer of each kind's best fixed offset.

    Args:
        stories: with their parse.
        word_of: the word of each token, by story.
        causal: only words at or before the one that looks; and none at the first position.
    """
    seen = [{*words.tolist()} - ({int(words[0])} if causal else set()) for words in word_of]
    asked = [_questions(story, words, causal=causal) for story, words in zip(stories, seen, strict=True)]
    often = [0] * len(KINDS)
    for questions in asked:
        for kind, _, _ in questions:
            often[kind] += 1
    asked = [[each for each in questions if often[each[0]] >= LEAST] for questions in asked]
    offsets = _best_offsets(asked)
    return tuple(
        _as_links(questions, words, len(story.words), offsets)
        for story, words, questions in zip(stories, word_of, asked, strict=True)
    )


def _questions(story: Story, seen: set[int], *, causal: bool) -> Questions:
    """Each word's way to its head, and each head's way to its words of one relation; ``seen``: words with a token."""
    ways: list[tuple[int, int, set[int]]] = []
    below: dict[tuple[int, int], set[int]] = {}
    for word, (head, relation) in enumerate(zip(story.heads, story.relations, strict=True)):
        if head < 0 or relation in LEFT_OUT:
            continue
        kind = 2 * RELATIONS.index(relation)
        ways.append((kind, word, {head}))
        below.setdefault((kind + 1, head), set()).add(word)
    ways += [(kind, head, words) for (kind, head), words in below.items()]
    found = []
    for kind, word, targets in ways:
        visible = frozenset(target for target in targets & seen if not causal or target <= word)
        if visible and word in seen:
            found.append((kind, word, visible))
    return found


def _best_offsets(asked: Sequence[Questions]) -> dict[int, int]:
    """For each kind the offset in words that is right most often (of equal ones the shortest)."""
    right: dict[int, dict[int, int]] = {}
    for questions in asked:
        for kind, word, targets in questions:
            counts = right.setdefault(kind, {})
            for target in targets:
                counts[target - word] = counts.get(target - word, 0) + 1
    return {kind: max(counts, key=lambda d: (counts[d], -abs(d))) for kind, counts in right.items()}


def _as_links(questions: Questions, word_of: Tensor, words: int, offsets: dict[int, int]) -> Links:
    targets = torch.zeros(len(questions), words, dtype=torch.bool)
    for number, (_, _, wanted) in enumerate(questions):
        targets[number, list(wanted)] = True
    baseline = [word + offsets[kind] in wanted for kind, word, wanted in questions]
    kind, query = (torch.tensor([each[part] for each in questions], dtype=torch.long) for part in (0, 1))
    return Links(word_of, kind, query, targets, torch.tensor(baseline, dtype=torch.bool))


def _tokenised(lens: Lens, story: Story) -> tuple[dict[str, Tensor], Tensor] | None:
    """Inputs and the word of each token; None where a word is unknown, or many words have no token of their own."""
    text = english.text(story.words)
    tokenizer: Any = lens.tokenizer
    with TOKENIZER_LOCK:
        found = tokenizer(text, return_offsets_mapping=True)
    ids = found["input_ids"]
    if len(ids) > (lens.max_positions or len(ids)) or max(ids) >= lens.vocabulary:
        return None
    word_at = _word_at(story, text)
    word_of = [_word(word_at, start, end) for start, end in found["offset_mapping"]]
    unknown = getattr(tokenizer, "unk_token_id", None)
    if any(i == unknown and word != -1 for i, word in zip(ids, word_of, strict=True)):
        return None
    if len({*word_of} - {-1}) < OWN_TOKENS * len(story.words):
        return None
    tensor = torch.tensor(ids, dtype=torch.long)
    inputs = {"input_ids": tensor, "attention_mask": torch.ones_like(tensor)}
    return inputs, torch.tensor(word_of, dtype=torch.long)


def _word_at(story: Story, text: str) -> list[int]:
    """The word that each character belongs to; -1 for spaces."""
    found, place = [-1] * len(text), 0
    for number, word in enumerate(story.words):
        place = text.index(word, place)
        found[place : place + len(word)] = [number] * len(word)
        place += len(word)
    return found


def _word(word_at: Sequence[int], start: int, end: int) -> int:
    """The word of a token's characters; -1 where there is none, or more than one (a bracket and a full stop, say)."""
    words = {*word_at[start:end]} - {-1}
    return words.pop() if len(words) == 1 else -1


def _with_decoder(lens: Lens, inputs: dict[str, Tensor]) -> Encoded:
    """Encoder-decoder models need something to write; only their encoder is looked at."""
    if lens.accepts("decoder_input_ids"):
        start = lens.shift_right(inputs["input_ids"])[:1]
        inputs = inputs | {"decoder_input_ids": start, "decoder_attention_mask": torch.ones_like(start)}
    return Encoded(inputs, None)

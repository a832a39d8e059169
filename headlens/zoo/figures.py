"""What a model of the zoo reaches on the held-out half of its set, and what is possible there.

The same function fills the cards of the shipped models and checks them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from headlens.data.batch import IGNORE, EncodedData
from headlens.zoo import english
from headlens.zoo.possible import Best, hidden_words, next_words

if TYPE_CHECKING:
    from headlens.data.dataset import DataSet
    from headlens.lens import Lens

BATCH = 16


@dataclass(frozen=True)
class Skill:
    """How well a model does where a skill is needed.

    Attributes:
        words: how many words need the skill.
        loss, possible_loss: nats a word, of the model and of a perfect one.
        foils: how many of the words have a foil.
        foil_accuracy: share of those where the right word is more probable than the foil.
    """

    words: int
    loss: float
    possible_loss: float
    foils: int
    foil_accuracy: float | None


@dataclass(frozen=True)
class Figures:
    """What was reached, and what is possible.

    Attributes:
        data: name of the set; always its held-out half.
        examples, predictions: how much was scored.
        loss, loss_sem: nats a prediction and its standard error over examples.
        possible_loss: of a perfect model on the same predictions.
        accuracy, accuracy_sem: share of predictions that are right.
        possible_accuracy: of a perfect model on the same predictions.
        exact_match: share of translations that are right to the letter (number words).
        bleu: corpus BLEU of greedy translations, 0 to 100 (number words).
        skills: by skill (small English).
    """

    data: str
    examples: int
    predictions: int
    loss: float
    loss_sem: float
    possible_loss: float
    accuracy: float
    accuracy_sem: float
    possible_accuracy: float
    exact_match: float | None = None
    bleu: float | None = None
    skills: dict[str, Skill] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As it stands in a card, to six digits."""
        return _rounded(asdict(self))


def measure(lens: Lens, *, limit: int | None = None, on_progress: Callable[[int, int], None] | None = None) -> Figures:
    """Measures a model of the zoo on the held-out half of the set that it is made for.

    Args:
        lens: the model; small English as a causal or masked model, number words, or shapes.
        limit: only the first so many examples.
        on_progress: called with (done, total) batches of the first pass.
    """
    from headlens.data.encode import encode
    from headlens.data.select import default_for, load_data
    from headlens.evaluate import evaluate
    from headlens.heads import HeadSet
    from headlens.metrics import METRICS

    name = default_for(lens)
    data = load_data(name, task=lens.task, default_split="held-out", limit=limit)
    encoded = encode(lens, data)
    found = evaluate(
        lens, encoded, HeadSet(), metric=METRICS["loss"], batch_size=BATCH, on_progress=on_progress
    ).measured
    loss, accuracy = found["loss"], found["accuracy"]
    extra: dict[str, Any] = {}
    best = [Best(0.0, 1.0)]  # translations and answers follow from what is shown
    if lens.task in ("causal-lm", "masked-lm"):
        best = _possible(lens, data, encoded)
        extra["skills"] = _skills(lens, data, encoded)
    elif lens.task == "seq2seq":
        extra = _translations(lens, data)
    return Figures(
        name,
        len(data.examples),
        encoded.tokens,
        loss.baseline,
        loss.baseline_sem,
        sum(each.loss for each in best) / len(best),
        accuracy.baseline,
        accuracy.baseline_sem,
        sum(each.right for each in best) / len(best),
        **extra,
    )


def _translations(lens: Lens, data: DataSet) -> dict[str, float]:
    from headlens.bleu import bleu
    from headlens.heads import HeadSet

    found = bleu(lens, data, HeadSet(), batch_size=BATCH)
    right = [text == example.target for text, example in zip(found.outputs, data.examples, strict=True)]
    return {"exact_match": sum(right) / len(right), "bleu": found.baseline}


def _possible(lens: Lens, data: DataSet, encoded: EncodedData) -> list[Best]:
    """Perfect predictions of everything that is scored."""
    found: list[Best] = []
    for example, tokens in zip(data.examples, encoded.examples, strict=True):
        words = english.words(example.text or "")
        if lens.task == "causal-lm":
            found += next_words(words)
            continue
        assert tokens.targets is not None
        # One special token stands before the words.
        found += hidden_words(words, [int(i) - 1 for i in (tokens.targets != IGNORE).nonzero()])
    return found


def _skills(lens: Lens, data: DataSet, encoded: EncodedData) -> dict[str, Skill]:
    """Loss and foil accuracy of the words that need each skill; a masked model sees all words but that one."""
    losses, possible, foils = (defaultdict[str, list[float]](list) for _ in range(3))
    for example, tokens in zip(data.examples, encoded.examples, strict=True):
        story = english.annotate(example.text or "")
        needed = [i for i, skill in enumerate(story.skills) if skill]
        if not needed:
            continue
        if lens.task == "causal-lm":
            perfect = next_words(story.words)
            best = [perfect[i] for i in needed]
        else:
            best = [hidden_words(story.words, [i])[0] for i in needed]
        ids = lens.tokenizer.get_vocab()  # type: ignore[union-attr]
        for i, perfect_one, log_probabilities in zip(
            needed, best, _predictions(lens, tokens.inputs, story, needed), strict=True
        ):
            skill, foil = story.skills[i] or "", story.foils[i]
            right = float(log_probabilities[ids[story.words[i]]])
            losses[skill].append(-right)
            possible[skill].append(perfect_one.loss)
            if foil is not None:
                foils[skill].append(float(right > float(log_probabilities[ids[foil]])))
    return {
        name: Skill(
            len(losses[name]),
            sum(losses[name]) / len(losses[name]),
            sum(possible[name]) / len(possible[name]),
            len(foils[name]),
            sum(foils[name]) / len(foils[name]) if foils[name] else None,
        )
        for name in english.SKILLS
        if losses[name]
    }


def _predictions(lens: Lens, inputs: Any, story: english.Story, needed: list[int]) -> Iterator[torch.Tensor]:
    """Log-probabilities over the vocabulary at each word of ``needed``."""
    device = lens.device
    tokenizer: Any = lens.tokenizer
    # Ids afresh: those of a masked model's examples have words hidden already.
    ids = torch.tensor(tokenizer.convert_tokens_to_ids(list(story.words)))
    first = inputs["input_ids"][:1]
    if lens.task == "causal-lm":
        rows = torch.cat([first, ids])[None]
        places = torch.tensor([needed])  # the logits at a token predict the next one
    else:
        rows = torch.cat([first, ids, inputs["input_ids"][-1:]]).repeat(len(needed), 1)
        places = torch.tensor(needed)[:, None] + 1
        rows[torch.arange(len(needed))[:, None], places] = tokenizer.mask_token_id
    for row, place in zip(rows.split(BATCH), places.split(BATCH), strict=True):
        batch = {"input_ids": row.to(device), "attention_mask": torch.ones_like(row).to(device)}
        with torch.inference_mode():
            logits = lens.forward(batch).logits.float().cpu()
        yield from logits[torch.arange(len(row))[:, None], place].flatten(0, 1).log_softmax(-1)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return round(value, 6) if isinstance(value, float) else value

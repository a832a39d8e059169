"""What the models of a report say, side by side: the same prompts, the same seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from headlens.data.batch import IGNORE
from headlens.data.encode import encode
from headlens.generation import Writer
from headlens.metrics import at_least_float32, pooled, readout
from headlens.run import Run
from headlens.tokens import readable_tokens

if TYPE_CHECKING:
    from headlens.data.batch import Batch
    from headlens.data.dataset import DataSet, Example
    from headlens.lens import Lens
    from headlens.report.models import Subjects

WORDS = 12
"""Words of a held-out text that are given as a prompt."""
NEW_TOKENS = 32
SHOWN = 3


@dataclass(frozen=True)
class Sample:
    """One input and what each model makes of it.

    Attributes:
        given: the prompt, source, text or file name.
        wanted: the right answer, where there is one.
        said: by role.
        sure: by role, how sure the model is of it, where it says so.
    """

    given: str
    wanted: str | None
    said: Mapping[str, str]
    sure: Mapping[str, str] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Whether all models say the same."""
        return len(set(self.said.values())) < 2


@dataclass(frozen=True)
class Samples:
    """Samples of one kind.

    Attributes:
        kind: what is shown, in words.
        samples: the samples; the first ones of the data, not chosen.
        how: how they were made.
    """

    kind: str
    samples: tuple[Sample, ...]
    how: str

    def sentence(self) -> str:
        """How many differ."""
        roles = len(self.samples[0].said) if self.samples else 0
        if roles < 2:
            return f"{self.kind} of the full model."
        same = sum(sample.same for sample in self.samples)
        return f"{self.kind}: {same} of {len(self.samples)} are the same for all {roles} models."


def samples(
    subjects: Subjects,
    data: DataSet,
    *,
    prompts: Sequence[str] = (),
    count: int = SHOWN,
    new_tokens: int = NEW_TOKENS,
    temperature: float = 0.0,
    max_tokens: int = 128,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Samples:
    """Outputs of every model for the same inputs.

    Args:
        subjects: the models.
        data: held-out examples; the first ``count`` are taken.
        prompts: instead of those, for models that write.
        count: how many.
        new_tokens: most tokens to write.
        temperature: 0 takes the most probable token; above, all models get the same noise (see
            :mod:`headlens.generation`).
        max_tokens: cut of each example.
        seed: draws the noise, and hidden words.
        on_progress: called with (done, total) outputs.
    """
    task = subjects.full.lens.task
    if task in ("causal-lm", "seq2seq"):
        inputs = [(text, None) for text in prompts] or [_prompt(example) for example in data.examples[:count]]

        def write(lens: Lens, number: int) -> tuple[str, str]:
            return Writer(lens, inputs[number][0], new_tokens, seed, temperature).write(Run()).text, ""

        draw = "the most probable token each time" if temperature == 0 else f"drawn at temperature {temperature:g}"
        which = "prompts given by whoever made the report" if prompts else "the first texts of the data, not chosen"
        how = f"At most {new_tokens} new tokens, {draw}, seed {seed}; {which}."
        return Samples("What the models write", _each(subjects, inputs, write, on_progress), how)
    return _answers(subjects, data, count, max_tokens, seed, on_progress)


def _prompt(example: Example) -> tuple[str, str | None]:
    """What is given of an example, and how it goes on."""
    if example.source is not None:
        return example.source, example.target
    words = (example.text or "").split()
    return " ".join(words[:WORDS]), " ".join(words[WORDS : 2 * WORDS]) or None


def _each(
    subjects: Subjects,
    inputs: Sequence[tuple[str, str | None]],
    answer: Callable[[Lens, int], tuple[str, str]],
    on_progress: Callable[[int, int], None] | None,
) -> tuple[Sample, ...]:
    found, done, total = [], 0, len(inputs) * len(subjects.all)
    for number, (given, wanted) in enumerate(inputs):
        said: dict[str, tuple[str, str]] = {}
        for one in subjects.all:
            if on_progress is not None:
                on_progress(done, total)
            said[one.role] = answer(one.lens, number)
            done += 1
        texts, sure = ({role: both[part] for role, both in said.items()} for part in (0, 1))
        found.append(Sample(given, wanted, texts, {role: text for role, text in sure.items() if text}))
    if on_progress is not None:
        on_progress(done, total)
    return tuple(found)


def _answers(
    subjects: Subjects,
    data: DataSet,
    count: int,
    max_tokens: int,
    seed: int,
    on_progress: Callable[[int, int], None] | None,
) -> Samples:
    """Classes, guesses of hidden words, or the nearest other text."""
    lens = subjects.full.lens
    encoded = encode(lens, data, max_tokens=max_tokens, seed=seed)
    shown = min(count, len(encoded))
    batches = [encoded.batch([number]) for number in range(shown)]
    if lens.task == "embedding":
        return _nearest(subjects, data, encoded, shown, on_progress)
    names = {"masked-lm": "Hidden words", "text-classification": "Classes", "image-classification": "Classes"}
    inputs = []
    for number, batch in enumerate(batches):
        wanted = _wanted(lens, batch)
        inputs.append((_given(lens, data.examples[number], batch), wanted))

    def answer(one: Lens, number: int) -> tuple[str, str]:
        return _best(one, batches[number])

    how = "The most probable answers with their probabilities; the first examples of the data, not chosen."
    return Samples(names[lens.task], _each(subjects, inputs, answer, on_progress), how)


def _given(lens: Lens, example: Example, batch: Batch) -> str:
    if example.image is not None:
        return example.image.name
    if lens.task == "masked-lm":
        tokenizer: Any = lens.tokenizer
        return str(tokenizer.decode(batch.inputs["input_ids"][0].tolist(), skip_special_tokens=False))
    return " / ".join(text for text in (example.text, example.text_pair) if text)


def _wanted(lens: Lens, batch: Batch) -> str:
    assert batch.targets is not None
    right = batch.targets[0][batch.targets[0] != IGNORE].tolist()
    return ", ".join(_name(lens, number) for number in right)


def _best(lens: Lens, batch: Batch) -> tuple[str, str]:
    """The most probable answers, and their probabilities."""
    assert batch.targets is not None
    with torch.inference_mode():
        values = readout(lens.forward(batch.inputs), lens.task)
    found = at_least_float32(values[batch.targets != IGNORE]).softmax(-1).max(-1)
    names = [_name(lens, number) for number in found.indices.tolist()]
    return ", ".join(names), ", ".join(f"{100 * share:.0f} %" for share in found.values.tolist())


def _name(lens: Lens, number: int) -> str:
    """A token, or the name of a class."""
    if lens.task == "masked-lm":
        return readable_tokens(lens.tokenizer, [number])[0].text.strip() or "(space)"
    names = getattr(lens.model.config, "id2label", None) or {}
    return str(names.get(number, number))


def _nearest(
    subjects: Subjects,
    data: DataSet,
    encoded: Any,
    shown: int,
    on_progress: Callable[[int, int], None] | None,
) -> Samples:
    """The text whose embedding is nearest, among all others of the data."""
    kept: dict[int, torch.Tensor] = {}

    def embeddings(lens: Lens) -> torch.Tensor:
        if id(lens) not in kept:
            rows = torch.zeros(len(encoded), 0)
            for batch in encoded.batches(8):
                with torch.inference_mode():
                    found = pooled(readout(lens.forward(batch.inputs), lens.task), batch).cpu()
                rows = torch.zeros(len(encoded), found.shape[1], dtype=found.dtype) if not rows.shape[1] else rows
                rows[list(batch.indices)] = found
            kept[id(lens)] = torch.nn.functional.normalize(rows, dim=-1)
        return kept[id(lens)]

    def answer(lens: Lens, number: int) -> tuple[str, str]:
        if len(encoded) < 2:
            return "(there is no other text)", ""
        near = embeddings(lens) @ embeddings(lens)[number]
        near[number] = -2.0
        best = int(near.argmax())
        return _short(data.examples[best].text or ""), f"cosine {float(near[best]):.3f}"

    inputs = [(_short(data.examples[number].text or ""), None) for number in range(shown)]
    how = f"Nearest by the cosine of the mean-pooled embeddings, among {len(encoded)} held-out texts; not chosen."
    return Samples("The most similar other text", _each(subjects, inputs, answer, on_progress), how)


def _short(text: str, words: int = 24) -> str:
    parts = text.split()
    return " ".join(parts[:words]) + (" ..." if len(parts) > words else "")

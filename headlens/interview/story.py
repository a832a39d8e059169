"""The presenter's story in five steps: sentences with measured numbers in them, and what the speaker says.

The numbers come from ``assets/interview/story.json``, which ``python benchmarks/story.py`` measures and writes; the
published ones name their source. Nothing is computed here that takes time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headlens.errors import DataError
from headlens.interview.bank import interview_dir

Picture = Literal["map", "single", "together", "copying", "scratch"]
VOITA = (
    ("WMT, 75 of 144", 0.15),
    ("WMT, 58", 0.41),
    ("WMT, 36", 0.50),
    ("WMT, 26", 0.49),
    ("OpenSubtitles, 104", 0.01),
    ("OpenSubtitles, 61", 0.25),
    ("OpenSubtitles, 28", 0.43),
)
"""BLEU by which the same heads from scratch are worse than the pruned model, by data and heads kept (Voita et al. 2019,
Table 2; differences of its two columns)."""


@dataclass(frozen=True)
class Step:
    """One step of the story.

    Attributes:
        title: what the audience reads first.
        lines: at most three sentences in large type.
        picture: which figure stands beside them.
        alt: the figure in one sentence.
        notes: what the speaker says, line by line.
        small: how it was measured, or where it is published.
    """

    title: str
    lines: tuple[str, ...]
    picture: Picture
    alt: str
    notes: tuple[str, ...]
    small: str


@dataclass(frozen=True)
class Story:
    """Five steps and the numbers behind them (see :mod:`headlens.interview.prepare`)."""

    steps: tuple[Step, ...]
    numbers: dict[str, Any]


def story_file() -> Path:
    """The measured numbers that come with HeadLens."""
    return interview_dir() / "story.json"


def load_story(path: Path | None = None) -> Story:
    """Reads the numbers and puts them into words.

    Raises:
        DataError: they are missing or not complete; says which command makes them.
    """
    path = story_file() if path is None else path
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
        return Story(
            (_map(numbers), _single(numbers), _together(numbers), _copying(numbers), _follows(numbers)), numbers
        )
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise DataError(f"{path}: the presenter's numbers cannot be read; run python benchmarks/story.py") from error


def how_measured(numbers: dict[str, Any]) -> str:
    """One line of provenance."""
    origin, halves = numbers["provenance"], numbers["provenance"]["halves"]
    return (
        f"{numbers['model']['title']}, {origin['data']}: {halves['score']['tokens']} tokens to score, "
        f"{halves['held-out']['tokens']} held out; {origin['ablation']} ablation; measured {origin['measured']}."
    )


def signed(value: float | np.floating[Any]) -> str:
    """Two decimals with a sign; zero has none."""
    text = f"{value:+.2f}"
    return "0.00" if float(text) == 0 else text


def _map(numbers: dict[str, Any]) -> Step:
    model, single = numbers["model"], numbers["single"]
    rows, columns = len(single["grid"]), len(single["grid"][0])
    return Step(
        "How many of these heads does the model need?",
        (
            f"{rows} layers of {columns} heads: {model['heads']} attention heads.",
            "Each square is one head. Blue: the loss rises without it. Orange: it falls.",
            "Papers report that a third can go. What does that mean?",
        ),
        "map",
        f"Map of {model['heads']} heads by what each alone is worth; most squares are nearly white.",
        (
            "Ask the room: are the other heads useless? Could we have trained with fewer? Collect answers first.",
            f"Every square was measured by switching that one head off, on {single['tokens']} tokens.",
            "A head is one attention pattern with its own slice of the weights; its output is added to the others'.",
        ),
        how_measured(numbers),
    )


def _single(numbers: dict[str, Any]) -> Step:
    model, single = numbers["model"], numbers["single"]
    worst, small, limit = single["worst"][0], single["small"], single["threshold"]
    share = small / model["heads"]
    reliable = single["reliability"]
    return Step(
        "One at a time, most are not missed",
        (
            f"{small} of {model['heads']} heads ({share:.0%}) change the loss by less than {limit} nats.",
            f"{single['harmful']} make it worse: without one of them the loss falls by more than {limit}.",
            f"One head, {worst['head']}, costs {worst['effect']:.2f} ± {worst['sem']:.2f} nats by itself.",
        ),
        "single",
        f"Effects of all heads in order: a long flat middle, and a steep end led by {worst['head']}.",
        (
            "So heads are unevenly useful. That much of the textbook answer holds here.",
            f"{worst['head']} is the largest of {model['heads']}, picked on this text; its size is a little flattered.",
            f"The ranking's split-half reliability is {reliable:.2f}; below 0.5 we would not rank at all."
            if reliable is not None
            else "How reliable the ranking is could not be computed.",
            f"Cheap scores against it: gradient, rank correlation {single['spearman_gradient']:.2f}; weight magnitude "
            f"{single['spearman_magnitude']:.2f}. Not all scores are alike.",
        ),
        how_measured(numbers) + " ± one standard error over examples.",
    )


def _together(numbers: dict[str, Any]) -> Step:
    together = numbers["together"]
    fractions, series = together["fractions"], together["series"]
    at = fractions.index(0.2)
    exact = series["exact"][0][at]
    random = np.array([seed[at]["change"] for seed in series["random"]])
    total = together["sum"]
    return Step(
        "Together, a good choice beats chance",
        (
            f"The fifth that looked least needed, off at once: {signed(exact['change'])} ± {exact['sem']:.2f} nats on "
            "held-out text.",
            f"A random fifth: {signed(random.mean())} nats, from {signed(random.min())} to {signed(random.max())} over "
            f"{len(random)} draws.",
            f"But effects do not add up: the single ones sum to {signed(total['sum'])}, together they make "
            f"{signed(total['joint'])} ± {total['sem']:.2f}.",
        ),
        "together",
        "Loss on held-out text against the share of heads off: ranked orders, and a band of random ones.",
        (
            "The ranked curve against the random band is what makes a ranking worth anything.",
            "The sum was taken on the text that gave the single effects, so the difference is interaction alone.",
            "Heads that stand in for each other each look spare; both together are not. So score again after a step.",
            "Without any retraining. Training on recovers much, for random cuts too (Prasanna et al. 2020).",
        ),
        how_measured(numbers),
    )


def _copying(numbers: dict[str, Any]) -> Step:
    copying = numbers["copying"]
    row = copying["rows"][0]
    chosen, random = row["induction"], row["random"]
    return Step(
        "Averages hide skills",
        (
            f"The {row['heads']} strongest induction heads off ({row['share']:.0%} of all): the stories cost "
            f"{signed(chosen['text'][0])} ± {chosen['text_sem'][0]:.2f} nats.",
            f"Copying a repeated block costs {signed(chosen['copy'][0])} ± {chosen['copy_sem'][0]:.2f}; its accuracy "
            f"goes from {copying['accuracy']:.0%} to {chosen['accuracy'][0]:.0%}.",
            f"Random heads, as many: {signed(np.mean(random['text']))} on stories, "
            f"{signed(np.mean(random['copy']))} on copying.",
        ),
        "copying",
        "Change of the loss on stories and on copying, for induction heads and for random ones.",
        (
            "Induction heads look for the last time the present token stood there, and copy what came next.",
            "They were chosen on one draw of random blocks and judged on another.",
            "Published for Llama-3-8B: up to about 32 % on pattern tasks (Crosbie and Shutova 2024, abstract); 1 % of "
            "the heads is enough by summaries of the paper.",
            "So choose a metric that can see what you would miss.",
        ),
        f"Copying: {copying['examples']} random blocks of tokens, twice in a row; {copying['tokens']} predictions. "
        + how_measured(numbers),
    )


def _follows(numbers: dict[str, Any]) -> Step:
    sums = numbers["arithmetic"]
    query, group = sums["kv-saved-by-query-head"], sums["kv-saved-by-groups"]
    return Step(
        "What follows, and what does not",
        (
            "More heads than inference needs is not “train with fewer”: from scratch the same heads were worse in 7 of "
            "7 settings, by 0.01 to 0.50 BLEU.",
            f"All attention is {sums['attention-share']['value']:.0f} % of this model's weights; half of it gone is "
            f"{sums['half-attention']['value']:.0f} %.",
            f"The cache falls by {query['value']:,.0f} bytes a token for one query head, by {group['value']:,.0f} for "
            "a key/value head in every layer.",
        ),
        "scratch",
        "Seven differences in BLEU between pruned models and the same heads trained from scratch, all above zero.",
        (
            "The figure is published (Voita et al. 2019, Table 2): single runs, no error bars, all on the same side.",
            "Against it: channels of image networks train as well from scratch (Liu et al. 2019).",
            "Speed comes from cutting, not masking: +1.9 % at batch 1, +17.5 % at 16-64 with half of BERT's heads "
            "gone (Michel et al. 2019, Table 4).",
            "The decision: prune after training, keep specialised heads, show a random control, measure the cut model.",
        ),
        "Published figure; arithmetic from this model's shape.",
    )

"""Which heads ``headlens prune`` takes out: those that are named, or the least important ones by a method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headlens.cli.inputs import load
from headlens.cli.output import say
from headlens.errors import HeadlensError

if TYPE_CHECKING:
    from headlens.cli.progress import Reporter
    from headlens.heads import HeadSet
    from headlens.lens import Lens
    from headlens.scores import HeadScores


@dataclass(frozen=True)
class Options:
    """What the command was asked for, as far as it concerns which heads go."""

    method: str | None
    fraction: float | None
    floor: int
    off: str | None
    unit: Any
    data: str | None
    split: Any
    metric: str | None
    ablation: Any
    signed: bool
    normalize: Any
    limit: int | None
    max_tokens: int
    batch_size: int | None
    seed: int
    resume: bool


@dataclass(frozen=True)
class Choice:
    """The heads that go, and how they were chosen (for ``headlens.json``)."""

    off: HeadSet
    facts: Mapping[str, Any] = field(default_factory=dict)


def check_choice(asked: Options) -> None:
    """Whether the options say which heads go, in one way; raises HeadlensError."""
    if (asked.off is None) == (asked.method is None):
        raise HeadlensError("say which heads go, in one way: --off HEADS, or --method NAME with --fraction F")
    if asked.off is not None and (asked.fraction is not None or asked.floor):
        raise HeadlensError("--fraction and --floor go with --method; leave them out beside --off")
    if asked.method is not None:
        if asked.fraction is None:
            raise HeadlensError(f"--method {asked.method} needs --fraction F, the share of the heads that go")
        if not 0 <= asked.fraction <= 1:
            raise HeadlensError(f"--fraction {asked.fraction:g}: give a share from 0 to 1, such as 0.3")
        if asked.fraction == 1:
            raise HeadlensError("every head of the model was chosen; leave some: give a smaller --fraction")


def choose(lens: Lens, asked: Options, reporter: Reporter) -> Choice:
    """The heads that go; scores are computed where a method was named."""
    if asked.off is not None:
        from headlens.cli.evaluate import parse_off

        return Choice(parse_off(lens, asked.off, whole_groups=asked.unit == "kv"))
    from headlens.pruning.order import count_for, lowest

    scores = _scores(lens, asked, reporter)
    say(scores.stability())
    if scores.no_signal:
        say("warning: these heads are as good as drawn at random; use other data, or name heads with --off")
    assert asked.fraction is not None
    count = count_for(asked.fraction, len(scores.columns()))
    facts = {**scores.describe(), "fraction": asked.fraction, "count": count, "floor": asked.floor}
    return Choice(lowest(scores, count, asked.floor), facts)


def _scores(lens: Lens, asked: Options, reporter: Reporter) -> HeadScores:
    """Scores on the score half (or what the options say), from the store where they are there."""
    from headlens.cli.importance import compute
    from headlens.data.encode import encode
    from headlens.importance import Request, method_for
    from headlens.metrics import metric_for
    from headlens.store import Store

    assert asked.method is not None
    method = method_for(asked.method)
    examples = None
    if method.needs:
        loaded = load(lens, asked.data, asked.split, asked.limit, asked.seed, default_split="score")
        examples = encode(lens, loaded, max_tokens=asked.max_tokens, seed=asked.seed)
    reporter.phase(f"{asked.method} of {lens.name}")
    request = Request(
        metric=metric_for(asked.metric, lens.task),
        data=examples,
        ablation=asked.ablation,
        unit=asked.unit,
        signed=asked.signed,
        seed=asked.seed,
        batch_size=asked.batch_size,
        store=Store(),
        resume=asked.resume,
        on_progress=reporter,
    )
    return compute(lens, method, request, asked.normalize)

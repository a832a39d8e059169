"""Puts a report together: measures what is missing, asks the folders for the rest, and says it in sentences."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import torch

from headlens.data.encode import encode
from headlens.pruning.benchmark import BenchmarkSpec
from headlens.pruning.names import spoken
from headlens.pruning.saved import versions
from headlens.report.choice import Why, choice_of
from headlens.report.limits import limits
from headlens.report.models import Subject, Subjects
from headlens.report.quality import Quality, quality
from headlens.report.samples import Samples, samples
from headlens.report.speed import Speed, fitting, speed
from headlens.report.training import Trained, trained

if TYPE_CHECKING:
    from headlens.data.dataset import DataSet
    from headlens.scores import HeadScores


@dataclass(frozen=True)
class ReportSpec:
    """What goes into a report.

    Attributes:
        title: at its top; None makes one.
        max_tokens, batch_size, seed: as for ``evaluate``.
        prompts: given to models that write, instead of the first held-out texts.
        samples: how many inputs are shown.
        new_tokens, temperature: of what is written.
        benchmark: how speed is measured; None leaves it out.
        command: the command that makes the report again.
        more_commands: others that belong beside it.
    """

    title: str | None = None
    max_tokens: int = 128
    batch_size: int = 8
    seed: int = 0
    prompts: tuple[str, ...] = ()
    samples: int = 3
    new_tokens: int = 32
    temperature: float = 0.0
    benchmark: BenchmarkSpec | None = field(default_factory=lambda: BenchmarkSpec(repeats=5))
    command: str = ""
    more_commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """Everything that the page shows.

    Attributes:
        title: at its top.
        made: when, in UTC.
        subjects: the models.
        models: one row a model: role, name, family, heads, parameters, fingerprint.
        summary: the most important sentences.
        quality, samples, speed, why, training: the sections; None where there is nothing to say.
        off: HEADS that went.
        limits, commands: one sentence, one command line each.
        environment: versions and machine, by name.
        spec: what was asked for.
    """

    title: str
    made: str
    subjects: Subjects
    models: tuple[Mapping[str, Any], ...]
    summary: tuple[str, ...]
    quality: Quality
    samples: Samples | None
    speed: Speed | None
    why: Why
    training: Trained | None
    off: str
    limits: tuple[str, ...]
    commands: tuple[str, ...]
    environment: Mapping[str, str]
    spec: ReportSpec

    def describe(self) -> dict[str, Any]:
        """The numbers and sentences, JSON-ready but for NaN."""
        return {
            "title": self.title,
            "models": list(self.models),
            "off": self.off,
            "sentences": list(self.summary),
            "data": self.quality.data,
            "data_hash": self.quality.data_hash,
            "examples": self.quality.examples,
            "quality": self.quality.describe(),
            "speed": None if self.speed is None else self.speed.facts,
            "samples": None if self.samples is None else [vars(one) for one in self.samples.samples],
            "limits": list(self.limits),
            "commands": list(self.commands),
            "environment": dict(self.environment),
        }


def make(
    subjects: Subjects,
    data: DataSet,
    spec: ReportSpec,
    *,
    scores: HeadScores | None = None,
    method: Any = None,
    on_progress: Callable[[int, int], None] | None = None,
    on_phase: Callable[[str], None] | None = None,
) -> Report:
    """Measures the models and puts the report together.

    Args:
        subjects: from :func:`headlens.report.models.open_subjects`.
        data: held-out examples.
        spec: what goes in.
        scores: of the heads of the full model, for the map; None shows only which heads went.
        method: the method that made them, for its formula and source.
        on_progress: called with (done, total) of the current phase; may raise Cancelled.
        on_phase: called with the title of each phase.

    Raises:
        HeadlensError: data or models that cannot be used.
    """
    phase = on_phase or (lambda _: None)
    phase("quality on held-out examples")
    encoded = encode(subjects.full.lens, data, max_tokens=spec.max_tokens, seed=spec.seed)
    good = quality(subjects, encoded, batch_size=spec.batch_size, on_progress=on_progress)
    said = None
    if spec.samples or spec.prompts:
        phase("sample outputs")
        said = samples(
            subjects,
            data,
            prompts=spec.prompts,
            count=spec.samples,
            new_tokens=spec.new_tokens,
            temperature=spec.temperature,
            max_tokens=spec.max_tokens,
            seed=spec.seed,
            on_progress=on_progress,
        )
    fast = None
    if spec.benchmark is not None:
        phase("speed")
        fast = speed(subjects, fitting(spec.benchmark, subjects), on_progress=on_progress)
    off = subjects.full.lens.topology.format(subjects.off)
    why = Why(
        chosen=choice_of(subjects),
        scores=scores,
        formula="" if method is None else str(method.formula),
        source="" if method is None else str(method.source),
        off=off,
        count=len(subjects.off),
        total=subjects.full.heads,
    )
    learned = trained(subjects)
    return Report(
        title=spec.title or _title(subjects),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        subjects=subjects,
        models=tuple(_row(one) for one in subjects.all),
        summary=tuple(_summary(subjects, why, good, fast, learned)),
        quality=good,
        samples=said,
        speed=fast,
        why=why,
        training=learned,
        off=off,
        limits=tuple(limits(subjects, good, fast, why, learned, spec.seed)),
        commands=tuple(_commands(subjects, spec)),
        environment=_environment(subjects),
        spec=spec,
    )


def _title(subjects: Subjects) -> str:
    name = subjects.full.lens.title or subjects.full.name
    if subjects.recovered is not None:
        return f"{name}: heads cut out, then trained for a short while"
    return f"{name}: heads cut out" if subjects.cut is not None else f"{name}: its attention heads"


def _row(one: Subject) -> dict[str, Any]:
    lens = one.lens
    return {
        "role": one.role,
        "name": spoken(one.name),
        "class": type(lens.model).__name__,
        "family": lens.family,
        "task": lens.task,
        "heads": one.heads,
        "parameters": lens.parameters,
        "fingerprint": lens.fingerprint,
        "notes": list(lens.notes),
    }


def _summary(subjects: Subjects, why: Why, good: Quality, fast: Speed | None, learned: Trained | None) -> list[str]:
    found = [why.sentence()]
    changed = subjects.changed
    if changed is not None:
        before, after = subjects.full.lens.parameters, changed.lens.parameters
        found.append(
            f"The model has {100 * (1 - after / before):.1f} % fewer parameters ({before:,} to {after:,}): attention "
            "heads are only a part of it."
        )
    found.append(good.sentence())
    if learned is not None:
        found += learned.sentences
    if fast is not None and changed is not None:
        found.append(fast.sentence())
    return found


def _commands(subjects: Subjects, spec: ReportSpec) -> list[str]:
    """How to make all of it again, in order."""
    found = []
    for one in (subjects.cut, subjects.recovered):
        told = None if one is None else one.sidecar.get("command")
        if isinstance(told, str) and told:
            found.append(told)
    return [*found, *spec.more_commands, *([spec.command] if spec.command else [])]


def _environment(subjects: Subjects) -> dict[str, str]:
    lens = subjects.full.lens
    device = str(lens.device)
    if lens.device.type == "cuda":
        device = f"{device} ({torch.cuda.get_device_name(lens.device)})"
    return {
        **versions(),
        "python": sys.version.split()[0],
        "device": device,
        "machine": f"{platform.system()} {platform.machine()}",
        "threads": str(torch.get_num_threads()),
        "dtype": str(lens.dtype).removeprefix("torch."),
    }

"""How fast and how big the full and the cut model are, and what of a difference is only noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headlens.errors import HeadlensError, ModelError
from headlens.pruning.benchmark import CUT, BenchmarkSpec, measure, sizes, variants
from headlens.pruning.benchmark_notes import describe

if TYPE_CHECKING:
    from headlens.report.models import Subjects


@dataclass(frozen=True)
class Speed:
    """Sizes and times.

    Attributes:
        facts: as :func:`headlens.pruning.benchmark_notes.describe` gives them.
        rounds, prompt, new: how it was measured.
        note: what stands beside it, for example that it could not be measured.
    """

    facts: Mapping[str, Any]
    rounds: int
    prompt: int
    new: int
    note: str = ""

    @property
    def changes(self) -> list[Mapping[str, Any]]:
        """Rows of the cut model, by phase and batch size."""
        return [row for row in self.facts["latency"] if row["variant"] == CUT]

    @property
    def noise(self) -> list[Mapping[str, Any]]:
        """Rows of the full model against itself."""
        return [row for row in self.facts["latency"] if row["variant"] == "full again"]

    def sentence(self) -> str:
        """What is clear and what is not."""
        clear = [row for row in self.changes if row["within_noise"] is False]
        total = len(self.changes)
        if not total:
            return "Only the full model was timed."
        if not clear:
            return f"None of the {total} measured times differs from the full model's by more than noise."
        parts = [f"{row['phase']} at batch {row['batch']} {100 * row['change']:+.1f} %" for row in clear]
        rest = f"; the other {total - len(clear)} within noise" if total > len(clear) else ""
        return f"Time of the cut model against the full one: {', '.join(parts)}{rest}."


def speed(subjects: Subjects, spec: BenchmarkSpec, *, on_progress: Callable[[int, int], None] | None = None) -> Speed:
    """Measures the full and the cut model in interleaved rounds; a recovered model has the cut one's shape.

    Raises:
        HeadlensError: a prompt that is too long for a model.
    """
    other = subjects.cut or subjects.recovered
    found = variants(subjects.full.lens, None if other is None else other.lens)
    names = {one.name: subjects.full.name for one in found}
    if other is not None:
        names[CUT] = other.name
    timings = measure(found, spec, on_progress=on_progress)
    measured = {
        one.name: sizes(one, bytes_on_disk=on_disk(names[one.name])) for one in found if one.name != "full again"
    }
    return Speed(describe(timings, measured), spec.repeats, spec.prompt, spec.new)


def on_disk(name: str) -> int | None:
    """Bytes of a model's weight files; None where they are not to be found any more."""
    from headlens.models.folders import weight_files
    from headlens.models.locating import locate

    try:
        return sum(path.stat().st_size for path in weight_files(locate(name).path))
    except (ModelError, OSError):
        return None


def fitting(spec: BenchmarkSpec, subjects: Subjects) -> BenchmarkSpec:
    """The same with a prompt that all models take."""
    limits = [one.lens.max_positions for one in subjects.all if one.lens.max_positions is not None]
    room = min(limits, default=spec.prompt + spec.new)
    if room >= spec.prompt + spec.new:
        return spec
    if room < 2:
        raise HeadlensError("the model takes one token only, so there is no benchmark; use --no-speed")
    new = min(spec.new, max(1, room // 4))
    return BenchmarkSpec(spec.batch_sizes, spec.repeats, room - new, new, spec.seed)

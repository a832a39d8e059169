"""Speed and size, measured honestly: full, masked and cut model side by side in interleaved rounds.

Every round runs every variant once in an order drawn anew, so that what the machine does meanwhile hits all alike; the
full model runs twice, and its difference from itself is the noise that a real difference has to exceed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from headlens.errors import HeadlensError
from headlens.heads import Head, HeadSet
from headlens.pruning.timing import Change, Spread, change, spread, within_noise
from headlens.pruning.workloads import Shape, Workload, kv_bytes_per_token

if TYPE_CHECKING:
    from headlens.heads import Topology
    from headlens.lens import Lens
    from headlens.pruning.memory_probe import Memory

FULL, AGAIN, MASKED, OTHER, CUT = "full", "full again", "masked", "other", "cut"
BATCH_SIZES = (1, 4, 16)
REPEATS = 10
WARMUP = 1


@dataclass(frozen=True)
class Variant:
    """One thing to measure.

    Attributes:
        name: ``full``, ``full again`` (the control), ``masked``, ``cut`` (or ``other``: not a cut of the first model).
        lens: its model.
        off: heads that are masked in it.
    """

    name: str
    lens: Lens
    off: HeadSet = field(default_factory=HeadSet)


@dataclass(frozen=True)
class Sizes:
    """How big a variant is; None where it could not be measured.

    Attributes:
        parameters: numbers in the model.
        bytes_in_memory: of its weights.
        bytes_on_disk: of its weight files.
        kv_bytes_per_token: see :func:`headlens.pruning.workloads.kv_bytes_per_token`.
        memory: peak memory in a process of its own.
        read_and_written: whether such a token is one that is read and one that is written (encoder-decoder models).
    """

    parameters: int
    bytes_in_memory: int
    bytes_on_disk: int | None
    kv_bytes_per_token: int | None
    memory: Memory | None
    read_and_written: bool = False


@dataclass(frozen=True)
class Timing:
    """Times of one variant, phase and batch size.

    Attributes:
        variant, phase, batch: what.
        seconds: wall seconds by round.
        tokens: tokens (pictures) that one timed unit handles.
        change: against the full model in the same rounds; None for the full model itself.
        noise: whether that may be noise; None where there is no change.
    """

    variant: str
    phase: str
    batch: int
    seconds: tuple[float, ...]
    tokens: int
    change: Change | None
    noise: bool | None

    @property
    def spread(self) -> Spread:
        """Median and quartiles in seconds."""
        return spread(self.seconds)

    @property
    def per_second(self) -> float:
        """Tokens (pictures) a second, from the median."""
        return self.tokens / self.spread.median


@dataclass(frozen=True)
class BenchmarkSpec:
    """How to measure.

    Attributes:
        batch_sizes: sequences side by side.
        repeats: rounds that count.
        prompt, new: tokens read and written.
        seed: draws tokens, orders and resamples.
    """

    batch_sizes: tuple[int, ...] = BATCH_SIZES
    repeats: int = REPEATS
    prompt: int = 64
    new: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.batch_sizes or min(self.batch_sizes) < 1:
            raise HeadlensError("batch sizes are whole numbers of at least 1, for example 1,4,16")
        if self.repeats < 3:
            raise HeadlensError(f"{self.repeats} repeats have no spread; take at least 3")
        if self.prompt < 1 or self.new < 1:
            raise HeadlensError("a prompt and what is written have at least 1 token each")


def variants(lens: Lens, other: Lens | None = None, off: HeadSet | None = None) -> list[Variant]:
    """The full model, the same again, and what else can be compared.

    Args:
        lens: the full model.
        other: a second model. If its heads are some of the first one's, it counts as its cut.
        off: heads to mask in the first; None masks those that a cut lacks.
    """
    found = [Variant(FULL, lens), Variant(AGAIN, lens)]
    cut = None if other is None else missing_heads(lens.topology, other.topology)
    masked = off if off is not None else cut
    if masked is not None and len(masked):
        found.append(Variant(MASKED, lens, masked))
    if other is not None:
        found.append(Variant(OTHER if cut is None else CUT, other))
    return found


def missing_heads(full: Topology, cut: Topology) -> HeadSet | None:
    """Heads of ``full`` that ``cut`` lacks; None where it cannot be a cut of it."""

    def shape(topology: Topology) -> list[tuple[str, list[tuple[int, int]]]]:
        return [(site.name, [(layer.original, layer.d_head) for layer in site.layers]) for site in topology.sites]

    if shape(full) != shape(cut):
        return None
    present: set[Head] = set(cut.heads())
    return None if not present <= set(full.heads()) else HeadSet.of(h for h in full.heads() if h not in present)


def sizes(variant: Variant, *, bytes_on_disk: int | None = None, memory: Memory | None = None) -> Sizes:
    """How big a variant is."""
    lens = variant.lens
    weights = sum(parameter.nbytes for parameter in lens.model.parameters())
    both = lens.task == "seq2seq"
    return Sizes(lens.parameters, weights, bytes_on_disk, kv_bytes_per_token(lens), memory, both)


def measure(
    found: Sequence[Variant], spec: BenchmarkSpec, *, on_progress: Callable[[int, int], None] | None = None
) -> list[Timing]:
    """Times every variant in interleaved rounds.

    Args:
        found: from :func:`variants`; the first is what the others are compared with, the second the same again.
        spec: how.
        on_progress: called with (done, total) measurements; may raise to cancel.

    Raises:
        HeadlensError: a prompt that is too long for a model.
    """
    loads = {
        (batch, one.name): Workload(one.lens, one.off, Shape(batch, spec.prompt, spec.new), seed=spec.seed)
        for batch in spec.batch_sizes
        for one in found
    }
    times: dict[tuple[int, str, str], list[float]] = {}
    total = (WARMUP + spec.repeats) * len(loads)
    for done, (turn, batch, name) in enumerate(_rounds(found, spec)):
        if on_progress is not None:
            on_progress(done, total)
        if turn < WARMUP:
            loads[batch, name].warm_up()
            continue
        for phase, seconds in loads[batch, name].measure().items():
            times.setdefault((batch, name, phase), []).append(seconds)
    if on_progress is not None:
        on_progress(total, total)
    return [
        _timing(loads[batch, one.name], one.name, phase, batch, times, spec)
        for phase in loads[spec.batch_sizes[0], found[0].name].phases
        for batch in spec.batch_sizes
        for one in found
        if (batch, one.name, phase) in times
    ]


def _rounds(found: Sequence[Variant], spec: BenchmarkSpec) -> Iterator[tuple[int, int, str]]:
    """(round, batch size, variant) in the order in which they are run."""
    rng = np.random.default_rng(spec.seed)
    for turn in range(WARMUP + spec.repeats):
        for batch in spec.batch_sizes:
            for index in rng.permutation(len(found)):
                yield turn, batch, found[int(index)].name


def _timing(
    load: Workload,
    name: str,
    phase: str,
    batch: int,
    times: dict[tuple[int, str, str], list[float]],
    spec: BenchmarkSpec,
) -> Timing:
    mine, full = tuple(times[batch, name, phase]), times.get((batch, FULL, phase))
    if name == FULL or full is None:
        return Timing(name, phase, batch, mine, load.tokens(phase), None, None)
    against = change(mine, full, seed=spec.seed)
    noise = change(times[batch, AGAIN, phase], full, seed=spec.seed)
    may_be_noise = None if name == AGAIN else within_noise(against, noise)
    return Timing(name, phase, batch, mine, load.tokens(phase), against, may_be_noise)

"""The lab's question and the arms that answer it: learn with few heads, or keep few of many?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headlens.errors import HeadlensError
from headlens.lab.arms import Arm
from headlens.lab.cost import with_equal_compute, with_equal_parameters, with_equal_width
from headlens.lab.specs import After, Architecture, RunSpec, Task, Training

LONGER = 10 / 3
"""Factor of "longer training": 2000 steps instead of 600."""


@dataclass(frozen=True)
class Question:
    """Is it easier to learn with ``small`` heads, or to keep ``small`` heads of ``large``?

    Attributes:
        small, large: numbers of heads.
        task, training: what both are trained on and how; the seed does not count.
        architecture: of both; its number of heads does not count.
        extra: steps of further training, where that is compared.
    """

    small: int
    large: int
    task: Task = field(default_factory=Task)
    training: Training = field(default_factory=Training)
    architecture: Architecture = field(default_factory=lambda: Architecture(4))
    extra: int = 300

    def __post_init__(self) -> None:
        if not 1 <= self.small < self.large:
            raise HeadlensError(f"pruning {self.large} heads to {self.small} is no comparison; prune many to fewer")

    def sized(self, heads: int) -> Architecture:
        """The architecture with that many heads."""
        return replace(self.architecture, heads=heads)

    def scratch(self, heads: int | None = None, *, checkpoints: bool = False) -> RunSpec:
        """A run from scratch; with more than ``small`` heads it is pruned to ``small`` afterwards."""
        heads = self.small if heads is None else heads
        prune_to = self.small if heads > self.small else None
        return RunSpec(self.task, self.sized(heads), self.training, prune_to=prune_to, checkpoints=checkpoints)

    def after(self, kind: str, heads: int) -> RunSpec:
        """Further training of a run from scratch with ``heads`` heads; a ticket is trained as long as that was."""
        steps = self.training.steps if kind == "ticket" else self.extra
        after = After(kind, self.small, steps, self.training.learning_rate)  # type: ignore[arg-type]
        return RunSpec(self.task, self.sized(heads), self.training, after=after)


def main_arms(question: Question, *, checkpoints: bool = False) -> list[Arm]:
    """Few heads from scratch, many from scratch, the many pruned to the few: greedily and at random."""
    q = question
    large = q.scratch(q.large, checkpoints=checkpoints)
    return [
        Arm("scratch", f"{q.small} heads from scratch", q.scratch()),
        Arm("large", f"{q.large} heads from scratch", large),
        Arm("pruned", f"{q.large} heads pruned to {q.small}, no retraining", large, "pruned"),
        Arm("random", f"{q.large} heads cut to {q.small} random ones, no retraining", large, "random"),
    ]


@dataclass(frozen=True)
class Control:
    """A question of fairness and the arms that answer it.

    Attributes:
        name: of the command line's ``--control``.
        title, why: for people.
        arms: from the question to further arms.
    """

    name: str
    title: str
    why: str
    arms: Callable[[Question], list[Arm]]


def _variant(question: Question, name: str, what: str, **changes: object) -> Arm:
    spec = replace(question.scratch(), **changes)  # type: ignore[arg-type]
    return Arm(name, f"{question.small} heads from scratch, {what}", spec)


def _equal_parameters(q: Question) -> list[Arm]:
    architecture = with_equal_parameters(q.sized(q.small), q.sized(q.large), q.task)
    return [_variant(q, "equal-parameters", f"MLP of {architecture.mlp}", architecture=architecture)]


def _equal_compute(q: Question) -> list[Arm]:
    steps = with_equal_compute(q.sized(q.small), q.sized(q.large), q.task, q.training.steps)
    return [_variant(q, "equal-compute", f"{steps} steps", training=replace(q.training, steps=steps))]


def _longer(q: Question) -> list[Arm]:
    steps = round(LONGER * q.training.steps)
    return [_variant(q, "longer", f"{steps} steps", training=replace(q.training, steps=steps))]


def _learning_rates(q: Question) -> list[Arm]:
    low, high = (q.training.learning_rate / 3, min(1.0, q.training.learning_rate * 10 / 3))
    longer = replace(q.training, learning_rate=low, steps=round(LONGER * q.training.steps))
    return [
        _variant(q, "lower-rate", f"learning rate {low:.2g}", training=replace(q.training, learning_rate=low)),
        _variant(q, "lower-rate-longer", f"learning rate {low:.2g}, {longer.steps} steps", training=longer),
        _variant(q, "higher-rate", f"learning rate {high:.2g}", training=replace(q.training, learning_rate=high)),
    ]


def _wider_heads(q: Question) -> list[Arm]:
    architecture = with_equal_width(q.sized(q.small), q.sized(q.large))
    return [_variant(q, "wider-heads", f"each {architecture.d_head} wide", architecture=architecture)]


def _extra_steps(q: Question) -> list[Arm]:
    more = f"then {q.extra} more steps"
    return [
        Arm("continued", f"{q.small} heads from scratch, {more}", q.after("continued", q.small)),
        Arm("pruned-continued", f"{q.large} heads pruned to {q.small}, {more}", q.after("pruned", q.large)),
        Arm("random-continued", f"{q.large} heads cut to {q.small} random ones, {more}", q.after("random", q.large)),
    ]


def _lottery(q: Question) -> list[Arm]:
    title = f"the {q.small} survivors of {q.large}, back at their initial weights and trained anew"
    return [Arm("ticket", title, q.after("ticket", q.large))]


def _elsewhere(question: Question, name: str, where: str) -> list[Arm]:
    """The main arms of another question."""
    return [
        replace(arm, name=f"{name}-{arm.name}", title=f"{arm.title}, {where}")
        for arm in main_arms(question)
        if arm.name != "large"
    ]


def more_distances(task: Task) -> Task:
    """The task with two more distances, as far from the others as they can be without making it longer."""
    distances = set(task.distances)
    for _ in range(2):
        free = [d for d in range(1, task.first) if d not in distances]
        if not free:
            raise HeadlensError("there is no room for more distances; choose a longer sequence or other distances")
        distances.add(max(free, key=lambda d: (min(abs(d - other) for other in distances), -d)))
    return replace(task, distances=tuple(sorted(distances)))


def _more_distances(q: Question) -> list[Arm]:
    task = more_distances(q.task)
    extra = len(task.distances) - len(q.task.distances)
    other = replace(q, task=task, small=q.small + extra, large=q.large + 2 * extra)
    return _elsewhere(other, "more-distances", f"distances {','.join(map(str, task.distances))}")


def _fewer_heads(q: Question) -> list[Arm]:
    if q.small < 2:
        raise HeadlensError("there are no fewer heads than one; choose more heads")
    fewer = replace(q, small=q.small - 1)
    return _elsewhere(fewer, "fewer-heads", f"for {len(q.task.distances)} distances")


def _other_shape(q: Question) -> list[Arm]:
    shape = "qwen3" if q.architecture.shape == "llama" else "llama"
    other = replace(q, architecture=replace(q.architecture, shape=shape))
    return _elsewhere(other, f"shape-{shape}", f"{shape}-shaped")


def _larger_alphabet(q: Question) -> list[Arm]:
    task = replace(q.task, symbols=min(64, q.task.symbols * 8))
    return _elsewhere(replace(q, task=task), "alphabet", f"{task.symbols} symbols")


CONTROLS: dict[str, Control] = {
    control.name: control
    for control in (
        Control("equal-parameters", "Equal parameters", "Many heads bring more parameters.", _equal_parameters),
        Control("equal-compute", "Equal compute", "Many heads cost more to train.", _equal_compute),
        Control("longer", "Longer training", "Few heads may only be slower.", _longer),
        Control("learning-rates", "Other learning rates", "The rate may suit one side only.", _learning_rates),
        Control("wider-heads", "Fewer but wider heads", "Many heads are wider in all.", _wider_heads),
        Control("extra-steps", "The same extra steps", "What pruning breaks, training may mend.", _extra_steps),
        Control(
            "lottery",
            "Lottery ticket",
            "Is it the survivors' initial weights, or their training? (With fresh weights they would be few heads from "
            "scratch.)",
            _lottery,
        ),
        Control("more-distances", "More distances", "The result may hold for one task only.", _more_distances),
        Control("fewer-heads", "Fewer heads than distances", "A head can serve two distances.", _fewer_heads),
        Control("other-shape", "The other shape", "It may hang on how attention is built.", _other_shape),
        Control("alphabet", "A larger alphabet", "Bits may be too easy or too hard.", _larger_alphabet),
    )
}
"""All controls. Random pruning and more seeds need none: the one is in every run, the other is the number of seeds."""


def controls(names: list[str]) -> list[Control]:
    """The controls of those names, each once; raises HeadlensError naming what exists."""
    for name in names:
        if name not in CONTROLS:
            raise HeadlensError(f"unknown control {name[:40]!r}; choose from {', '.join(CONTROLS)}")
    return [CONTROLS[name] for name in dict.fromkeys(names)]

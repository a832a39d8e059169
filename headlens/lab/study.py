"""A study: the runs that a list of head counts, seeds and controls asks for, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headlens.errors import HeadlensError
from headlens.lab.arms import Arm, Tally, tally
from headlens.lab.questions import Control, Question, main_arms
from headlens.lab.results import RunResult
from headlens.lab.specs import Architecture, RunSpec, Task, Training
from headlens.lab.verdicts import (
    Verdict,
    against_control,
    chosen_or_random,
    keep_or_learn,
    kept_what_was_learnt,
    success_against_heads,
)

MAX_RUNS = 2000


@dataclass(frozen=True)
class Study:
    """Heads from scratch, more heads pruned, and controls.

    Attributes:
        heads: numbers of heads that are trained from scratch, ascending.
        small: how many heads pruning keeps.
        seeds: one run each.
        task, training, architecture: of all runs.
        extra: further steps, where a control compares them.
        controls: further arms.
        checkpoints: whether the prunable share is measured along the training.
    """

    heads: tuple[int, ...]
    small: int
    seeds: tuple[int, ...]
    task: Task = field(default_factory=Task)
    training: Training = field(default_factory=Training)
    architecture: Architecture = field(default_factory=lambda: Architecture(4))
    extra: int = 300
    controls: tuple[Control, ...] = ()
    checkpoints: bool = False

    def __post_init__(self) -> None:
        if not self.heads:
            raise HeadlensError("there is no number of heads; give some, for example 4,8,16")
        if len(set(self.heads)) < len(self.heads):
            raise HeadlensError(f"a number of heads is named twice in {','.join(map(str, self.heads))}")
        for heads in (*self.heads, self.small):
            Architecture(heads)
        if not self.seeds:
            raise HeadlensError("there is no seed; give at least 1")
        Training(self.extra)
        if self.controls and max(self.heads) <= self.small:
            raise HeadlensError(
                f"controls compare {self.small} heads with more, and none of {','.join(map(str, self.heads))} is more; "
                f"add for example {2 * self.small} heads"
            )
        if len(self.specs()) > MAX_RUNS:
            raise HeadlensError(f"these are {len(self.specs())} runs; ask for at most {MAX_RUNS}")

    def question(self, large: int) -> Question:
        """The question whether ``small`` heads are better learnt or kept of ``large``."""
        return Question(self.small, large, self.task, self.training, self.architecture, self.extra)

    @property
    def larger(self) -> list[int]:
        """Numbers of heads that are pruned."""
        return [heads for heads in sorted(self.heads) if heads > self.small]

    def arms(self) -> list[Arm]:
        """All arms, each once: from scratch by number of heads, then what is pruned, then controls."""
        scratch = {h: self._scratch(h) for h in sorted(self.heads)}
        pruned = [
            Arm(f"{outcome}-{large}", arm.title, scratch[large].template, outcome)
            for large in self.larger
            for arm in main_arms(self.question(large))
            if (outcome := arm.outcome) != "trained"
        ]
        further = [arm for control in self.controls for arm in self.control_arms(control)]
        return [*scratch.values(), *pruned, *further]

    def control_arms(self, control: Control) -> list[Arm]:
        """Arms of a control, which compares ``small`` with the smallest larger number of heads."""
        return control.arms(self.question(self.larger[0]))

    def _scratch(self, heads: int) -> Arm:
        larger = heads > self.small
        spec = RunSpec(
            self.task,
            Architecture(heads, self.architecture.shape, self.architecture.d_head, *self._widths()),
            self.training,
            prune_to=self.small if larger else None,
            checkpoints=self.checkpoints and larger,
        )
        return Arm(f"scratch-{heads}", f"{heads} head{'s' if heads > 1 else ''} from scratch", spec)

    def _widths(self) -> tuple[int, int]:
        return self.architecture.width, self.architecture.mlp

    def specs(self) -> list[RunSpec]:
        """All runs, each once."""
        return list(dict.fromkeys(spec for arm in self.arms() for spec in arm.runs(self.seeds)))

    def tallies(self, results: Mapping[RunSpec, RunResult]) -> dict[str, Tally]:
        """What has ended so far, by arm."""
        return {arm.name: tally(arm, self.seeds, results) for arm in self.arms()}

    def verdicts(self, tallies: Mapping[str, Tally]) -> list[Verdict]:
        """All comparisons, in words."""
        said: list[Verdict] = []
        scratch = tallies.get(f"scratch-{self.small}")
        for large in self.larger:
            pruned = tallies[f"pruned-{large}"]
            if scratch is not None:
                said.append(keep_or_learn(pruned, scratch))
            said.append(chosen_or_random(pruned, tallies[f"random-{large}"]))
        for control in self.controls:
            said.extend(self.control_verdicts(control, tallies))
        return said

    def remarks(self, tallies: Mapping[str, Tally]) -> list[str]:
        """What else the runs say, without comparing two ways."""
        kept = [kept_what_was_learnt(tallies[f"scratch-{large}"], tallies[f"pruned-{large}"]) for large in self.larger]
        scratch = [tallies[f"scratch-{heads}"] for heads in self.heads]
        return [said for said in (*kept, success_against_heads(scratch)) if said]

    def control_verdicts(self, control: Control, tallies: Mapping[str, Tally]) -> list[Verdict]:
        """What a control says: its own two sides where it has them, else its arms against pruning."""
        arms = self.control_arms(control)
        own = {arm.outcome: tallies[arm.name] for arm in arms}
        if "pruned" in own:
            scratch = next(tallies[arm.name] for arm in arms if arm.outcome == "trained")
            return [keep_or_learn(own["pruned"], scratch)]
        pruned = tallies[f"pruned-{self.larger[0]}"]
        return [against_control(tallies[arm.name], pruned) for arm in arms]


def record(study: Study, results: Mapping[RunSpec, RunResult]) -> dict[str, Any]:
    """The record of the command ``lab``: runs, summary, verdicts, remarks; plain values."""
    tallies = study.tallies(results)
    runs = [run_row(results[spec]) for spec in study.specs() if spec in results]
    verdicts = [
        {"first": v.first, "second": v.second, "decision": v.decision, "fisher_p": v.p, "sentence": v.sentence}
        for v in study.verdicts(tallies)
    ]
    return {
        "runs": runs,
        "summary": [t.row() for t in tallies.values()],
        "verdicts": verdicts,
        "remarks": study.remarks(tallies),
    }


def run_row(result: RunResult) -> dict[str, Any]:
    """One run as the contract has it, with what else one may want to know."""
    spec, after = result.spec, result.spec.after
    return {
        "heads": len(result.heads),
        "seed": spec.training.seed,
        "steps": spec.steps,
        "loss_bits": result.loss_bits,
        "found": list(result.found),
        "pruned_to": spec.prune_to,
        "pruned_loss_bits": result.pruned_loss_bits,
        "seconds": result.seconds,
        "loss_sem": result.loss_sem,
        "bits_by_distance": {
            str(distance): bits for distance, bits in zip(spec.task.distances, result.by_distance, strict=True)
        },
        "random_loss_bits": list(result.random_bits),
        "kept": None if result.kept is None else list(result.kept),
        "success": result.succeeded,
        "kind": "scratch" if after is None else after.kind,
        "from_heads": spec.architecture.heads if after is not None else None,
        "before_bits": result.before_bits,
        "shape": spec.architecture.shape,
        "d_head": spec.architecture.d_head,
        "width": spec.architecture.width,
        "mlp": spec.architecture.mlp,
        "distances": list(spec.task.distances),
        "symbols": spec.task.symbols,
        "length": spec.task.length,
        "batch": spec.training.batch,
        "learning_rate": after.learning_rate if after is not None else spec.training.learning_rate,
        "parameters": result.parameters,
        "training_flops": result.flops,
    }

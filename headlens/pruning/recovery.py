"""Recovery: a cut model is trained for a short while, and measured before and after on examples it never saw."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headlens.data.encode import encode
from headlens.errors import HeadlensError
from headlens.evaluate import Measured
from headlens.pruning.checkpoints import Checkpoints
from headlens.pruning.outcomes import Outcome, Yardstick
from headlens.pruning.recovery_spec import RecoverySpec
from headlens.pruning.training import Stopped, Training
from headlens.pruning.training_data import Feed, RecoveryData
from headlens.pruning.training_state import Progress, State
from headlens.server import limits
from headlens.store import unit_key

if TYPE_CHECKING:
    from headlens.lens import Lens

ENDINGS: Mapping[Stopped, str] = {
    "all steps": "all steps were made",
    "no better": "it stopped early: the watched examples got no better",
    "asked": "it was asked to stop",
    "not a number": "it stopped because the loss was no number any more; take a smaller learning rate",
}


@dataclass(frozen=True)
class Recovered:
    """A training that ended.

    Attributes:
        lens: the model, with the weights of the best evaluation.
        spec: how it was trained.
        rate: the highest learning rate.
        metric: ``loss``, or ``drift`` for bare encoders.
        before, after: on the reported examples.
        state: evaluations, steps, seconds.
        stopped: why it ended.
        data: what was trained on, watched and reported, JSON-ready.
        checkpoints: where its state was kept.
    """

    lens: Lens
    spec: RecoverySpec
    rate: float
    metric: str
    before: Outcome
    after: Outcome
    state: State
    stopped: Stopped
    data: Mapping[str, Any]
    checkpoints: Checkpoints

    def forget(self) -> None:
        """Removes the kept state; for those who asked :func:`recover` to leave it."""
        self.checkpoints.remove()

    @property
    def change(self) -> Measured:
        """The metric after (``value``) against before (``baseline``), with the paired error."""
        return self.after.against(self.before, self.metric)

    def sentence(self) -> str:
        """What it brought, with its error bar."""
        change, examples = self.change, len(self.before.sums[f"weight/{self.metric}"])
        where = f"on {examples} examples that were neither trained nor chosen on"
        if not self.state.best_step:
            return (
                f"No step of {self.state.step} was better than none on the watched examples, so the model is as it "
                f"was: {self.metric} {change.value:.4g} {where}."
            )
        error = "" if math.isnan(change.delta_sem) else f" ± {change.delta_sem:.2g}"
        return (
            f"{self.metric.capitalize()} {change.baseline:.4g} before, {change.value:.4g} after "
            f"{self.state.best_step} steps ({change.delta:+.3g}{error}, standard error of the paired difference) "
            f"{where}; {ENDINGS[self.stopped]}."
        )

    def describe(self) -> dict[str, Any]:
        """Everything but the weights, JSON-ready (NaN where a number does not exist)."""
        change = self.change
        return {
            "metric": self.metric,
            "before": change.baseline,
            "before_sem": change.baseline_sem,
            "after": change.value,
            "after_sem": change.sem,
            "delta": change.delta,
            "delta_sem": change.delta_sem,
            **_both("loss", self.before, self.after),
            **_both("accuracy", self.before, self.after),
            **_both("drift", self.before, self.after),
            "objective": self.spec.objective,
            "steps": self.spec.steps,
            "steps_done": self.state.step,
            "best_step": self.state.best_step,
            "stopped": self.stopped,
            "seconds": round(self.state.seconds, 3),
            "learning_rate": self.rate,
            "spec": self.spec.decides(),
            "data": dict(self.data),
            "curve": [curve_point(point) for point in self.state.points],
            "sentence": self.sentence(),
        }


def curve_point(point: Progress) -> dict[str, Any]:
    """One evaluation, JSON-ready; ``train`` is null at step 0."""
    return {
        "step": point.step,
        "train": None if math.isnan(point.train) else point.train,
        "watched": point.watched,
        "watched_sem": None if math.isnan(point.watched_sem) else point.watched_sem,
        "best": point.best,
        "seconds": point.seconds,
    }


def _both(name: str, before: Outcome, after: Outcome) -> dict[str, float | None]:
    return {
        f"{name}_{when}": one.value(name)[0] if one.has(name) else None
        for when, one in (("before", before), ("after", after))
    }


def recover(
    lens: Lens,
    data: RecoveryData,
    spec: RecoverySpec,
    *,
    full: Lens | None = None,
    max_tokens: int = 128,
    batch_size: int = 8,
    resume: bool = True,
    keep_in: Path | None = None,
    leave_state: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    on_phase: Callable[[str], None] | None = None,
    on_point: Callable[[Progress], None] | None = None,
    on_best: Callable[[State], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Recovered:
    """Trains ``lens`` for a short while and measures it before and after.

    Where it stands is kept in the cache folder, also if the process is killed; the same call goes on from there and
    ends with the same bits (on one machine and with as many threads). The kept state is removed at the end.

    Args:
        lens: a model in float32 that **nobody else uses**: its weights change.
        data: from :func:`headlens.pruning.training_data.recovery_data`.
        spec: how.
        full: the model that it was cut from: the teacher, and what the drift is measured from.
        max_tokens: cut of each example.
        batch_size: examples a forward pass where nothing is trained.
        resume: go on from the kept state.
        keep_in: folder for kept states; None takes the cache folder.
        leave_state: keep the state also at the end, so that a later call has the result at once.
        on_progress: called with (done, total) of the current phase; may raise Cancelled.
        on_phase: called with the title of each phase.
        on_point: called with each evaluation of the watched examples (also with those before a break).
        on_best: called when the model is the best so far (and after a break): then its weights may be saved.
        should_stop: asked before each step; True ends it with the best so far, and the same call goes on later.

    Raises:
        HeadlensError: data or model cannot be used; another process is at the very same training.
    """
    limits.current().check_training()
    spec, metric = _fitting(lens, spec, full)
    phase = on_phase or (lambda _: None)
    watch, report = (encode(lens, one, max_tokens=max_tokens, seed=spec.seed) for one in (data.watch, data.report))
    feed = Feed(
        lens, data.train, per_step=spec.per_step, rows=spec.rows or spec.per_step, max_tokens=max_tokens, seed=spec.seed
    )
    teacher = full if spec.objective == "distill" else None
    key = unit_key(
        kind="recovery",
        model=lens.fingerprint,
        train=feed.hash,
        watch=watch.hash,
        metric=metric,
        teacher=None if teacher is None else teacher.fingerprint,
        # The distance that is watched depends on the full model also where nothing is learned from it.
        full=full.fingerprint if full is not None and metric == "drift" else None,
        spec=spec.decides(),
    )
    checkpoints = Checkpoints(key, keep_in)
    with checkpoints.locked():
        if not resume:
            checkpoints.clear()
        yardstick = Yardstick(report, full, batch_size=batch_size)
        phase("measuring before")
        before = yardstick.measure(lens, on_progress)
        phase("training")
        training = Training(
            lens,
            feed,
            Yardstick(watch, full if metric == "drift" else None, batch_size=batch_size),
            metric,
            spec,
            teacher=teacher,
            checkpoints=checkpoints,
            on_progress=on_progress,
            on_point=on_point,
            on_best=on_best,
            should_stop=should_stop,
        )
        stopped = training.run()
        phase("measuring after")
        after = yardstick.measure(lens, on_progress)
        if not leave_state and stopped != "asked":
            checkpoints.remove()
    facts = {
        "train": data.train.name,
        "train_split": data.train.split,
        "train_examples": len(feed),
        "watched_examples": len(watch),
        "report": data.report.name,
        "report_split": data.report.split,
        "report_examples": len(report),
        "report_predictions": report.tokens,
        "train_hash": feed.hash,
        "watch_hash": watch.hash,
        "report_hash": report.hash,
        "max_tokens": max_tokens,
        "notes": list(data.notes),
    }
    return Recovered(lens, spec, training.highest, metric, before, after, training.state, stopped, facts, checkpoints)


def _fitting(lens: Lens, spec: RecoverySpec, full: Lens | None) -> tuple[RecoverySpec, str]:
    """The spec as it applies to the model, and the watched metric."""
    if lens.task == "embedding":
        if full is None:
            raise HeadlensError(
                f"{lens.name} has no task head, so only the full model can teach it; name that with --teacher MODEL"
            )
        return replace(spec, objective="distill"), "drift"
    if spec.objective == "distill" and full is None:
        raise HeadlensError("distillation needs the full model; name it with --teacher MODEL")
    return spec, "loss"

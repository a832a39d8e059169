"""The training loop of a recovery: AdamW in float32, evaluated on watched examples, kept on disk, resumable to the bit.

Dropout stays off: the training is short and stops early, and so nothing depends on the state of a random generator.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

import torch

from headlens.errors import Cancelled, HeadlensError
from headlens.pruning.objectives import summed_loss, weight_of
from headlens.pruning.optimizer import adamw, model_width, packed, take, trained_parameters, unpacked
from headlens.pruning.recovery_spec import RecoverySpec, default_rate
from headlens.pruning.training_state import Progress, State

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.lens import Lens
    from headlens.pruning.checkpoints import Checkpoints
    from headlens.pruning.outcomes import Yardstick
    from headlens.pruning.training_data import Feed

KEEP_SECONDS = 60.0
"""A state is kept at every evaluation, and when the last one is older than this."""
KEEP_SHARE = 0.05
"""But between evaluations the writing takes no larger share of the time than this."""
Stopped = Literal["all steps", "no better", "asked", "not a number"]


class Training:
    """Trains a model that nobody else uses; when it ends, the model has the weights of the best evaluation.

    Args:
        lens: the model, in float32.
        feed: what it is trained on.
        watch: measures the watched examples; lower is better.
        metric: the watched metric, ``loss`` or ``drift``.
        spec: how.
        teacher: for distillation.
        checkpoints: where the state is kept; None keeps nothing.
        on_progress: called with (steps done, steps) before each step; may raise Cancelled, and the state is kept then.
        on_point: called with each evaluation.
        on_best: called when the model has just become the best so far (not at step 0), and once after a break.
        should_stop: asked before each step; True ends the training with the best so far.
    """

    def __init__(
        self,
        lens: Lens,
        feed: Feed,
        watch: Yardstick,
        metric: str,
        spec: RecoverySpec,
        *,
        teacher: Lens | None = None,
        checkpoints: Checkpoints | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        on_point: Callable[[Progress], None] | None = None,
        on_best: Callable[[State], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        self.lens, self.feed, self.watch, self.metric, self.spec = lens, feed, watch, metric, spec
        self.teacher, self.checkpoints = teacher, checkpoints
        self.on_progress, self.on_point, self.on_best = on_progress, on_point, on_best
        self.should_stop = should_stop or (lambda: False)
        self.trained = trained_parameters(lens, freeze_embeddings=spec.freeze_embeddings)
        self.highest = spec.learning_rate or default_rate(model_width(lens))
        self.optimizer = adamw(self.trained, spec)
        self.state = State()
        self.best: dict[str, Tensor] = {}
        self._kept_at, self._keeping_took = time.monotonic(), 0.0

    def run(self) -> Stopped:
        """Trains, from the kept state where there is one; returns why it ended."""
        self.lens.model.requires_grad_(False)
        try:
            for parameter in self.trained.values():
                parameter.requires_grad_(True)
            if not self._restore():
                self._evaluate()
                self._keep()
            stopped = self._steps()
        finally:
            self.lens.model.requires_grad_(False)
            self.optimizer.zero_grad(set_to_none=True)
            vars(self.lens).pop("fingerprint", None)  # other weights, another fingerprint
        take(self.best, self.trained)
        return stopped

    def _steps(self) -> Stopped:
        state, spec = self.state, self.spec
        while state.step < spec.steps:
            if spec.patience and state.stale >= spec.patience:
                return "no better"
            if self.should_stop():
                self._keep(evaluated=False)
                return "asked"
            self._report()
            started = time.monotonic()
            mean = self._step(state.step)
            state.seconds += time.monotonic() - started
            if not math.isfinite(mean):
                return "not a number"
            state.step += 1
            state.objective.append(mean)
            if state.step % spec.interval == 0 or state.step == spec.steps:
                self._evaluate()
                self._keep()
            elif time.monotonic() - self._kept_at > max(KEEP_SECONDS, self._keeping_took / KEEP_SHARE):
                self._keep(evaluated=False)
        self._report()
        return "all steps"

    def _report(self) -> None:
        if self.on_progress is None:
            return
        try:
            self.on_progress(self.state.step, self.spec.steps)
        except Cancelled:
            self._keep(evaluated=False)
            raise

    def _step(self, number: int) -> float:
        """One step; returns the mean of the objective over its predictions, before the step."""
        batches = self.feed.batches(number)
        weight = sum(weight_of(batch) for batch in batches)
        total = 0.0
        for batch in batches:
            with torch.enable_grad():
                loss = summed_loss(self.lens, batch, self.spec.objective, self.teacher, self.spec.temperature) / weight
                loss.backward()
            total += float(loss.detach())
        if not math.isfinite(total):
            self.optimizer.zero_grad(set_to_none=True)
            return total
        torch.nn.utils.clip_grad_norm_(list(self.trained.values()), self.spec.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = self.spec.rate(number, self.highest)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total

    def _evaluate(self) -> None:
        """Measures the watched examples, and remembers the weights if they are the best so far."""
        state = self.state
        value, sem = self.watch.measure(self.lens).value(self.metric)
        since = state.objective[state.points[-1].step :] if state.points else []
        better = value < state.best
        point = Progress(
            state.step, sum(since) / len(since) if since else math.nan, value, sem, better, round(state.seconds, 3)
        )
        state.points.append(point)
        if not state.step and not math.isfinite(value):
            raise HeadlensError(
                f"the {self.metric} of {self.lens.name} is no number before any training; nothing to recover"
            )
        state.stale = 0 if better else state.stale + 1
        if better:
            state.best, state.best_step = value, state.step
            self.best = {name: parameter.detach().clone() for name, parameter in self.trained.items()}
        if self.on_point is not None:
            self.on_point(point)

    def _keep(self, *, evaluated: bool = True) -> None:
        """Writes where it stands; then tells of a new best, which is safe by now."""
        state, fresh = self.state, evaluated and self.state.best_step == self.state.step
        started = time.monotonic()
        if self.checkpoints is not None:
            tensors: dict[str, Mapping[str, Tensor]] = {"last": packed(self.trained, self.optimizer)}
            if fresh:
                tensors["best"] = self.best
            self.checkpoints.save(state.to_json(), tensors)
        self._kept_at = time.monotonic()
        self._keeping_took = self._kept_at - started
        if fresh and state.step and self.on_best is not None:
            self.on_best(state)

    def _restore(self) -> bool:
        """Takes up the kept state; False where there is none that fits."""
        kept = None if self.checkpoints is None else self.checkpoints.load()
        if kept is None:
            return False
        last, best = (kept.tensors.get(name, {}) for name in ("last", "best"))
        shapes = {name: parameter.shape for name, parameter in self.trained.items()}
        weights = {name: last.get(f"weight/{name}") for name in shapes}
        for found in (weights, best):
            if {name: getattr(tensor, "shape", None) for name, tensor in found.items()} != shapes:
                return False
        self.state = State.from_json(kept.facts)
        self.best = {name: tensor.to(self.lens.device) for name, tensor in best.items()}
        if self.state.best_step and self.on_best is not None:  # whoever saves it may have been killed before that
            take(self.best, self.trained)
            self.on_best(self.state)
        unpacked(self.trained, self.optimizer, last)
        if self.on_point is not None:
            for point in self.state.points:
                self.on_point(point)
        return True

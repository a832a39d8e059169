"""What ``headlens recover`` computes, once its options are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headlens.cli.output import say
from headlens.cli.progress import Reporter
from headlens.errors import Cancelled, ModelError

if TYPE_CHECKING:
    from headlens.lens import Lens
    from headlens.models.loading import Loaded
    from headlens.pruning.recovery import Recovered
    from headlens.pruning.recovery_spec import RecoverySpec
    from headlens.pruning.recovery_table import RecoveryTable
    from headlens.pruning.saved import Saved
    from headlens.pruning.training_data import RecoveryData
    from headlens.pruning.training_state import Progress, State


class RecoverWork:
    """The computations of this command, with what they share."""

    def __init__(
        self,
        model: str,
        target: Path,
        spec: RecoverySpec,
        device: str,
        max_tokens: int,
        batch_size: int | None,
        *,
        resume: bool,
        reporter: Reporter,
    ) -> None:
        self.model, self.target, self.spec, self.device = model, target, spec, device
        self.max_tokens, self.batch_size, self.resume, self.reporter = max_tokens, batch_size or 8, resume, reporter
        self.notes: list[str] = []
        self.command = ""
        self.full: Lens | None = None
        self.state: State | None = None
        self.points: list[Progress] = []

    def open(self, teacher: str | None, *, needed: bool, wanted: bool) -> None:
        """The cut model, and the full one where it is needed or at hand."""
        from headlens.lens import Lens
        from headlens.models.loading import load
        from headlens.pruning.recovered_folder import check_can_recover

        self.reporter.phase(f"opening {self.model}")
        self.loaded: Loaded = load(self.model, device=self.device, dtype="float32")
        check_can_recover(self.loaded)
        self.lens = Lens(self.loaded)
        self.notes += [note for note in self.loaded.notes if "pruned_heads" in note]
        if self.loaded.sidecar is None:
            self.notes.append(f"{self.model} is no cut model, so this is plain fine-tuning")
        if needed or self.lens.task == "embedding" or teacher is not None:
            self._open_full(teacher)
        elif wanted and self.loaded.sidecar is not None:
            try:
                self._open_full(None)
            except ModelError as error:
                self.notes.append(f"the full model is left out of the comparison: {error}")
        if teacher is not None and self.spec.objective == "task" and self.lens.task != "embedding":
            self.notes.append("--teacher is only compared with; add --distill to learn from it")

    def _open_full(self, teacher: str | None) -> None:
        from headlens.pruning.full_model import open_full

        self.reporter.phase("opening the full model")
        self.full = open_full(self.lens, self.loaded.sidecar, teacher, device=self.device)

    def examples(self, data: str | None, held_out: str | None, split: Any, limit: int | None) -> RecoveryData:
        """What is trained on, watched and reported."""
        from headlens.pruning.chosen_on import chosen_on, warning
        from headlens.pruning.full_model import check_same_reading
        from headlens.pruning.training_data import recovery_data

        found = recovery_data(self.lens, data, held_out=held_out, split=split, limit=limit, seed=self.spec.seed)
        self.notes += found.notes
        choice = (self.loaded.sidecar or {}).get("choice") or {}
        if chosen_on(choice, found.report.name, found.report.split, self.spec.seed):
            self.notes.append(warning(choice))
        if self.full is not None:
            check_same_reading(self.full, self.lens, found.report)
        return found

    def recover(self, examples: RecoveryData, *, leave_state: bool) -> Recovered:
        """The training; the best so far is always in the folder."""
        from headlens.pruning.recovery import recover

        try:
            return recover(
                self.lens,
                examples,
                self.spec,
                full=self.full,
                max_tokens=self.max_tokens,
                batch_size=self.batch_size,
                resume=self.resume,
                leave_state=leave_state,
                on_progress=self.reporter,
                on_phase=self.reporter.phase,
                on_point=self._point,
                on_best=self._best,
            )
        except (KeyboardInterrupt, Cancelled) as stop:
            how = "the same command" if self.resume else "the same command without --no-resume"
            raise Cancelled(f"{self._kept()}; {how} goes on from there") from stop

    def _kept(self) -> str:
        if self.state is not None:
            return f"the best so far (step {self.state.best_step}) is in {self.target}"
        return "no step was better than the cut model yet, so no folder was written"

    def _point(self, point: Progress) -> None:
        self.points.append(point)
        train = "" if point.train != point.train else f"training {point.train:.4f}, "
        mark = " (best so far)" if point.best and point.step else ""
        say(f"step {point.step} of {self.spec.steps}: {train}watched {point.watched:.4f}{mark}")

    def _best(self, state: State) -> None:
        from headlens.pruning.recovered_folder import save_recovered, unfinished

        save_recovered(self.loaded, self.target, unfinished(state, self.command))
        self.state = state

    def save(self, found: Recovered, compared: RecoveryTable | None) -> Saved:
        """The folder with the final numbers."""
        from headlens.pruning.recovered_folder import finished, save_recovered

        self.reporter.phase(f"writing {self.target}")
        return save_recovered(self.loaded, self.target, finished(found, self.command, compared))

    def table(self, found: Recovered, examples: RecoveryData, cuts: int, *, full_too: bool) -> RecoveryTable:
        """Full, cut, recovered, and the controls."""
        from headlens.pruning.random_cuts import Control
        from headlens.pruning.recovery_table import recovery_table
        from headlens.store import Store

        choice = (self.loaded.sidecar or {}).get("choice") or {}
        control = Control(
            cuts=cuts,
            full_too=full_too,
            unit=choice.get("unit"),
            floor=int(choice.get("floor") or 0),
            max_tokens=self.max_tokens,
            batch_size=self.batch_size,
            resume=self.resume,
            store=Store(),
        )
        try:
            return recovery_table(
                found, examples, self.full, control, on_progress=self.reporter, on_phase=self.reporter.phase
            )
        except (KeyboardInterrupt, Cancelled) as stop:
            raise Cancelled(
                f"the recovered model is in {self.target}; the same command goes on with the controls"
            ) from stop

"""Brief fine-tuning of the cut model on a page: a live loss curve, and the control that most papers leave out."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.charts.recovery import recovery_comparison, recovery_curve
from headlens.models.folders import SIDECAR
from headlens.ui import background, cache, inputs, words
from headlens.ui.jobs import Job
from headlens.ui.prune_cut import open_folder, recovered_folder

if TYPE_CHECKING:
    from headlens.pruning.recovery import Recovered
    from headlens.pruning.recovery_table import RecoveryTable
    from headlens.pruning.training_state import Progress, State
    from headlens.ui.choices import Chosen
    from headlens.ui.prune_cut import Made

OBJECTIVES = {
    "task": "the task's own loss",
    "distill": "being like the full model (distillation)",
}
_TRAINING = threading.Lock()
"""One training of this server at a time: two would take each other's cores."""


@dataclass(frozen=True)
class Recovery:
    """What the job found; plain numbers and words, no model."""

    folder: Path
    sentence: str
    described: dict[str, Any]
    table: RecoveryTable


def section(chosen: Chosen, made: Made | None) -> None:
    """Draws the choices, the work and the result."""
    if made is None:
        st.caption("Cut heads out first; then the smaller model can be trained for a short while to win quality back.")
        return
    if chosen.data.split == "all":
        st.caption(
            "On this page recovery trains on built-in sets; for your own text: `headlens recover FOLDER --data FILE`."
        )
        return
    options = _options(chosen)
    st.caption(
        "Trained on the score half, judged on the held-out half, stopped early when a watched part of the score half "
        "gets no better. Random cuts of as many heads, trained the same way, show whether the choice of heads mattered."
    )
    key = ("recover", chosen.lens.fingerprint, str(made.folder), chosen.data.name, tuple(options.items()))
    if not background.is_shown("recover", key):
        st.button(
            "Recover",
            key="recover_start",
            icon=":material/healing:",
            on_click=lambda: background.start("recover", key, "Recovery", _work(chosen, made, options)),
        )
        return
    job = background.job_of("recover")
    if job is not None and job.partial:
        metric = "drift" if chosen.lens.task == "embedding" else "loss"  # what is watched, see recover()
        figure = recovery_curve(
            job.partial,
            metric,
            objective=options["objective"],
            steps=options["steps"],
            dark=st.context.theme.type == "dark",
        )
        said = so_far(job.partial, metric, options["steps"])
        st.plotly_chart(figure, width="stretch", key="fig_recovery", alt=said)
        st.markdown(words.plain(said))
    if job is not None and job.status == "cancelled":
        _kept(job, recovered_folder(made))
    job = background.finished("recover", key)
    if job is None:
        return
    found: Recovery = job.result
    st.markdown(words.plain(found.sentence))
    _table(found.table)
    told = found.table.sentences()
    figure = recovery_comparison(found.table, dark=st.context.theme.type == "dark")
    st.plotly_chart(figure, width="stretch", key="fig_recovered", alt=" ".join(told))
    for line in told:
        st.markdown("- " + words.plain(line))
    st.button(
        "Look at the recovered model",
        key="recovered_open",
        icon=":material/open_in_new:",
        on_click=open_folder,
        args=(found.folder,),
    )


def so_far(points: Sequence[Progress], metric: str, steps: int) -> str:
    """Where a training stands, in one sentence."""
    first, last = points[0], points[-1]
    best = min(points, key=lambda point: point.watched)
    if best is first:
        gained = f"no step was better yet than none ({metric} {first.watched:.4g} on the watched examples)"
    else:
        gained = (
            f"{metric} on the watched examples {first.watched:.4g} before, {best.watched:.4g} at step {best.step}, the "
            "best so far"
        )
    return f"Step {last.step} of at most {steps}: {gained}."


def _kept(job: Job, folder: Path) -> None:
    """What a stopped training leaves."""
    best = max((point.step for point in job.partial or () if point.best), default=0)
    if not best or not (folder / SIDECAR).is_file():
        st.caption("No step was better than the cut model yet, so there is nothing to take home.")
        return
    st.caption(
        f"The best so far, step {best}, is kept: it can be looked at and goes into the report. Going on resumes."
    )
    st.button(
        "Look at the best so far", key="best_open", icon=":material/open_in_new:", on_click=open_folder, args=(folder,)
    )


def _options(chosen: Chosen) -> dict[str, Any]:
    first = "distill" if chosen.lens.task == "embedding" else "task"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        objective = inputs.choice("Trained for", "recover_objective", OBJECTIVES, first=first, kind="select", width=300)
        steps = inputs.number("Steps, at most", "recover_steps", 60, 1, 2000, 170)
        control = inputs.number("Random cuts beside it", "recover_control", 0, 0, 5, 170)
    if chosen.lens.task == "embedding":
        objective = "distill"
    return {"objective": objective, "steps": steps, "control": control}


def _work(chosen: Chosen, made: Made, options: dict[str, Any]) -> Any:
    def work(job: Job) -> Recovery:
        job.phase("Waiting for another training on this server")
        with job.holding(_TRAINING):
            return _train(chosen, made, options, job)

    return work


def _train(chosen: Chosen, made: Made, options: dict[str, Any], job: Job) -> Recovery:
    from headlens.lens import Lens
    from headlens.models.loading import load
    from headlens.pruning.random_cuts import Control
    from headlens.pruning.recovered_folder import finished, save_recovered, unfinished
    from headlens.pruning.recovery import recover
    from headlens.pruning.recovery_spec import RecoverySpec
    from headlens.pruning.recovery_table import recovery_table
    from headlens.pruning.training_data import recovery_data

    job.phase("Opening the cut model")
    loaded = load(str(made.folder), device="auto", dtype="float32")
    lens = Lens(loaded)  # its own copy: its weights change
    data = recovery_data(lens, chosen.data.name)
    spec = RecoverySpec(steps=options["steps"], objective=options["objective"])
    points: list[Any] = []

    def note(point: Any) -> None:
        points.append(point)
        job.publish(tuple(points))

    folder = recovered_folder(made)
    command = _command(made.folder.name, chosen.data.name, options, folder.name)

    def best(state: State) -> None:
        save_recovered(loaded, folder, unfinished(state, command))

    shared: dict[str, Any] = {"on_progress": job.progress, "on_phase": job.phase}
    # The state stays until the controls are done, so that nothing is trained twice where they are cancelled.
    more: dict[str, Any] = {"leave_state": options["control"] > 0, "on_point": note, "on_best": best, **shared}
    result: Recovered = recover(lens, data, spec, full=chosen.lens, **more)
    if options["control"]:  # the controls take long; what is recovered is whole before
        job.phase("Writing the recovered model")
        save_recovered(loaded, folder, finished(result, command))
    choice = made.facts.get("choice") or {}
    control = Control(
        cuts=options["control"], unit=choice.get("unit"), floor=int(choice.get("floor") or 0), store=cache.store()
    )
    table = recovery_table(result, data, chosen.lens, control, **shared)
    save_recovered(loaded, folder, finished(result, command, table))
    result.forget()
    return Recovery(folder, result.sentence(), result.describe(), table)


def _command(cut: str, data: str, options: Mapping[str, Any], out: str) -> str:
    """The command that does the same."""
    parts = ["headlens", "recover", cut, "--data", data, "--steps", str(options["steps"])]
    parts += ["--distill"] if options["objective"] == "distill" else []
    parts += ["--control", str(options["control"])] if options["control"] else []
    return shlex.join([*parts, "--out", out])


def _table(table: RecoveryTable) -> None:
    import pandas as pd

    rows = []
    for row in table.rows:
        value, error = row.outcome.value(table.metric)
        name = row.name if row.seed is None else f"{row.name} (seed {row.seed})"
        rows.append(
            {
                "model": name,
                "heads": str(row.heads),
                f"held-out {table.metric}": f"{value:.4f} ± {error:.4f}",
                "steps": "" if row.best_step is None else f"{row.best_step} of {row.steps}",
            }
        )
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
    for note in table.notes:
        st.caption(words.plain(note))

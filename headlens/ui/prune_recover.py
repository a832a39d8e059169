"""Brief fine-tuning of the cut model on a page: a live loss curve, and the control that most papers leave out."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.charts.training import training_curve
from headlens.ui import background, cache, state, words
from headlens.ui.jobs import Job

if TYPE_CHECKING:
    from headlens.pruning.recovery import Recovered
    from headlens.pruning.recovery_table import RecoveryTable
    from headlens.pruning.training_state import State
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
        dark = st.context.theme.type == "dark"
        st.plotly_chart(
            training_curve(job.partial, metric=chosen.metric, dark=dark), width="stretch", key="fig_recovery"
        )
    if job is not None and job.status == "cancelled":
        _kept(job, recovered_folder(made))
    job = background.finished("recover", key)
    if job is None:
        return
    found: Recovery = job.result
    st.markdown(words.plain(found.sentence))
    _table(found.table)
    for line in found.table.sentences():
        st.markdown("- " + words.plain(line))
    st.button(
        "Look at the recovered model",
        key="recovered_open",
        icon=":material/open_in_new:",
        on_click=_open,
        args=(found.folder,),
    )


def recovered_folder(made: Made) -> Path:
    """Where the recovered model goes, and the best so far."""
    return made.folder.with_name(f"{made.folder.name}-recovered")


def _kept(job: Job, folder: Path) -> None:
    """What a stopped training leaves."""
    best = max((point.step for point in job.partial or () if point.best), default=0)
    if not best or not (folder / "headlens.json").is_file():
        st.caption("No step was better than the cut model yet, so there is nothing to take home.")
        return
    st.caption(
        f"The best so far, step {best}, is kept: it can be looked at and goes into the report. Going on resumes."
    )
    st.button("Look at the best so far", key="best_open", icon=":material/open_in_new:", on_click=_open, args=(folder,))


def _options(chosen: Chosen) -> dict[str, Any]:
    first = "distill" if chosen.lens.task == "embedding" else "task"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        objective = _choice("recover_objective", "Trained for", OBJECTIVES, first)
        steps = _number("Steps, at most", "recover_steps", 60, 1, 2000)
        control = _number("Random cuts beside it", "recover_control", 0, 0, 5)
    if chosen.lens.task == "embedding":
        objective = "distill"
    return {"objective": objective, "steps": steps, "control": control}


def _choice(name: str, label: str, titles: dict[str, str], first: str) -> str:
    key = f"_{name}"
    state.fill(key, state.remember(name, first))
    st.selectbox(
        label,
        list(titles),
        key=key,
        format_func=titles.__getitem__,
        width=300,
        on_change=lambda: st.session_state.update({f"hl_{name}": st.session_state[key]}),
    )
    return st.session_state[f"hl_{name}"]


def _number(label: str, name: str, first: int, least: int, most: int) -> int:
    key = f"_{name}"
    state.fill(key, state.remember(name, first))
    st.number_input(
        label,
        least,
        most,
        key=key,
        width=170,
        on_change=lambda: st.session_state.update({f"hl_{name}": int(st.session_state[key] or least)}),
    )
    return int(st.session_state[f"hl_{name}"])


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
    command = f"headlens recover {made.folder.name} --data {chosen.data.name} --steps {spec.steps} --out {folder.name}"
    if spec.objective == "distill":
        command += " --distill"

    def best(state: State) -> None:
        save_recovered(loaded, folder, unfinished(state, command))

    shared: dict[str, Any] = {"on_progress": job.progress, "on_phase": job.phase}
    result: Recovered = recover(lens, data, spec, full=chosen.lens, on_point=note, on_best=best, **shared)
    job.phase("Writing the recovered model")
    save_recovered(loaded, folder, finished(result, command))
    control = Control(cuts=options["control"], unit=chosen.unit, store=cache.store())  # type: ignore[arg-type]
    table = recovery_table(result, data, chosen.lens, control, **shared)
    return Recovery(folder, result.sentence(), result.describe(), table)


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


def _open(folder: Path) -> None:
    state.put("model", str(folder))
    state.put("data", "")
    state.forget_switches()
    state.publish_url()

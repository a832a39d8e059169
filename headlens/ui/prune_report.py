"""The single-file report about the cut (and recovered) model, made on demand."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.models.folders import SIDECAR, file_hash
from headlens.ui import background, cache
from headlens.ui.jobs import Job
from headlens.ui.prune_cut import recovered_folder

if TYPE_CHECKING:
    from headlens.pruning.points import Curve
    from headlens.ui.choices import Chosen
    from headlens.ui.prune_cut import Made


def section(chosen: Chosen, made: Made | None, found: Curve | None) -> None:
    """Draws the button, the work and the download."""
    if made is None:
        return
    if chosen.data.split == "all":
        st.caption(
            "On this page reports are about built-in sets; on your own text: `headlens report FOLDER --data FILE`."
        )
        return
    recovered = recovered_folder(made)
    told = recovered / SIDECAR
    with_recovered = recovered if told.is_file() else None
    version = file_hash(told) if with_recovered is not None else ""  # a training that went on makes another report
    key = ("report", chosen.lens.fingerprint, chosen.data.name, str(made.folder), version)
    if not background.is_shown("report", key):
        st.button(
            "Write the report (HTML)",
            key="report_start",
            icon=":material/description:",
            help="One file for reading anywhere: quality with error bars, samples, speed, which heads and why.",
            on_click=lambda: background.start("report", key, "The report", _work(chosen, made, with_recovered, found)),
        )
        return
    job = background.finished("report", key)
    if job is not None:
        name = f"{made.folder.name}-report.html"
        st.download_button(
            "Report (HTML)",
            job.result,
            name,
            "text/html",
            key="save_report",
            on_click="ignore",
            icon=":material/download:",
        )


def _work(chosen: Chosen, made: Made, recovered: Path | None, found: Curve | None) -> Any:
    def work(job: Job) -> str:
        from headlens.data.select import load_data
        from headlens.importance import METHODS
        from headlens.report.make import ReportSpec, make
        from headlens.report.models import names_for, open_subjects
        from headlens.report.render import render

        names = names_for(chosen.lens.name, str(made.folder), None if recovered is None else str(recovered))
        subjects = open_subjects(names, cache.open_lens, job.phase)
        data = load_data(chosen.data.name, task=chosen.lens.task, split="held-out")
        files = [Path(name).name for name in (chosen.lens.name, made.folder, recovered) if name is not None]
        command = shlex.join(["headlens", "report", *files, "--data", chosen.data.name, "--out", "report.html"])
        report = make(
            subjects,
            data,
            ReportSpec(command=command),
            scores=None if found is None else found.scores,
            method=None if found is None else METHODS[found.scores.method],
            on_progress=job.progress,
            on_phase=job.phase,
        )
        return render(report)

    return work

"""Every layer with one head alone (Michel et al., Tables 2 and 3), on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.charts.curve import one_head_left
from headlens.ui import background, cache, words
from headlens.ui.jobs import Job
from headlens.ui.prune_curve import held_out

if TYPE_CHECKING:
    from headlens.pruning.all_but_one import AllButOne
    from headlens.ui.choices import Chosen


def section(chosen: Chosen) -> None:
    """Draws the button, the work and the figure."""
    key = ("one head", chosen.lens.fingerprint, chosen.data.hash, chosen.metric, chosen.ablation, chosen.unit)
    with st.expander("One layer at a time: does one head do for it?", expanded=background.is_shown("one_head", key)):
        st.caption(
            "All heads of a layer but one are switched off; the one that stays is chosen on the score half, and the "
            "change is reported on the held-out half. Michel et al. 2019 found that most layers do with one head, and "
            "that the last cross-attention layer loses 13.56 BLEU (Tables 2 and 3)."
        )
        if not background.is_shown("one_head", key):
            st.button(
                "Measure every layer",
                key="one_head_start",
                on_click=lambda: background.start("one_head", key, "One head a layer", _work(chosen)),
            )
            return
        job = background.finished("one_head", key)
        if job is None:
            return
        found: AllButOne = job.result
        said = found.sentence()
        st.markdown(words.plain(said))
        dark = st.context.theme.type == "dark"
        st.plotly_chart(one_head_left(found, dark=dark), width="stretch", key="fig_one_head", alt=said)


def _work(chosen: Chosen) -> Any:
    reported = held_out(chosen)

    def work(job: Job) -> AllButOne:
        from headlens.metrics import metric_for
        from headlens.pruning.all_but_one import all_but_one
        from headlens.switches import as_ablation

        return all_but_one(
            chosen.lens,
            chosen.data,
            reported,
            metric_for(chosen.metric, chosen.lens.task),
            unit=chosen.unit,  # type: ignore[arg-type]
            ablation=as_ablation(chosen.ablation),
            store=cache.store(),
            on_progress=job.progress,
            on_phase=job.phase,
        )

    return work

"""Skills along the pruning curve, on demand: which one goes while the loss still looks fine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.charts.skills import skill_curve
from headlens.ui import background, words
from headlens.ui.skills import applies, prober_of

if TYPE_CHECKING:
    from headlens.probes.along import SkillCurve
    from headlens.pruning.points import Curve
    from headlens.ui.choices import Chosen
    from headlens.ui.jobs import Job

SECTION = "skill_curve"
PAIRS = 24
"""Pairs of each skill at every point."""


def section(chosen: Chosen, found: Curve | None) -> None:
    """Draws the button, the work, the figure and its sentence; nothing where no curve is drawn or no skill applies."""
    if found is None or not applies(chosen.lens):
        return
    points = [point.result.off for point in found.series("ranked")]
    offs = tuple(chosen.lens.topology.format(off) for off in points)
    key = (SECTION, chosen.lens.fingerprint, chosen.ablation, offs)
    st.subheader("Skills along the curve", divider=False)
    if not background.is_shown(SECTION, key):
        st.caption(
            f"Asks up to {PAIRS} minimal pairs of every skill at each of the {len(points)} points of the ranked order: "
            "the loss may look fine where a skill is gone."
        )
        st.button(
            "Ask about skills along the curve",
            key="skill_curve_start",
            icon=":material/psychology_alt:",
            on_click=lambda: background.start(SECTION, key, "Skills along the curve", _work(chosen, found)),
        )
        return
    job = background.finished(SECTION, key)
    if job is not None:
        _draw(job.result)


def _work(chosen: Chosen, curve: Curve) -> Any:
    def work(job: Job) -> SkillCurve:
        from headlens.probes.along import points_of, skills_along
        from headlens.switches import as_ablation

        prober = prober_of(chosen.lens, PAIRS)
        return skills_along(prober, points_of(curve), ablation=as_ablation(chosen.ablation), on_progress=job.progress)

    return work


def _draw(found: SkillCurve) -> None:
    said = found.sentence()
    st.markdown(words.plain(said))
    if not found.skills:
        return
    figure = skill_curve(found, dark=st.context.theme.type == "dark")
    st.plotly_chart(figure, width="stretch", key="fig_skill_curve", alt=said, config={"displayModeBar": False})
    with st.expander("The same in numbers"):
        st.dataframe(found.to_frame(), hide_index=True, width="stretch", key="skill_curve_table")
    st.caption(
        "Only skills that the model has with all heads on. Bars: exact 95 % intervals. Lost: an exact McNemar test "
        "at 5 %, corrected for the number of skills and of points, and not above guessing any more."
    )

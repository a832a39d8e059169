"""The families page: the same few figures for every model at hand, side by side, with the published numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from headlens.errors import HeadlensError
from headlens.families.measures import MEASURES
from headlens.ui import background, families_tables, families_work, inputs, replicate, state, words
from headlens.ui.families_work import SECTION
from headlens.ui.sidebar import refresh, sidebar_with_lens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headlens.families.measures import Measure
    from headlens.families.row import Row

INTRO = (
    "What is said of BERT and of translation models is measured here on every model at hand: heads are chosen on the "
    "score half of the model's own text and judged on the held-out half, and the published number stands beside it."
)


def show() -> None:
    """Draws the page."""
    opened = sidebar_with_lens("families")
    st.title("Does it hold in every family?")
    st.caption(INTRO)
    try:
        _families()
        if opened is not None:
            replicate.section(opened.lens)
    except HeadlensError as error:
        st.error(words.plain(str(error)), icon=":material/error:")
    if opened is not None and opened.chosen is not None:
        refresh(opened.chosen)
    state.whole_page(False)


def _families() -> None:
    wanted = families_work.names()
    found = families_work.rows(wanted)
    missing = [name for name in wanted if name not in found]
    running = background.busy(SECTION)
    _offer(missing, running)
    job = background.job_of(SECTION)
    version = 0 if job is None else job.version
    st.fragment(run_every=background.poll_seconds() if running else None)(_progress)(running, version)
    for name, why in families_work.skipped().items():
        st.caption(words.plain(f"Left out: {name} ({why})."))
    rows = [found[name] for name in wanted if name in found]
    if not rows:
        st.info("No model is measured yet. Figures appear here one model after the other.", icon=":material/hourglass:")
        return
    _compare(rows)
    families_tables.in_words(rows)
    families_tables.download(rows)


def _offer(missing: Sequence[str], running: bool) -> None:
    """The button that measures what is missing, with its cost."""
    if not missing or running:
        return
    from headlens.estimates import short

    many = f"the {len(missing)} missing models" if len(missing) > 1 else f"the missing model, {missing[0]}"
    st.button(
        words.plain(f"Run {many} (about {short(max(1.0, families_work.seconds(missing)))})"),
        key="families_start",
        type="primary",
        icon=":material/play_arrow:",
        on_click=families_work.start,
        args=(missing,),
    )
    st.caption(
        words.plain(f"Not measured yet: {', '.join(missing)}. ")
        + "The guess is for two free processor cores. It can be cancelled: every finished figure is kept, also for "
        "`headlens families` and the page Claims."
    )


def _progress(running: bool, version: int) -> None:
    """Progress and cancel; a model that is done draws the page again."""
    job = background.job_of(SECTION)
    if job is not None:
        background.finished(SECTION, job.key)
    changed = job is not None and job.version != version
    if (changed or running != background.busy(SECTION)) and not state.is_whole_page():
        state.rerun()


def _compare(rows: Sequence[Row]) -> None:
    """One figure at a time: its sentence, the models side by side, and the table."""
    from headlens.charts.families import side_by_side
    from headlens.families.sentences import measured, sentence

    measure = _measure()
    said = sentence(measure, rows)
    st.markdown(words.plain(said))
    shown = measured(measure, rows)
    if shown:
        dark = st.context.theme.type == "dark"
        figure = side_by_side(measure, rows, dark=dark)
        st.plotly_chart(figure, width="stretch", key="fig_families", alt=said, config={"displayModeBar": False})
    st.caption(words.plain(f"{measure.check.rule}"))
    families_tables.table(measure, rows)


def _measure() -> Measure:
    titles = {measure.name: measure.title for measure in MEASURES}
    current = inputs.choice("Figure", "families_measure", titles)
    return next(measure for measure in MEASURES if measure.name == current)

"""Presenter mode, for every page: a fixed story in five steps, in large type, on numbers that were measured beforehand.

It is in the address (``?present=2`` is step 2), so Back and Forward turn pages and a link opens the right one. It opens
no model and computes nothing, so nothing is waited for on stage.
"""

from __future__ import annotations

import html

import streamlit as st

from headlens.charts import story as figures
from headlens.errors import HeadlensError
from headlens.interview.story import VOITA, Step, Story, load_story
from headlens.ui import state, words

STEPS = 5
_STYLE = """<style>
.st-key-presenter h1 { font-size: clamp(1.8rem, 3.6vw, 3.2rem); padding: 0 0 0.6rem; }
.st-key-presenter_lines p { font-size: clamp(1.2rem, 2.1vw, 2rem); line-height: 1.35; margin-bottom: 1rem; }
.st-key-presenter_notes p, .st-key-presenter_notes li { font-size: 1.1rem; }
</style>"""


@st.cache_resource(show_spinner=False)
def _story() -> Story:
    return load_story()


def step() -> int:
    """The step that is presented, 1 to 5; 0 when nobody presents."""
    return int(state.get("present") or 0)


def start() -> None:
    """Begins at the first step; the page that is open comes back afterwards."""
    state.put("present", "1")


def _go(number: int) -> None:
    state.put("present", str(number) if number else "")


def show() -> None:
    """Draws the step in place of the page."""
    st.html(_STYLE)
    number = step()
    try:
        story = _story()
    except HeadlensError as error:
        st.error(words.plain(str(error)), icon=":material/error:")
        st.button("Leave presenter mode", key="_present_leave", on_click=_go, args=(0,))
        return
    told = story.steps[number - 1]
    with st.container(key="presenter"):
        st.caption(f"Step {number} of {STEPS}")
        st.title(words.plain(told.title), anchor=False)
        left, right = st.columns([5, 6], gap="large")
        with left, st.container(key="presenter_lines"):
            for line in told.lines:
                st.markdown(words.plain(line))
        with right:
            figure = _figure(told, story)
            st.plotly_chart(
                figure, width="stretch", key=f"fig_story_{number}", alt=told.alt, config={"displayModeBar": False}
            )
        st.caption(words.plain(told.small))
    _turn(number)
    _notes(told, story)


def _figure(told: Step, story: Story) -> object:
    dark = st.context.theme.type == "dark"
    numbers = story.numbers
    drawn = {
        "map": lambda: figures.head_map(numbers["single"]["grid"], dark=dark),
        "single": lambda: figures.ordered_effects(numbers["single"]["grid"], dark=dark),
        "together": lambda: figures.curves(numbers["together"], dark=dark),
        "copying": lambda: figures.copying(numbers["copying"]["rows"], dark=dark),
        "scratch": lambda: figures.gaps(VOITA, dark=dark),
    }
    return drawn[told.picture]()


def _turn(number: int) -> None:
    with st.container(horizontal=True):
        st.button(
            "Back",
            key="_present_back",
            on_click=_go,
            args=(number - 1,),
            disabled=number == 1,
            icon=":material/arrow_back:",
            shortcut="PageUp",
        )
        st.button(
            "Next step",
            key="_present_next",
            on_click=_go,
            args=(number + 1,),
            disabled=number == STEPS,
            type="primary",
            icon=":material/arrow_forward:",
            shortcut="PageDown",
        )
        st.button("Leave presenter mode", key="_present_leave", on_click=_go, args=(0,), type="tertiary")


def _notes(told: Step, story: Story) -> None:
    """What the speaker says; folded away, since the audience sees this page."""
    shown = state.remember("present_notes", False)
    state.fill("_present_notes", shown)
    st.toggle(
        "Speaker notes",
        key="_present_notes",
        on_change=lambda: st.session_state.update(hl_present_notes=st.session_state["_present_notes"]),
        help="Hidden from the audience until you switch them on. Or print them beforehand.",
    )
    if shown:
        with st.container(border=True, key="presenter_notes"):
            st.markdown("\n".join(f"- {words.plain(note)}" for note in told.notes))
    st.download_button(
        "All notes, to print",
        notes_page(story),
        "speaker-notes.html",
        "text/html",
        key="_present_print",
        type="tertiary",
    )


def notes_page(story: Story) -> str:
    """All steps with their notes as one HTML page that needs nothing else."""
    parts = []
    for number, told in enumerate(story.steps, 1):
        lines = "".join(f"<p><b>{html.escape(line)}</b></p>" for line in told.lines)
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in told.notes)
        parts.append(
            f"<section><h2>{number}. {html.escape(told.title)}</h2>{lines}<ul>{notes}</ul>"
            f"<p><small>{html.escape(told.small)}</small></p></section>"
        )
    style = (
        "body{font:12pt/1.4 system-ui,sans-serif;max-width:46em;margin:1em auto;padding:0 1em}"
        "section{break-inside:avoid}"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Speaker notes</title>'
        f"<style>{style}</style></head><body><h1>Attention heads in five steps</h1>{''.join(parts)}</body></html>"
    )

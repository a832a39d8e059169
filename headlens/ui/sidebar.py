"""The sidebar that every page draws: where am I, which model, which text, which score, what is off."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import streamlit as st

from headlens.errors import HeadlensError
from headlens.server import limits
from headlens.ui import cache, presenter, state, words
from headlens.ui.choices import Chosen, choices, encode_for
from headlens.ui.components.theme_watch import theme_watch
from headlens.ui.engines import engine_choice

if TYPE_CHECKING:
    from headlens.lens import Lens

__all__ = ["Chosen", "Opened", "encode_for", "open_late", "refresh", "sidebar", "sidebar_with_lens"]

PAGES = (
    ("app.py", "Heads", ":material/grid_view:"),
    ("pages/attention.py", "Attention", ":material/visibility:"),
    ("pages/switchboard.py", "Switchboard", ":material/toggle_on:"),
    ("pages/prune.py", "Prune", ":material/content_cut:"),
    ("pages/lab.py", "Lab", ":material/science:"),
    ("pages/families.py", "Families", ":material/compare:"),
    ("pages/claims.py", "Claims", ":material/fact_check:"),
    ("pages/interview.py", "Interview", ":material/school:"),
)
_STYLE = """<style>
.stMainBlockContainer { padding: 2.6rem 2.2rem 3rem; }
.stMainBlockContainer h1 { font-size: 1.7rem; padding: 0 0 0.4rem; }
.stMainBlockContainer h2 { font-size: 1.35rem; padding: 0.6rem 0 0.3rem; }
.stMainBlockContainer h3 { font-size: 1.15rem; padding: 0 0 0.3rem; }
@media (max-width: 640px) { .stMainBlockContainer { padding: 4.4rem 0.8rem 2rem; } }
.st-key-theme_watch { display: none; }
.stApp [kind^="primary"], .stMultiSelect [data-tag] { color: light-dark(#ffffff, #11151c); }
.stApp [kind^="primary"] kbd { opacity: 1; }
.stCheckbox svg { stroke: light-dark(#ffffff, #11151c); }
</style>"""
"""Less air than Streamlit's own, so that the switches and what they do fit on one screen; and dark ink on the primary
colour of the dark theme, which is too light for Streamlit's white."""
READY, ELSEWHERE = "Ready offline", "From the hub or a folder"


@dataclass(frozen=True)
class Opened:
    """What the sidebar gives a page that needs a model but no text: ``chosen`` is None where there is no text."""

    lens: Lens
    chosen: Chosen | None


def page_list(page: str) -> None:
    """The sidebar of a page that needs no model: the way back, with the state as it was."""
    _start_server()
    state.adopt_url(page)
    st.html(_STYLE)
    theme_watch()
    with st.sidebar:
        _links()
    state.publish_url()


def sidebar(page: str) -> Chosen | None:
    """Draws the sidebar and opens what was chosen; None when that is not possible (the page shows why)."""
    opened = sidebar_with_lens(page)
    return None if opened is None else opened.chosen


def sidebar_with_lens(page: str, *, wait: bool = True) -> Opened | None:
    """Draws the sidebar and opens the model; None when that is not possible (the page shows why).

    Args:
        page: which one.
        wait: False for a page that has something to show without a model: None then also stands for a model that this
            session has not opened yet, and the page calls :func:`open_late` when it is drawn.
    """
    _start_server()
    state.whole_page(True)
    state.adopt_url(page)
    st.html(_STYLE)
    theme_watch()
    if presenter.step():
        presenter.show()
        state.publish_url()
        st.stop()
    with st.sidebar:
        _links()
        st.button("Present", key="present", icon=":material/slideshow:", type="tertiary", on_click=presenter.start)
        name = _model_picker()
    place = st.container()  # what follows keeps its place, whether the model is opened now or later
    if not wait and st.session_state.get("hl_opened") != name:
        state.publish_url()
        return None
    with place:
        lens = _open(name)
    if lens is None:
        state.show_notices()
        state.publish_url()
        return None
    with st.sidebar:
        for note in lens.notes:
            st.caption(words.plain(note))
        chosen = choices(lens)
        engine_choice()
        status = _status(lens)
    if chosen is not None:
        chosen = replace(chosen, status=status)
        refresh(chosen)
    state.show_notices()
    return Opened(lens, chosen)


def open_late() -> None:
    """Opens the model of a page that is drawn already, and draws it again; says why where that is not possible."""
    name = state.get("model")
    if st.session_state.get("hl_opened") != name and _open(name) is not None:
        state.rerun()


def _links() -> None:
    st.markdown("**HeadLens** · which heads matter?")
    for path, title, icon in PAGES:
        st.page_link(path, label=title, icon=icon)


def _start_server() -> None:
    """The server's own beginnings, once; a limit or log that cannot be read stops every page with one line."""
    try:
        limits.current()
        cache.server_started()
    except HeadlensError as error:
        st.error(words.plain(str(error)), icon=":material/error:")
        st.caption("Whoever runs this server has to mend this setting; nothing else works before.")
        st.stop()


def _model_picker() -> str:
    from headlens.models.catalogue import entries

    allowed = limits.current()
    ready = {entry.name: entry.title for entry in entries() if entry.available and allowed.offers(entry.name)}
    groups = (READY, ELSEWHERE) if allowed.folders or allowed.downloads else (READY,)
    current = state.get("model")
    group = st.session_state.get("hl_model_group")
    # A link, Back or Forward may have changed the model since the group was chosen.
    if group is None or st.session_state.get("hl_model_shown") != current:
        group = READY if current in ready else ELSEWHERE
    st.session_state.update(hl_model_group=group, hl_model_shown=current)
    group = group if group in groups else READY
    state.fill("_model_group", group)
    st.radio(
        "Where the model comes from",
        groups,
        key="_model_group",
        horizontal=True,
        label_visibility="collapsed",
        on_change=lambda: st.session_state.update(hl_model_group=st.session_state["_model_group"]),
    )
    if group == READY and (ready or len(groups) == 1):
        state.fill("_model_ready", current if current in ready else None)
        st.selectbox(
            "Model",
            list(ready),
            format_func=lambda option: ready[option],
            key="_model_ready",
            placeholder="Choose one",
            on_change=_choose_model,
            args=("_model_ready",),
        )
    else:
        st.text_input(
            "Hub id, or folder with config.json and safetensors",
            value=state.fill_text("_model_typed", "" if current in ready else current),
            key="_model_typed",
            placeholder="Qwen/Qwen3-0.6B or ./my-model",
            help="A hub id is downloaded once, if there is a network. Only safetensors and GGUF weights are read.",
            on_change=_choose_model,
            args=("_model_typed",),
        )
    return current


def _choose_model(key: str) -> None:
    chosen = (st.session_state.get(key) or "").strip()
    if chosen and chosen != state.get("model"):
        state.put("model", chosen)
        state.put("data", "")
        state.forget_switches()


def _open(name: str) -> Lens | None:
    try:
        with st.spinner(f"Opening {words.plain(name)} (the packaged SmolLM2 is converted once, about half a minute)"):
            lens = cache.open_lens(name)
        st.session_state["hl_opened"] = name
        return lens
    except HeadlensError as error:
        st.error(words.plain(str(error)), icon=":material/error:")
        st.caption("Choose another model in the sidebar. Nothing was lost: your text and results are kept.")
        return None


def _status(lens: Lens) -> tuple[Lens, object, object]:
    """Places for what follows the switches: they are filled by every run, also of a fragment."""
    count = st.empty()
    st.button("Switch all on", key="all_on", icon=":material/restart_alt:", on_click=_all_on, args=(lens,))
    with st.expander("Link to this state"):
        link = st.empty()
        st.caption("Model, text set, method and switches; never your own text.")
    st.page_link("pages/health.py", label="About this server", icon=":material/monitor_heart:")
    return lens, count, link


def _all_on(lens: Lens) -> None:
    from headlens.heads import HeadSet

    state.switch(lens.topology, HeadSet())


def refresh(chosen: Chosen) -> None:
    """Brings URL, link and the number of heads off up to date; call in every page or fragment run."""
    state.publish_url()
    if chosen.status is None:
        return
    lens, count, link = chosen.status
    off, total = len(state.off_heads(lens.topology)), len(lens.topology.heads())
    count.markdown(f"**{off} of {total} heads off**")
    address = (st.context.url or "").partition("?")[0]
    link.code(address + state.query_string(), language=None, wrap_lines=True)

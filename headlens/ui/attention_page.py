"""Where heads look: patterns for the user's prompt or picture, one head large and its neighbours small."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import streamlit as st

from headlens.errors import HeadlensError
from headlens.heads import Head
from headlens.ui import background, phrases, state, words
from headlens.ui.attention_roles import known_roles, role_panel, roles_progress, start_roles
from headlens.ui.attention_source import Source, choose_source, writing_progress
from headlens.ui.components.attention_view import attention_view
from headlens.ui.components.attention_view.payload import split_label
from headlens.ui.head_roles import HeadRoles, role_words
from headlens.ui.sidebar import refresh, sidebar_with_lens

if TYPE_CHECKING:
    from headlens.attention import Patterns
    from headlens.heads import HeadSet
    from headlens.lens import Lens
    from headlens.ui.choices import Chosen

WINDOW = 256
"""Most tokens drawn at once, on each side."""
SITE_TITLES = {
    "self": "Self-attention",
    "enc": "Encoder",
    "dec": "Decoder",
    "cross": "Cross (rows: target, columns: source)",
    "text": "Text tower",
    "vision": "Picture tower",
}
VIEWS = {"picture": "On the picture", "map": "Map", "lines": "Lines"}
SCALES = {"sqrt": "square root", "row": "share of the row's largest", "linear": "as it is"}


def show() -> None:
    """Draws the page."""
    opened = sidebar_with_lens("attention")
    st.title("Where do the heads look?")
    if opened is None:
        st.info("Choose a model in the sidebar to see its attention.", icon=":material/arrow_back:")
        return
    lens, chosen = opened.lens, opened.chosen
    if chosen is not None:
        refresh(chosen)
    try:
        source = choose_source(lens, state.off_heads(lens.topology))
    except HeadlensError as error:
        st.error(words.plain(str(error)), icon=":material/error:")
        state.publish_url()
        return
    with st.container():  # a place of its own, so that the fragment below keeps its identity
        writing = background.job_of("attention_write")
        if writing is not None and writing.status != "done":
            st.fragment(run_every=_poll(writing.running))(writing_progress)(writing.running)
    for note in source.notes:
        st.caption(words.plain(note))
    st.fragment(_look)(lens, source, chosen)
    roles = start_roles(chosen)
    if roles is not None and roles.status != "done":
        st.fragment(run_every=_poll(roles.running))(roles_progress)(roles, roles.running)
    state.publish_url()


def _poll(running: bool) -> float | None:
    return background.POLL_SECONDS if running else None


def _look(lens: Lens, source: Source, chosen: Chosen | None) -> None:
    """The figure and all that is said about it."""
    if st.session_state.pop("hl_new_prompt", False):
        st.rerun()  # the prompt above is not part of this fragment
    head, view, scale = _controls(lens, source)
    off = state.off_heads(lens.topology)
    found = _patterns(lens.fingerprint, source.key, head.site, head.layer, lens.topology.format(off), lens, source, off)
    shape = lens.topology.site(head.site).layers[head.layer]
    array = found.pattern[head.site][0][list(shape.heads)]
    labels = [lens.topology.label(head.site, head.layer, number) for number in shape.heads]
    queries, keys = source.labels(lens, head.site, found)
    start, note = _window(len(queries), len(keys))
    rows, columns = slice(start[0], start[0] + WINDOW), slice(start[1], start[1] + WINDOW)
    label = lens.topology.label(head.site, head.layer, head.head)
    pattern = array[labels.index(label)]
    sentence = phrases.pattern_sentence(label, pattern, queries, keys)
    roles = None if chosen is None else known_roles(lens, chosen.data)
    attention_view(
        key=f"attention_{head.site}",
        patterns=array[:, rows, columns],
        query_tokens=queries[rows],
        key_tokens=keys[columns],
        labels=labels,
        roles=_role_names(roles, head, shape.heads),
        summary=sentence,
        view=view,  # type: ignore[arg-type]
        selected=label,
        layers=[index for index, layer in enumerate(lens.topology.site(head.site).layers) if layer.heads],
        scale=scale,  # type: ignore[arg-type]
        causal=shape.causal,
        query_start=start[0],
        key_start=start[1],
        note=note,
        picture=source.picture.behind(len(keys)) if source.picture is not None and view == "picture" else None,
        hide_first=state.remember("hide_first", False),
        on_head=lambda chosen_label: st.session_state.update(hl_attention_head=chosen_label),
        on_hide_first=lambda hidden: st.session_state.update(hl_hide_first=hidden),
    )
    st.markdown(words.plain(sentence))
    if len(keys) > 1 and start[1] == 0 and head.site != "cross" and source.picture is None:
        st.caption(words.plain(phrases.sink_sentence(pattern)))
    if len(off):
        st.caption(f"{len(off)} heads are off (writing zero): these are the patterns of the switched model.")
    if roles is not None:
        role_panel(lens, roles, head)


def _role_names(roles: HeadRoles | None, head: Head, numbers: tuple[int, ...]) -> list[str]:
    """A few words under each thumbnail, "" where a head has no role."""
    if roles is None:
        return [""] * len(numbers)
    return [role_words(roles, Head(head.site, head.layer, number)).replace(",", "") for number in numbers]


def _controls(lens: Lens, source: Source) -> tuple[Head, str, str]:
    """The large head, the view and the colours."""
    views = [name for name in VIEWS if name != "picture" or source.picture is not None]
    head = _selected(lens)
    sites = [site.name for site in lens.topology.sites if any(layer.heads for layer in site.layers)]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if len(sites) > 1:
            state.fill("_site", head.site)
            st.segmented_control(
                "Part",
                sites,
                format_func=lambda name: SITE_TITLES[name],
                key="_site",
                required=True,
                on_change=_to_site,
            )
        view = _remembered(views[0] if source.picture is not None else "map", "view", views, VIEWS, "View")
        scale = _remembered("sqrt", "scale", list(SCALES), SCALES, "Colour shows the weight's")
    return head, view, scale


def _remembered(default: str, name: str, options: list[str], titles: dict[str, str], label: str) -> str:
    """A row of choices whose value outlives switching pages."""
    current = state.remember(name, default)
    if current not in options:
        current = default
    key = f"_{name}"
    state.fill(key, current)

    def changed() -> None:
        st.session_state[f"hl_{name}"] = st.session_state[key] or default

    st.segmented_control(
        label, options, format_func=lambda option: titles[option], key=key, required=True, on_change=changed
    )
    return current


def _to_site() -> None:
    """Another part of the model: its first head becomes the large one."""
    site = st.session_state["_site"]
    st.session_state["hl_attention_head"] = f"{site}.L0H0"


def _selected(lens: Lens) -> Head:
    """The head that is shown large: the remembered one, else its neighbour that is there, else the model's first."""
    topology, wanted = lens.topology, str(state.remember("attention_head", ""))
    try:
        _, layer, number = split_label(wanted)
        site = topology.site(split_label(wanted)[0] or topology.sites[0].name)
        heads = site.layers[layer].heads
        if heads:
            return Head(site.name, layer, min(heads, key=lambda head: abs(head - number)))
    except (HeadlensError, KeyError, IndexError):
        pass  # nothing remembered, or another model's head
    site = topology.sites[-1] if topology.sites[-1].name == "cross" else topology.sites[0]
    layer = next(index for index, shape in enumerate(site.layers) if shape.heads)
    return Head(site.name, layer, site.layers[layer].heads[0])


@st.cache_resource(max_entries=24, show_spinner=False)
def _patterns(
    fingerprint: str,  # noqa: ARG001 - part of the cache's key
    key: Hashable,  # noqa: ARG001
    site: str,
    layer: int,
    off: str,  # noqa: ARG001
    _lens: Lens,
    _source: Source,
    _off: HeadSet,
) -> Patterns:
    """Patterns of one layer; changing the view or the colours does not run the model again."""
    from headlens.attention import patterns

    return patterns(_lens, _source.inputs, layers={site: (layer,)}, off=_off)


def _window(queries: int, keys: int) -> tuple[tuple[int, int], str]:
    """First query and key that are drawn, and what is said about it."""
    total = max(queries, keys)
    if total <= WINDOW:
        return (0, 0), ""
    start = st.slider("First token shown", 0, total - WINDOW, 0, step=max(1, WINDOW // 8), key=f"_window_{total}")
    note = (
        f"The text has {total} tokens; shown are tokens {start} to {start + WINDOW - 1} on each side. "
        "Weights are those of the whole text."
    )
    return (min(start, max(0, queries - WINDOW)), min(start, max(0, keys - WINDOW))), note

"""The card of one head: its scores by every method, what it does, where it looks, and its switch."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from headlens.importance import METHODS
from headlens.ui import grid, state, words
from headlens.ui.available import available
from headlens.ui.head_roles import Picture, found_roles, picture, role_lines
from headlens.ui.shown import Shown, columns, trusted

if TYPE_CHECKING:
    from headlens.heads import Head
    from headlens.lens import Lens
    from headlens.scores import HeadScores
    from headlens.ui.choices import Chosen
    from headlens.ui.compute import Ask
    from headlens.ui.jobs import Job

PICTURE_PIXELS = 208
_RAMPS = {
    False: np.array([[255, 255, 255], [107, 163, 214], [13, 58, 117]], dtype=float),
    True: np.array([[23, 29, 38], [46, 127, 194], [212, 236, 255]], dtype=float),
}
"""Background to full attention, for light and dark pages."""
_SOURCES = {
    "text": "one of the texts",
    "twice": "random tokens, the same block twice",
    "four times": "random tokens, the same block four times",
    "parsed": "a story in small English whose parse is known",
}


def card(chosen: Chosen, ask: Ask, shown: Shown, active: str | None, roles: Job | None) -> None:
    """Draws the card of the pinned head, else of the one that is looked at."""
    places = columns(chosen.lens.topology, ask.unit)
    pinned = grid.pinned() if grid.pinned() in places else None
    label = pinned or (active if active in places else None)
    with st.container(border=True, key="head_card"):
        _picker(list(places), label, pinned)
        if label is None:
            st.caption(
                "Point at a head, move to it with the arrow keys or choose it here to see its scores, its role and "
                "where it looks. Enter pins the card."
            )
            return
        members = [_head(places[label], member) for member in _members(chosen, ask, places[label])]
        _switch(chosen, label, members)
        _scores(chosen, ask, shown, places[label])
        _role(chosen.lens, members, roles)


def _picker(labels: list[str], label: str | None, pinned: str | None) -> None:
    """Which head; a mouse cannot reach the card without crossing other heads, so it can be held here too."""
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    state.fill("_card_head", label)
    left.selectbox(
        "Head",
        labels,
        index=None,
        key="_card_head",
        placeholder="choose a head",
        on_change=lambda: grid.pin(st.session_state["_card_head"]),
    )
    right.button(
        "Unpin" if pinned else "Pin",
        key="card_pin",
        icon=":material/keep_off:" if pinned else ":material/keep:",
        disabled=label is None,
        width="stretch",
        on_click=grid.pin,
        args=(None if pinned else label,),
    )


def _members(chosen: Chosen, ask: Ask, place: tuple[str, int, int]) -> tuple[int, ...]:
    site, layer, column = place
    return chosen.lens.topology.members(site, layer, column, ask.unit)


def _head(place: tuple[str, int, int], member: int) -> Head:
    from headlens.heads import Head

    return Head(place[0], place[1], member)


def _switch(chosen: Chosen, label: str, members: list[Head]) -> None:
    from headlens.heads import HeadSet

    topology = chosen.lens.topology
    off = state.off_heads(topology)
    mine = HeadSet.of(members)
    is_off = all(head in off for head in members)
    left, right = st.columns([2, 3], vertical_alignment="center")
    left.button(
        f"Switch {'on' if is_off else 'off'}",
        key="card_switch",
        icon=":material/toggle_on:" if is_off else ":material/toggle_off:",
        on_click=state.switch,
        args=(topology, off - mine if is_off else off | mine),
    )
    first = members[0]
    st.session_state["hl_attention_head"] = topology.label(first.site, first.layer, first.head)
    right.page_link("pages/attention.py", label=f"Look through {label}", icon=":material/visibility:")


def _scores(chosen: Chosen, ask: Ask, shown: Shown, place: tuple[str, int, int]) -> None:
    """A row for each method that is computed: score and rank."""
    site, layer, column = place
    rows = []
    known = available(chosen.lens, chosen.data, ask)
    if shown.final is None and (site, layer) in shown.exact:
        so_far = _number(shown.values[site][layer, column], shown.sem[site][layer, column])
        rows.append((METHODS[shown.method].title, so_far, "not yet", "", True))
    for method, scores in known.items():
        value, error = scores.values[site][layer, column], scores.sem[site][layer, column]
        name = METHODS[method].title
        if method == "gradient" and ask.signed:  # the published score takes the absolute value of each example
            name = "Gradient, signed"
        rows.append((name, _number(value, error), *_rank(scores, place), method == shown.method))
    cells = "".join(
        f"<tr{' class=hl-mine' if mine else ''}><th scope=row>{html.escape(name)}</th>"
        f"<td>{number}</td><td>{rank}</td><td>{above}</td></tr>"
        for name, number, rank, above, mine in rows
    )
    heading = ("Score by", "score ± error", f"rank of {len(columns(chosen.lens.topology, ask.unit))}", "above")
    head = "".join(f"<th scope=col>{text}</th>" for text in heading)
    st.html(f"<table class=hl-scores><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>")


def _number(value: float, error: float) -> str:
    from headlens.ui.components.head_grid.scale import format_error, format_score

    if not np.isfinite(value):
        return "none"
    text = format_score(float(value))
    plus_minus = f" ± {format_error(float(error), text)}" if np.isfinite(error) else ""
    return (text + plus_minus).replace("-", "−")


def _rank(scores: HeadScores, place: tuple[str, int, int]) -> tuple[str, str]:
    """Rank and percentile, or that the ranking is not to be trusted."""
    if not trusted(scores):
        return "no signal" if scores.no_signal else "unstable", ""
    site, layer, column = place
    flat = scores.flat()
    rank = 1 + int((flat > scores.values[site][layer, column]).sum())
    return str(rank), f"{words.percentile(rank, len(flat))} %"


def _role(lens: Lens, members: list[Head], job: Job | None) -> None:
    found = found_roles(job)
    if found is None:
        st.caption(
            job.error if job is not None and job.status == "failed" else "Its role is being read from where it looks …"
        )
        return
    topology = lens.topology
    lines = {topology.label(h.site, h.layer, h.head): " · ".join(role_lines(found, h)) for h in members}
    if len(members) == 1:
        st.markdown("Role: " + (next(iter(lines.values())) or "none can be measured"))
    else:
        st.markdown("  \n".join(f"Role of {label}: {line}" for label, line in lines.items()))
    shown = picture(lens, found, members[0])
    _draw(lens, topology.label(members[0].site, members[0].layer, members[0].head), shown)


def _draw(lens: Lens, label: str, shown: Picture) -> None:
    queries, keys = _tokens(lens, shown.query_ids), _tokens(lens, shown.key_ids)
    said = words.looks_sentence(shown.pattern, queries, keys)
    left, right = st.columns([3, 2], vertical_alignment="center")
    alt = f"Attention of {label}, rows look at columns, on {_SOURCES[shown.source]}. {said}"
    height, width = shown.pattern.shape
    wide = round(PICTURE_PIXELS * width / max(width, height))
    left.html(
        f'<img class=hl-picture width={wide} alt="{html.escape(alt, quote=True)}" '
        f'src="data:image/png;base64,{_png(shown.pattern)}">'
    )
    right.caption(
        words.plain(
            f"{label} on {_SOURCES[shown.source]}: each row is a token that looks, each column one "
            f"that is looked at. {said}"
        )
    )


def _tokens(lens: Lens, ids: list[int]) -> list[str]:
    from headlens.tokens import readable_tokens

    return [label.text for label in readable_tokens(lens.tokenizer, ids)] if ids else []


def _png(pattern: np.ndarray) -> str:
    """The pattern as a PNG, a pixel a weight, in base64: it travels with the page, so no file has to be kept for it."""
    import base64
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(_coloured(pattern)).save(buffer, "png")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _coloured(pattern: np.ndarray) -> np.ndarray:
    """RGB bytes ``[query, key, 3]``; the root of a weight is its colour, so that faint ones are seen."""
    ramp: Any = _RAMPS[st.context.theme.type == "dark"]
    weight = np.sqrt(np.clip(np.nan_to_num(pattern.astype(float)), 0, 1)) * (len(ramp) - 1)
    low = np.minimum(weight.astype(int), len(ramp) - 2)
    share = (weight - low)[..., None]
    return (ramp[low] * (1 - share) + ramp[low + 1] * share).astype(np.uint8)

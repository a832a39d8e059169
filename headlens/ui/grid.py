"""The head grid on a page: scores in, switches out, one shared state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from headlens.ui import state
from headlens.ui.components.head_grid import (
    GridData,
    GridEvent,
    GridView,
    Marks,
    Mode,
    ScaleKind,
    head_grid,
    robust_scale,
)

if TYPE_CHECKING:
    from headlens.heads import Head, HeadSet, Topology, Unit


def switch_grid(
    key: str,
    topology: Topology,
    values: Mapping[str, np.ndarray],
    *,
    sem: Mapping[str, np.ndarray] | None = None,
    roles: Mapping[str, str] | None = None,
    unit: Unit = "head",
    kind: ScaleKind = "diverging",
    score_unit: str = "",
    mode: Mode = "map",
    height: int | None = None,
    ranked: bool = True,
    marks: Marks | None = None,
) -> GridView:
    """Draws the grid; a click changes the shared set of heads that are off, Enter pins the card of a head.

    The pinned head outlives pages and reloads of the grid; see :func:`pinned` and :func:`pin`.
    """
    grids = [
        GridData(
            values[site.name],
            site=site.name if topology.prefixed else None,
            unit=unit,
            heads_per_layer=[layer.original if unit == "head" else layer.original_groups for layer in site.layers],
            gone=_gone(topology, site.name, unit),
            sem=None if sem is None else sem.get(site.name),
            roles=roles or {},
        )
        for site in topology.sites
    ]
    ack_key = f"hl_ack_{key}"

    def changed(event: GridEvent) -> None:
        if event.kind == "pinned":
            pin(event.label)
        if event.kind != "mask":
            return
        st.session_state[ack_key] = event.ack
        state.switch(topology, from_labels(topology, event.off))

    return head_grid(
        key=key,
        grids=grids,
        off=labels_of(topology, state.off_heads(topology), unit),
        ack=st.session_state.get(ack_key, 0),
        scale=robust_scale(list(values.values()), kind, unit=score_unit),
        on_change=changed,
        mode=mode,
        height=height,
        pinned=pinned(),
        ranked=ranked,
        marks=marks,
    )


def pinned() -> str | None:
    """The head whose card is pinned."""
    return st.session_state.get("hl_pinned")


def pin(label: str | None) -> None:
    """Pins the card of a head; None lets it go."""
    st.session_state["hl_pinned"] = label


def labels_of(topology: Topology, off: HeadSet, unit: Unit) -> frozenset[str]:
    """Grid labels that are off; a KV group is off when every head of it is."""
    if unit == "head":
        return frozenset(topology.label(head.site, head.layer, head.head) for head in off)
    return frozenset(
        topology.label(site.name, layer, group, "kv")
        for site in topology.sites
        for layer, shape in enumerate(site.layers)
        for group in shape.groups
        if all(_head(site.name, layer, member) in off for member in shape.members(group))
    )


def from_labels(topology: Topology, labels: frozenset[str]) -> HeadSet:
    """Head set of grid labels."""
    return topology.parse(",".join(sorted(labels)) or "none")


def _head(site: str, layer: int, head: int) -> Head:
    from headlens.heads import Head

    return Head(site, layer, head)


def _gone(topology: Topology, site: str, unit: Unit) -> np.ndarray:
    shape = topology.site(site)
    gone = np.ones((len(shape.layers), shape.width(unit)), dtype=bool)
    for layer in range(len(shape.layers)):
        gone[layer, list(shape.columns(layer, unit))] = False
    return gone

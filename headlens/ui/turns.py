"""What a page has to compute before it can be drawn: in turn with other sessions, ahead of long work."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

import streamlit as st

from headlens.server import logs
from headlens.server.shared import MISSING
from headlens.server.turns import BusyError, Ticket
from headlens.ui import cache, state, words

_T = TypeVar("_T")


def now(key: Hashable, work: Callable[[], _T]) -> _T:
    """The result of ``work``, from memory if anybody has asked for the same before.

    While it has to wait, the page says its place and the likely wait, and a new click ends the waiting.

    Args:
        key: says what is computed.
        work: computes it, without drawing anything.

    Raises:
        BusyError: too many wait already; a line for the page.
    """
    spot = st.empty()  # always there, so that what follows keeps its place on the page
    found = cache.shared().peek(key)
    if found is not MISSING:
        return found
    waited = False

    def in_line(ticket: Ticket) -> None:
        nonlocal waited
        waited = True
        spot.caption(waiting_line(ticket.place, ticket.seconds))

    def behind_another() -> None:
        nonlocal waited
        waited = True
        spot.caption("Somebody else is just measuring the same; the answer comes to both of you …")

    def in_turn() -> _T:
        with cache.switches().turn(state.viewer(), in_line), cache.jobs().ahead():
            return work()

    try:
        result = cache.shared().compute(key, in_turn, behind_another)
    except BusyError:
        logs.event("busy", kind=str(key[0]) if isinstance(key, tuple) else "other")
        raise
    if waited:
        spot.empty()
    return result


def waiting_line(place: int, seconds: float) -> str:
    """Where one stands in the line, and for how long."""
    if place <= 0:
        return "It is your turn …"
    before = "you are next" if place == 1 else f"{place - 1} before you"
    return f"Many people are measuring: {before}, {words.duration(seconds)} …"

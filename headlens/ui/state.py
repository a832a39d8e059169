"""What a session has chosen, and how it travels: session state <-> the URL's query string.

The rule that makes links, reload, Back and Forward and switching pages all come out right: remember what we wrote into
the URL; a value that differs from that was put there by the user, and is adopted, unless it is missing because a page
switch dropped it. Values are checked before they are adopted; what cannot be used is dropped with a notice.
A user's own text is never put into the URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from headlens.errors import HeadlensError
from headlens.heads import HeadSet
from headlens.ui import words
from headlens.ui.parameters import MAX_VALUE, PARAMETERS, Parameter
from headlens.ui.widgets import fill, fill_text, is_whole_page, remember, whole_page

if TYPE_CHECKING:
    from headlens.heads import Topology

__all__ = [
    "OWN_DATA",
    "adopt_url",
    "can",
    "fill",
    "fill_text",
    "forget_switches",
    "get",
    "is_whole_page",
    "notice",
    "off_heads",
    "publish_url",
    "put",
    "query_string",
    "remember",
    "show_notices",
    "step",
    "switch",
    "viewer",
    "whole_page",
]

OWN_DATA = "your own text"
MAX_UNDO = 200

_BY_NAME = {parameter.name: parameter for parameter in PARAMETERS}


def get(name: str) -> str:
    """The current value of a parameter (for ``off``: see :func:`off_heads`)."""
    key = f"hl_{name}"
    if key not in st.session_state:
        st.session_state[key] = _BY_NAME[name].default()
    return st.session_state[key]


def put(name: str, value: str) -> None:
    """Changes a parameter; the URL follows at the end of the run."""
    st.session_state[f"hl_{name}"] = value


def notice(text: str) -> None:
    """A line that the next page run shows once."""
    pending: list[str] = st.session_state.setdefault("hl_notices", [])
    if text not in pending:
        pending.append(text)


def show_notices() -> None:
    """Shows and forgets pending notices; they quote links, so nothing in them is read as markup."""
    for text in st.session_state.pop("hl_notices", []):
        st.warning(words.plain(text), icon=":material/info:")


def adopt_url(page: str) -> None:
    """Takes over what the user put into the URL; call first in every page run."""
    written: dict[str, str] = st.session_state.setdefault("hl_url", {})
    same_page = st.session_state.get("hl_page") == page
    model_before = st.session_state.get("hl_model")
    st.session_state["hl_page"] = page
    for parameter in PARAMETERS:
        value = st.query_params.get(parameter.name)
        if value == written.get(parameter.name) or (value is None and not same_page):
            continue
        if value is None:
            put(parameter.name, parameter.default())
        else:
            _adopt(parameter, value)
    if model_before not in (None, get("model")):  # Back or Forward across a change of model
        _forget_history()
    unknown = [name for name in st.query_params if name not in _BY_NAME]
    if unknown:
        notice(f"The link's {', '.join(name[:40] for name in unknown[:5])} was dropped: HeadLens knows no such value.")


def _adopt(parameter: Parameter, value: str) -> None:
    try:
        if len(value) > MAX_VALUE:
            raise HeadlensError("too long")
        put(parameter.name, parameter.check(value))
    except HeadlensError as error:
        notice(f"The link's {parameter.name} was dropped: {error}.")
        return
    if parameter.name == "off":
        st.session_state["hl_off_unchecked"] = True


def publish_url() -> None:
    """Writes the state into the URL; call at the end of every page or fragment run.

    All values go in one write, since each write is an entry of the browser's history. No change, no write.
    """
    wanted = {parameter.name: get(parameter.name) for parameter in PARAMETERS}
    if wanted["off"] == "none":
        del wanted["off"]
    if wanted["data"] in ("", OWN_DATA):
        del wanted["data"]
    if not wanted["present"]:
        del wanted["present"]
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)
    st.session_state["hl_url"] = wanted


def rerun() -> None:
    """Runs the whole page again; for fragments, instead of ``st.rerun``.

    The address is brought up to date first. A fragment knows only the address that the browser had when it asked for
    the run; a full run would take an older one for the user's wish and undo the latest switches.
    """
    publish_url()
    st.rerun()


def query_string() -> str:
    """The link to this state, without the address of the server; it holds no text of the user."""
    from urllib.parse import urlencode

    wanted = {parameter.name: get(parameter.name) for parameter in PARAMETERS}
    left_out = {"off": "none", "data": OWN_DATA}
    return "?" + urlencode({k: v for k, v in wanted.items() if v and left_out.get(k) != v}, safe=",.-/")


def off_heads(topology: Topology) -> HeadSet:
    """The heads that are off, checked against the model; labels that it does not have are dropped with a notice."""
    try:
        return topology.parse(get("off"))
    except HeadlensError as error:
        good = _parse_what_fits(topology, get("off"))
        unchecked = st.session_state.pop("hl_off_unchecked", False)
        source = "The link's switched-off heads" if unchecked else "Some switched-off heads"
        notice(f"{source} do not all fit this model, and the rest was dropped: {error}.")
        put("off", topology.format(good))
        return good


def _parse_what_fits(topology: Topology, text: str) -> HeadSet:
    found = HeadSet()
    for part in text.split(",")[:5000]:
        try:
            found = found | topology.parse(part)
        except HeadlensError:
            continue
    return found


def switch(topology: Topology, off: HeadSet) -> None:
    """Sets which heads are off and remembers the step for undo."""
    text = topology.format(off)
    if text == get("off"):
        return
    undo: list[str] = st.session_state.setdefault("hl_undo", [])
    undo.append(get("off"))
    del undo[:-MAX_UNDO]
    st.session_state["hl_redo"] = []
    _switched(text)


def _switched(text: str) -> None:
    """The address follows at once: a run may be overtaken by the next switch before it comes to its end."""
    put("off", text)
    if "hl_url" in st.session_state:  # not before the session has read what the address says
        publish_url()


def can(step: str) -> bool:
    """Whether there is something to ``undo`` or ``redo``."""
    return bool(st.session_state.get(f"hl_{step}"))


def step(back: bool) -> None:
    """Undo (``back``) or redo the last switch."""
    take, give = ("hl_undo", "hl_redo") if back else ("hl_redo", "hl_undo")
    if st.session_state.get(take):
        st.session_state.setdefault(give, []).append(get("off"))
        _switched(st.session_state[take].pop())


def forget_switches() -> None:
    """All heads on and no history: another model was chosen."""
    put("off", "none")
    _forget_history()


def _forget_history() -> None:
    for key in ("hl_undo", "hl_redo"):
        st.session_state[key] = []


def viewer() -> str:
    """A name for this browser session, for jobs."""
    import secrets

    return st.session_state.setdefault("hl_viewer", secrets.token_hex(8))

"""How the server is, for whoever runs it or wonders why it is slow. Nothing about any user is shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import streamlit as st

from headlens.server import limits
from headlens.ui import cache, words
from headlens.ui.sidebar import page_list

if TYPE_CHECKING:
    from headlens.server.health import Health
    from headlens.server.turns import Standing

LOOK_SECONDS = 5.0


def show() -> None:
    """Draws the page."""
    page_list("health")
    st.title("This server")
    st.fragment(run_every=LOOK_SECONDS)(_figures)()
    _allowed()


def _figures() -> None:
    found = cache.server_health()
    st.markdown(words.plain(sentence(found)))
    for row in (_lines(found), _memory(found)):
        for column, (label, value, note) in zip(st.columns(len(row)), row, strict=True):
            column.metric(label, value)
            column.caption(note)
    st.subheader("Models in memory", anchor=False)
    if found.models:
        st.dataframe(
            [
                {"model": held.name, "MB": round(held.bytes / 1e6, 1), "where": "kept" if held.kept else "still in use"}
                for held in found.models
            ],
            width="stretch",
        )
        st.caption("Least recently used first. Models that are no names of the catalogue are called other.")
    else:
        st.caption("None is opened yet.")
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    st.caption(words.plain(f"Versions: {versions}."))


def sentence(found: Health) -> str:
    """How the server is, in one sentence."""
    waiting = found.switches.waiting + found.work.waiting
    at_work = found.switches.at_work + found.work.at_work
    line = "nobody waits" if not waiting else f"{waiting} wait, the next newcomer for {_seconds(found.work.seconds)}"
    store = "" if found.status == "ok" else " The store cannot be read."
    return (
        f"Running for {_seconds(found.uptime_seconds)}: {at_work} computations are at work, {line}; "
        f"{found.refused} were turned away because a line was full.{store}"
    )


def _lines(found: Health) -> list[tuple[str, str, str]]:
    return [
        ("Answers to clicks", f"{found.switches.at_work} at work", _line(found.switches)),
        ("Background work", f"{found.work.at_work} at work", _line(found.work)),
        ("Turned away", f"{found.refused:,}", "since the start, because a line was full"),
        ("Up for", _seconds(found.uptime_seconds), "since HeadLens was loaded here"),
    ]


def _memory(found: Health) -> list[tuple[str, str, str]]:
    store = "not readable" if found.store_bytes is None else f"{found.store_bytes / 1e6:,.1f} MB"
    return [
        ("Memory", f"{found.memory_bytes / 1e6:,.0f} MB", "of the server process"),
        ("Shared results", f"{found.result_bytes / 1e6:,.1f} MB", f"{found.results:,} results in memory"),
        ("Store", store, "on disk, looked at every half minute"),
        ("Threads", f"{found.threads}", "of the server process"),
    ]


def _line(line: Standing) -> str:
    return f"{line.waiting} of {line.places} places in the line taken"


def _seconds(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _allowed() -> None:
    """The limits, in words."""
    st.subheader("What is allowed here", anchor=False)
    st.markdown("\n".join(f"- {words.plain(line)}" for line in allowed_lines(limits.current())))
    st.caption("Whoever runs the server sets this by HEADLENS_PROFILE and the variables of docs/reliability.md.")


def allowed_lines(found: limits.Limits) -> Iterable[str]:
    """One line a limit."""
    yield f"Profile: {found.profile}."
    yield (
        f"Models: {', '.join(found.models) or 'any'}; {_flag(found.folders, 'folders')}; "
        f"{_flag(found.downloads, 'downloads from the hub')}."
    )
    yield f"{_flag(found.training, 'Training (recovery, lab, learned gates)')}."
    yield f"A prompt of {found.prompt_characters:,} characters and {found.prompt_tokens:,} tokens."
    yield f"A text of {found.text_characters:,} characters, a file of {found.upload_bytes / 1024:,.0f} kB."
    yield f"{found.at_once} computation{'s' if found.at_once > 1 else ''} at a time, {found.waiting} in line."


def _flag(on: bool, what: str) -> str:
    return f"{what} {'on' if on else 'off'}"

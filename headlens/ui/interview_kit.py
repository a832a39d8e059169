"""What all parts of the interview page share: bank, log, the model's shape, and how cited statements are written."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import streamlit as st

from headlens.errors import HeadlensError
from headlens.interview.bank import Bank, cite_text, load_bank
from headlens.interview.claims import CLAIMS, claim_line
from headlens.interview.progress import DiskLog, Event, Log, MemoryLog, progress_file
from headlens.interview.schema import GRADES, Cite, Statement
from headlens.interview.shape import shape_of
from headlens.server import limits
from headlens.ui import state, words

if TYPE_CHECKING:
    from headlens.interview.shape import Shape
    from headlens.lens import Lens
    from headlens.ui.choices import Chosen

ON_DISK, IN_TAB = "On this computer", "Only in this tab"


@st.cache_resource(show_spinner=False)
def bank() -> Bank:
    """The bank, read and checked once for all sessions."""
    return load_bank()


@st.cache_resource(show_spinner=False)
def _disk_log(path: str) -> DiskLog:  # noqa: ARG001 - one log for each place
    return DiskLog()


@st.cache_resource(max_entries=8, show_spinner=False)
def _shape(name: str, _lens: Lens, fingerprint: str) -> Shape:  # noqa: ARG001 - the names without underscore are the key
    return shape_of(_lens)


@dataclass(frozen=True)
class Kit:
    """What a run of the page works with.

    Attributes:
        bank: all questions.
        log: where answers go.
        lens: the opened model; None where none could be opened.
        chosen: its text and choices; None where it has no text.
    """

    bank: Bank
    log: Log
    lens: Lens | None = None
    chosen: Chosen | None = None

    @property
    def shape(self) -> Shape | None:
        """The numbers of the opened model."""
        return None if self.lens is None else _shape(self.lens.name, self.lens, self.lens.fingerprint)

    def events(self) -> Sequence[Event]:
        """All answers so far; none where the log cannot be read (the page says so)."""
        try:
            return self.log.events()
        except HeadlensError as error:
            state.notice(f"{error}. Your earlier progress is not shown.")
            return ()

    def keep(self, *events: Event) -> None:
        """Keeps answers; where that fails they are kept in this tab, with a notice."""
        try:
            self.log.add(*events)
        except HeadlensError as error:
            state.notice(f"{error}. Until then progress is kept in this tab only.")
            memory = tab_log()
            memory.add(*self.events(), *events)
            st.session_state["hl_iv_place"] = IN_TAB


def place() -> str:
    """Where the session keeps its progress."""
    if not limits.current().progress:  # many people share this server's disk
        return IN_TAB
    return state.remember("iv_place", ON_DISK)


def tab_log() -> MemoryLog:
    """Progress that only this browser session sees."""
    return st.session_state.setdefault("hl_iv_log", MemoryLog())


def current_log() -> Log:
    """The log that answers go to now."""
    return tab_log() if place() == IN_TAB else _disk_log(str(progress_file()))


def now() -> datetime:
    """The present moment, with its time zone."""
    return datetime.now(UTC)


def seed_of(text: str) -> int:
    """A seed that is the same wherever the same thing is drawn again."""
    return zlib.crc32(text.encode())


def cite_line(bank: Bank, cites: Iterable[Cite]) -> str:
    """``Michel 2019, Table 4 [N]; ...`` as markdown shows it literally."""
    return words.plain("; ".join(cite_text(cite, bank.sources) for cite in cites))


def sources_caption(bank: Bank, cites: Iterable[Cite]) -> None:
    """Sources below a text."""
    st.caption(f"Source: {cite_line(bank, cites)}")


def statement(bank: Bank, said: Statement) -> str:
    """One statement with its sources and, where it has been checked here, its live number, as markdown."""
    live = live_line(said.claim)
    checked = f"  \n:blue-background[{live}]" if live else ""
    return f"{words.plain(said.text)} :gray[({cite_line(bank, said.sources)})]{checked}"


def live_line(claim: str | None) -> str:
    """What is checked, and how it came out here, as markdown shows it literally; or nothing."""
    found = None if claim is None else claim_line(claim)
    if claim is None or found is None:
        return ""
    from headlens.claims.registry import find_claims  # imported by then: a claim was checked

    (checked,) = find_claims([claim])
    where = "In the runs of the lab" if checked.of_the_lab else "On this model"
    return words.plain(f"{where}: “{CLAIMS[claim].rstrip('.')}” {found}")


def statements(bank: Bank, said: Iterable[Statement]) -> None:
    """A list of statements."""
    st.markdown("\n".join(f"- {statement(bank, each)}" for each in said))


def all_sources(bank: Bank) -> None:
    """The list of works, folded away."""
    with st.expander("Sources, and what the letters mean"):
        st.markdown(
            words.plain("How well each statement is known:")
            + "\n"
            + "\n".join(f"- **\\[{letter}\\]** {words.plain(meaning)}" for letter, meaning in GRADES.items())
        )
        lines = []
        for source in sorted(bank.sources.values(), key=lambda s: (s.who, s.year or 0)):
            title = words.plain(source.title)
            title = f"[{title}]({source.link})" if source.link else title
            year = f" {source.year}" if source.year else ""
            lines.append(f"- {words.plain(source.who)}{year}: {title}. {words.plain(source.where)}.")
        st.markdown("\n".join(lines))

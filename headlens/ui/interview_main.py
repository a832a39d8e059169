"""The main question and everything around it: short, one-minute and long answer, limits, example, flags."""

from __future__ import annotations

import base64
import html
import shlex
from collections.abc import Callable, Sequence

import streamlit as st

from headlens.interview.bank import interview_dir
from headlens.interview.page import Main, Term
from headlens.interview.quantities import QUANTITIES, NotHereError, live
from headlens.interview.schema import Statement
from headlens.interview.shape import GPT2_SMALL
from headlens.paths import is_checkout
from headlens.ui import interview_drill, state, words
from headlens.ui.interview_claims import offer
from headlens.ui.interview_kit import Kit, all_sources, cite_line, seed_of, sources_caption, statement, statements
from headlens.ui.interview_question import draw, forget

SLOT, MINUTE = "question", "red-one-minute"
EXAMPLE = "worked_example.py"
LIVE = ("head-parameters", "attention-share", "kv-bytes-per-token", "kv-saved-by-query-head", "kv-saved-by-groups")
"""Quantities of the worked example, computed from the opened model."""


def show(kit: Kit) -> None:
    """Draws the section."""
    st.header("The question", anchor=False)
    question = kit.bank[kit.bank.main.question]
    mark = draw(question, SLOT, kit, where="question", seed=seed_of(f"main {len(_tries())}"))
    if mark is None:
        st.caption(
            "Never seen the topic? Answer anyway, each option is explained afterwards. Then read Two sentences, One "
            "minute and When it stops working, and do a drill of five: about 15 minutes in all."
        )
    else:
        st.button("Ask me again", key="_iv_again", on_click=_again, type="tertiary", icon=":material/replay:")
        st.caption(
            "Now read Two sentences, One minute and When it stops working below, say it yourself, and do a drill of "
            "five: about 15 minutes in all."
        )
    st.divider()
    names = list(PARTS)
    current = st.session_state.get("hl_iv_part")
    if current not in PARTS:
        current = names[0] if mark is None else names[1]
    state.fill("_iv_part", current)
    st.pills(
        "Read about it",
        names,
        key="_iv_part",
        required=True,
        on_change=lambda: st.session_state.update(hl_iv_part=st.session_state["_iv_part"]),
    )
    PARTS[current](kit)
    offer(kit, claims_of(kit.bank.main, current), "main")
    _on(names, current)
    all_sources(kit.bank)


def _tries() -> list[int]:
    return st.session_state.setdefault("hl_iv_tries", [])


def _again() -> None:
    _tries().append(1)
    forget(SLOT)


def _on(names: list[str], current: str) -> None:
    """A way to the next text without going back up."""
    place = names.index(current)
    if place + 1 < len(names):
        following = names[place + 1]
        st.button(
            f"Next: {following}",
            key="_iv_part_next",
            icon=":material/arrow_forward:",
            on_click=lambda: st.session_state.update(hl_iv_part=following),
        )


def _short(kit: Kit) -> None:
    main = kit.bank.main
    st.subheader("Two sentences", anchor=False)
    st.markdown(f"**{words.plain(main.short)}**")
    sources_caption(kit.bank, main.short_sources)
    st.markdown(f"**To remember it: {words.plain(main.memory_title)}.** {words.plain(main.memory)}")
    picture(main.memory_alt)


def picture(alt: str) -> None:
    """The memory aid; drawn for this page."""
    raw = base64.b64encode((interview_dir() / "search-party.svg").read_bytes()).decode()
    st.html(
        f'<img alt="{html.escape(alt, quote=True)}" style="width:100%;max-width:900px;height:auto" '
        f'src="data:image/svg+xml;base64,{raw}">'
    )


def _minute(kit: Kit) -> None:
    st.subheader("One minute", anchor=False)
    st.caption("Say it aloud with a clock. Six points, each with its source.")
    statements(kit.bank, kit.bank.main.one_minute)
    st.button(
        "Now say it yourself, and check it",
        key="_iv_minute_try",
        icon=":material/record_voice_over:",
        on_click=interview_drill.ask,
        args=([MINUTE, *(name for name in kit.bank[kit.bank.main.question].follow_ups if name != MINUTE)],),
    )


def _long(kit: Kit) -> None:
    st.subheader("Long version", anchor=False)
    for said in kit.bank.main.long:
        st.markdown(statement(kit.bank, said))


def _stops(kit: Kit) -> None:
    st.subheader("When it stops working", anchor=False)
    for case in kit.bank.main.stops:
        st.markdown(
            f"**{words.plain(case.case)}.** {statement(kit.bank, case.found)}  \n:material/arrow_forward: "
            f"{words.plain(case.so)}"
        )


def _senior(kit: Kit) -> None:
    st.subheader("Senior view", anchor=False)
    st.caption("The same facts, ordered by the decision that somebody has to take.")
    statements(kit.bank, kit.bank.main.senior)


def _example(kit: Kit) -> None:
    st.subheader("Worked example", anchor=False)
    for step in kit.bank.main.example:
        st.markdown(f"{words.plain(step.text)} :gray[({cite_line(kit.bank, step.sources)})]")
        if step.formula:
            st.latex(step.formula)
    shape = kit.shape or GPT2_SMALL
    st.markdown(f"**With the numbers of {words.plain(shape.name)}:**")
    for name in LIVE:
        try:
            found = live(name, shape)
        except NotHereError as error:
            st.markdown(f"- {words.plain(QUANTITIES[name].title)}: {words.plain(str(error))}.")
        else:
            st.markdown(f"- {words.plain(QUANTITIES[name].title)}: {words.plain(found.sum)}")
    st.markdown(
        "**The score, the cut and the control in one small program.** It needs no network and no data of yours:"
    )
    place = f"assets/interview/{EXAMPLE}" if is_checkout() else EXAMPLE  # installed: as the download below is called
    st.code(f"python {place} {shlex.quote(_example_model(kit))}", language="bash")
    code = (interview_dir() / EXAMPLE).read_text(encoding="utf-8")
    st.code(code, language="python", line_numbers=True)
    st.download_button("Download the program", code, EXAMPLE, "text/x-python", key="_iv_example_download")


def _example_model(kit: Kit) -> str:
    """The chosen model, as a command takes it; a small one that is always there where it has no gradient score."""
    from headlens.metrics import metric_for

    scored = kit.lens is not None and metric_for(None, kit.lens.task).differentiable
    return state.get("model") if scored and kit.chosen is not None else "zoo-gpt2"


def _basics(kit: Kit) -> None:
    st.subheader("The words first", anchor=False)
    _terms(kit, kit.bank.main.basics)


def _concepts(kit: Kit) -> None:
    st.subheader("Key concepts", anchor=False)
    _terms(kit, kit.bank.main.concepts)


def _terms(kit: Kit, terms: Sequence[Term]) -> None:
    for term in terms:
        st.markdown(
            f"**{words.plain(term.term)}.** {words.plain(term.meaning)} :gray[({cite_line(kit.bank, term.sources)})]"
        )
        if term.formula:
            st.latex(term.formula)


def _in_use(kit: Kit) -> None:
    st.subheader("Products and research", anchor=False)
    st.markdown(
        "\n".join(f"- **{words.plain(use.name)}.** {statement(kit.bank, use.what)}" for use in kit.bank.main.in_use)
    )


def _flags(kit: Kit) -> None:
    st.subheader("Red flags", anchor=False)
    st.caption("Phrases that sound junior, why, and what to say instead.")
    for flag in kit.bank.main.flags:
        st.markdown(
            f":red[✗] “{words.plain(flag.phrase)}” {words.plain(flag.why)}  \n:green[✓] “{words.plain(flag.instead)}” "
            f":gray[({cite_line(kit.bank, flag.sources)})]"
        )


def claims_of(main: Main, part: str) -> list[str | None]:
    """The claims that a text refers to."""
    said: dict[str, Sequence[Statement]] = {
        "One minute": main.one_minute,
        "Long version": main.long,
        "When it stops working": [case.found for case in main.stops],
        "Senior view": main.senior,
        "Products and research": [use.what for use in main.in_use],
    }
    return [statement.claim for statement in said.get(part, ())]


PARTS: dict[str, Callable[[Kit], None]] = {
    "The words first": _basics,
    "Two sentences": _short,
    "One minute": _minute,
    "Long version": _long,
    "When it stops working": _stops,
    "Senior view": _senior,
    "Worked example": _example,
    "Key concepts": _concepts,
    "Products and research": _in_use,
    "Red flags": _flags,
}
"""The texts in the order of reading."""

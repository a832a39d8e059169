"""One claim as a card: verdict, number, figure, rule, published counterpart, and where to try it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from headlens.claims.export import number
from headlens.ui import state, words
from headlens.ui.lab_results import dark

if TYPE_CHECKING:
    from headlens.claims.base import Claim, Try
    from headlens.claims.run import Checked
    from headlens.lens import Lens

BADGES = {
    "holds": ":green-badge[:material/check_circle: holds]",
    "fails": ":red-badge[:material/cancel: fails]",
    "mixed": ":orange-badge[:material/balance: mixed]",
    "not measurable": ":gray-badge[:material/block: not measurable here]",
}
"""Word and icon say it; the colour only helps."""


def card(claim: Claim, one: Checked | None, lens: Lens, cost: str) -> None:
    """Draws a claim; ``one`` is None while it has not been checked."""
    with st.container(border=True):
        st.subheader(claim.statement, anchor=False)
        if one is None:
            st.caption(f"Not checked yet; about {cost} by itself.")
        else:
            _found(one, lens)
        st.caption(f"**Rule, fixed beforehand.** {words.plain(claim.rule)}")
        with st.expander("Published counterpart, why it matters"):
            st.markdown(f"**Published.** {words.plain(claim.published.line())}")
            st.markdown(f"**Why it matters.** {words.plain(claim.why)}")


def _found(one: Checked, lens: Lens) -> None:
    finding = one.finding
    against = " · **not what the textbook says**" if one.disagrees else ""
    st.markdown(f"{BADGES[finding.verdict]}{against}")
    if finding.value is not None:
        st.markdown(f"**{words.plain(number(one))}** (95 % interval)")
    st.markdown(_text(finding.sentence))
    if finding.figure is not None:
        from headlens.charts.claims import claim_figure

        figure = claim_figure(finding.figure, dark=dark())
        key, alt = f"claim_figure_{one.claim.name}", finding.sentence
        st.plotly_chart(figure, width="stretch", key=key, alt=alt, config={"displayModeBar": False})
    if finding.again is not None:
        _try(finding.again, one.claim.name, lens)
    if finding.verdict != "not measurable":
        st.caption(f"{'From the store, measured in' if one.cached else 'Measured in'} {one.seconds:.1f} s.")


def _text(sentence: str) -> str:
    """A sentence as markdown shows it literally, but for what stands in backticks: that is a command."""
    parts = [part if place % 2 else words.plain(part) for place, part in enumerate(sentence.split("`"))]
    return "`".join(parts) + ("" if sentence.endswith((".", ")")) else ".")


def _try(again: Try, name: str, lens: Lens) -> None:
    if st.button(again.label, key=f"claim_try_{name}", icon=":material/open_in_new:", type="tertiary"):
        for key, value in again.state.items():
            if key == "off":
                state.switch(lens.topology, lens.topology.parse(value))
            else:
                state.put(key, value)
        st.switch_page(again.page)

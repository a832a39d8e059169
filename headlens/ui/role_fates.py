"""How important the heads of each role are, and when they go in pruning: one picture, one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from headlens.charts.fates import role_fates
from headlens.ui import words

if TYPE_CHECKING:
    from headlens.ui.head_roles import HeadRoles
    from headlens.ui.shown import Shown


def section(found: HeadRoles | None, shown: Shown) -> None:
    """Draws the picture when both the scores and the roles are there."""
    from headlens.roles.fate import by_score, fates
    from headlens.roles.standing import summary

    scores = shown.final
    if found is None or scores is None or scores.unit != "head":
        return
    st.subheader("Roles: how much they matter, and when they go", divider=False)
    if scores.no_signal:
        st.caption("The scores carry no signal, so there is no order in which heads would go.")
        return
    if shown.warning:
        st.caption(f"{shown.warning} So nothing is said on when the heads of a role go: more text would tell.")
        return
    standing = fates(found.scores, by_score(scores))
    said = summary(standing, scores, shown.unit)
    st.markdown(words.plain(said))
    if not standing.fates:
        return
    figure = role_fates(standing, scores, unit=shown.unit, dark=st.context.theme.type == "dark")
    st.plotly_chart(figure, width="stretch", key="fig_role_fates", alt=said, config={"displayModeBar": False})
    st.caption(
        "Heads go in the order of the score above, least important first; a head may have several roles. Told from "
        "chance: Mann-Whitney test at 5 %, Holm over the roles. In Voita et al. 2019 (grade N) positional, syntactic "
        "and rare-word heads went last."
    )

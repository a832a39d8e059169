"""What the page asks about the curve: which heads, which orders beside the ranked one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from headlens.ui import inputs

if TYPE_CHECKING:
    from headlens.pruning.plan import Steps
    from headlens.ui.choices import Chosen

RANDOM_ORDERS = 5
PENALTIES = (0.003, 0.01, 0.03)
GATE_STEPS = 300
ALL_SITES = "all"
SITES = {
    ALL_SITES: "the whole model",
    "enc": "the encoder's self-attention",
    "dec": "the decoder's self-attention",
    "cross": "cross-attention",
}


@dataclass(frozen=True)
class CurveOptions:
    """What the curve's own widgets ask for.

    Attributes:
        floor: heads that stay in every layer.
        random: number of random orders.
        rescore, gates, greedy: score anew at every step; learned gates too; the greedy reference too.
        site: only heads of this site; None for all.
    """

    floor: int
    random: int
    rescore: bool
    gates: bool
    greedy: bool
    site: str | None

    def steps(self, chosen: Chosen) -> Steps:
        """Which heads can be chosen, in steps of 10 %."""
        from headlens.pruning.plan import Steps

        sites = None if self.site is None else (self.site,)
        return Steps(chosen.lens.topology, chosen.unit, sites, self.floor)  # type: ignore[arg-type]

    @property
    def passes(self) -> int:
        """Most passes over the reported examples: none off, all off, and nine steps between for each order."""
        return 9 * (2 + self.random + self.greedy) + 2 + len(PENALTIES) * self.gates


def options(chosen: Chosen) -> CurveOptions:
    """Draws the widgets."""
    from headlens.importance import METHODS
    from headlens.pruning.order import columns_of
    from headlens.pruning.plan import GREEDY_LIMIT

    topology = chosen.lens.topology
    with st.container(horizontal=True, vertical_alignment="bottom"):
        site = _site(chosen) if len(topology.sites) > 1 else None
        columns = columns_of(topology, chosen.unit, None if site is None else (site,))  # type: ignore[arg-type]
        floor = inputs.number("Heads that stay in every layer", "curve_floor", 0, 0, 64, 220)
        random = inputs.number("Random orders", "curve_random", RANDOM_ORDERS, 0, 20, 150)
        rescore = inputs.toggle("Score anew at every step", "curve_rescore", disabled=not METHODS[chosen.method].needs)
        gates = inputs.toggle("Learned gates too", "curve_gates")
        greedy = inputs.toggle(
            "Greedy order too",
            "curve_greedy",
            disabled=len(columns) > GREEDY_LIMIT,
            help=f"Every head that is left is tried at every step, exactly; for up to {GREEDY_LIMIT} heads.",
        )
    if rescore or gates or greedy:
        st.caption(_price(len(columns)))
    return CurveOptions(floor, random, rescore, gates, greedy, site)


def _site(chosen: Chosen) -> str | None:
    titles = {ALL_SITES: SITES[ALL_SITES]}
    titles |= {site.name: SITES.get(site.name, site.name) for site in chosen.lens.topology.sites}
    found = inputs.choice("Heads of", "curve_site", titles, first=ALL_SITES, kind="select", width=240)
    return None if found == ALL_SITES else found


def _price(columns: int) -> str:
    penalties = ", ".join(f"{penalty:g}" for penalty in PENALTIES)
    return (
        "Scoring anew follows how heads take over from each other, at the price of one scoring a step. Learned gates "
        f"(Voita et al. 2019): weights frozen, {GATE_STEPS} steps each for the penalties {penalties}. The greedy order "
        f"is the reference, at the price of {columns * (columns + 1) // 2:,} passes over the examples that choose."
    )

"""Claims about special heads: those with a role, and cross-attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from headlens.claims.base import Claim, Figure, Finding, NotMeasurable, Published, Series, Try
from headlens.metrics import ratio
from headlens.significance import Z_95

if TYPE_CHECKING:
    from headlens.claims.context import Context
    from headlens.evaluate import Measured
    from headlens.heads import Head
    from headlens.roles import RoleScores

CHEAP = ("text", "twice", "four times")
"""What the detectors of this claim look at: not the long texts and parsed stories, which cost most."""


class RolesGoLast(Claim):
    """Heads that pass a specific role's threshold, in the order in which heads go."""

    name = "roles-go-last"
    shares = ("order",)
    why = "It is the reason why a few heads are enough, and why the last ones must not be touched."
    rule = (
        "Heads have a role if they pass the threshold of a specific detector (previous token, induction, ...; general "
        "ones such as first token or broad do not count), found on the held-out half. Number: chance that a head "
        "with a role goes later than one without, in the order of the score half (0.5 by chance), give or take 1.96 "
        "standard errors of that chance in a random order (Mann-Whitney). Holds if all of it is above 0.5, fails if "
        "all below, else mixed."
    )
    published = Published(
        "Of 48 encoder heads 17 keep all roles; positional, syntactic and rare-word heads go last",
        "Voita et al. 2019, §6",
        "N",
    )

    def passes(self, context: Context) -> float:  # noqa: ARG002
        """One pass that looks at patterns, and repeated blocks."""
        return 15

    def check(self, context: Context) -> Finding:
        """See the rule."""
        from headlens.roles import roles
        from headlens.roles.fate import by_score
        from headlens.roles.registry import DETECTORS

        scores = context.scores()
        context.phase("roles of all heads")
        wanted = [name for name, one in DETECTORS.items() if one.looks_at in CHEAP and not one.general]
        found = roles(
            context.lens, context.held_out, detectors=wanted, seed=context.seed, on_progress=context.on_progress
        )
        special = specialised(found)
        return roles_go_last(by_score(scores), special)


def specialised(found: RoleScores) -> dict[Head, str]:
    """Heads that pass the threshold of a specific role, with the first such role."""
    from headlens.roles.registry import DETECTORS

    special: dict[Head, str] = {}
    for role in found.scores:
        if not DETECTORS[role].general:
            for head in found.passing(role):
                special.setdefault(head, role)
    return special


def roles_go_last(when: Mapping[Head, float], special: Mapping[Head, str]) -> Finding:
    """The verdict.

    Args:
        when: for every head the share of heads that are off when it goes.
        special: heads with a role, and which.
    """
    own = np.array([when[head] for head in when if head in special])
    others = np.array([when[head] for head in when if head not in special])
    if len(own) < 2 or len(others) < 2:
        raise NotMeasurable(
            f"{len(own)} of {len(when)} heads have a specific role; at least 2 with and 2 without are needed"
        )
    value, low, high = _later(own, others)
    verdict = "holds" if low > 0.5 else "fails" if high < 0.5 else "mixed"
    names = {role: sum(1 for each in special.values() if each == role) for role in sorted(set(special.values()))}
    listed = ", ".join(f"{count} {role}" for role, count in names.items())
    sentence = (
        f"{len(own)} of {len(when)} heads have a specific role ({listed}); one of them goes later than a head without "
        f"with chance {value:.2f} ({low:.2f} to {high:.2f}), 0.50 if roles did not matter."
    )
    fractions = np.linspace(0, 1, 11)
    shares = [
        Series(
            name,
            tuple((100 * fractions).tolist()),
            tuple(float((group > fraction + 1e-9).mean() * 100) for fraction in fractions),
        )
        for name, group in (("with a role", own), ("without", others))
    ]
    figure = Figure("line", "heads off (%)", "still on (%)", tuple(shares))
    again = Try("See the roles", "pages/attention.py")
    return Finding(verdict, value, low, high, "probability", sentence, figure, again)


def _later(own: np.ndarray, others: np.ndarray) -> tuple[float, float, float]:
    """Share of pairs in which the own one goes later (ties half), and its interval.

    The standard error is that of a random order (Mann and Whitney 1947), which is what 0.5 is told apart from. A
    bootstrap over heads is far too narrow here: with two heads of a role it leaves 0.5 out in a quarter of all random
    orders.
    """
    value = float(((own[:, None] > others).astype(float) + 0.5 * (own[:, None] == others)).mean())
    error = Z_95 * float(np.sqrt((len(own) + len(others) + 1) / (12 * len(own) * len(others))))
    return value, max(0.0, value - error), min(1.0, value + error)


class CrossMostSensitive(Claim):
    """Half of the heads of each kind of attention."""

    name = "cross-most-sensitive"
    shares = ("order",)
    why = (
        "What is true of one kind of attention must not be carried over to another: cross-attention is the bottleneck."
    )
    rule = (
        "Half of the heads of each kind (least important on the score half) are switched off, one kind at a time, "
        "held-out half. Number: cost for cross-attention less that for the next costly kind, paired by example, with "
        "its "
        "95 % interval. Holds if all of it is above 0, fails if all below, else mixed."
    )
    published = Published(
        "Above 60 % pruned, encoder-decoder attention collapses, while the others keep about 30 BLEU with 20 % left",
        "Michel et al. 2019, §5",
        "N",
    )

    def passes(self, context: Context) -> float:  # noqa: ARG002
        """A score and one pass for each kind."""
        return 4

    def check(self, context: Context) -> Finding:
        """See the rule."""
        sites = [site.name for site in context.lens.topology.sites]
        if "cross" not in sites or len(sites) < 2:
            raise NotMeasurable("this model has no cross-attention")
        sets = {site: context.lowest(0.5, site) for site in sites}
        context.phase("half of each kind of attention")
        found = context.measured(list(sets.values()))
        topology = context.lens.topology
        off = topology.format(sets["cross"])
        return cross_most_sensitive({site: found[off] for site, off in sets.items()}, context.unit, off)


def cross_most_sensitive(found: Mapping[str, Measured], unit: str, off: str = "none") -> Finding:
    """The verdict on the effect of each site (the metric's rise)."""
    cross = found["cross"]
    next_one = max((site for site in found if site != "cross"), key=lambda site: found[site].delta)
    other = found[next_one]
    assert cross.changes is not None
    assert other.changes is not None
    assert cross.weights is not None
    difference, error = (float(x) for x in ratio(cross.changes - other.changes, cross.weights))
    low, high = difference - Z_95 * error, difference + Z_95 * error
    verdict = "holds" if low > 0 else "fails" if high < 0 else "mixed"
    listed = ", ".join(f"{site} {one.delta:+.3g}" for site, one in found.items())
    sentence = f"Half of the heads of one kind off costs, in {unit}: {listed}."
    series = Series(
        "half of the heads off",
        tuple(found),
        tuple(one.delta for one in found.values()),
        tuple(one.delta - Z_95 * one.delta_sem for one in found.values()),
        tuple(one.delta + Z_95 * one.delta_sem for one in found.values()),
    )
    figure = Figure("bars", "kind of attention", f"cost ({unit})", (series,))
    again = Try("Switch half of cross-attention off", "pages/switchboard.py", {"off": off})
    return Finding(verdict, difference, low, high, unit, sentence, figure, again)

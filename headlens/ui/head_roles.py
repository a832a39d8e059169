"""Roles of all heads for the pages: one shared job for each model and text, and pictures of where a head looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from headlens.ui import cache
from headlens.ui.jobs import Job

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.heads import Head, Topology, Unit
    from headlens.lens import Lens
    from headlens.roles import RoleScores

EXAMPLES = 8
"""Examples of the chosen text that roles are read from; the copying roles look at random blocks besides."""
SHOWN_TOKENS = 104
"""Most tokens in a picture, on each side."""


@dataclass(frozen=True)
class HeadRoles:
    """Roles, and the data that they were read from.

    Attributes:
        scores: by head and role.
        sources: what the detectors looked at: ``text``, ``twice``, ``four times``.
    """

    scores: RoleScores
    sources: Mapping[str, EncodedData]


@dataclass(frozen=True)
class Picture:
    """Where one head looks on one example.

    Attributes:
        pattern: float16 ``[query, key]``, cut to :data:`SHOWN_TOKENS`.
        query_ids, key_ids: the tokens, cut likewise; empty for pictures.
        source: which data the example comes from.
    """

    pattern: np.ndarray
    query_ids: list[int]
    key_ids: list[int]
    source: str


def roles_job(lens: Lens, data: EncodedData, viewer: str) -> Job:
    """The shared job whose result is a :class:`HeadRoles`."""
    from headlens.roles import roles
    from headlens.roles.blocks import repeated_blocks

    few = replace(data, examples=data.examples[:EXAMPLES])

    def work(job: Job) -> HeadRoles:
        scores = roles(lens, few, on_progress=job.progress)
        sources = {"text": few}
        for name, block, times in (("twice", 50, 2), ("four times", 25, 4)):
            blocks = repeated_blocks(lens, block, times, seed=scores.seed) if lens.accepts("input_ids") else None
            if blocks is not None:
                sources[name] = blocks.data
        return HeadRoles(scores, sources)

    key = ("roles", lens.fingerprint, few.hash)
    return cache.jobs().start(key, f"What the heads of {lens.title} do", work, viewer)


def role_words(found: HeadRoles, head: Head) -> str:
    """The head's role and its score, or an empty string where it passes no threshold."""
    from headlens.roles import DETECTORS

    role = found.scores.label(head)
    return "" if role is None else f"{DETECTORS[role].title}, {found.scores.of(head)[role]:.2f}"


def tooltips(found: HeadRoles, topology: Topology, unit: Unit) -> dict[str, str]:
    """A few words for each head (or group: its heads' different roles) by label."""
    from headlens.heads import Head

    words = {head: role_words(found, head) for head in topology.heads()}
    tips = {}
    for site in topology.sites:
        for layer in range(len(site.layers)):
            for column in site.columns(layer, unit):
                members = topology.members(site.name, layer, column, unit)
                texts = [words[Head(site.name, layer, member)] for member in members]
                if unit == "kv":
                    texts = [text.rpartition(",")[0] for text in texts]
                tips[topology.label(site.name, layer, column, unit)] = " / ".join(dict.fromkeys(filter(None, texts)))
    return tips


def role_lines(found: HeadRoles, head: Head) -> list[str]:
    """All roles whose threshold the head passes, the best first; else the one that it comes closest to."""
    from headlens.roles import DETECTORS

    scores = found.scores.of(head)
    rated = {role: score for role, score in scores.items() if DETECTORS[role].threshold is not None}
    passed = [role for role, score in rated.items() if score >= (DETECTORS[role].threshold or 0)]
    best = found.scores.label(head)
    passed.sort(key=lambda role: (role != best, -rated[role]))
    lines = [f"**{DETECTORS[role].title}** {rated[role]:.2f}" for role in passed]
    if not lines and rated:
        near = max(rated, key=lambda role: rated[role] / (DETECTORS[role].threshold or 1))
        lines = [
            f"none; nearest is {DETECTORS[near].title}, {rated[near]:.2f} of the {DETECTORS[near].threshold} needed"
        ]
    return lines


def picture(lens: Lens, found: HeadRoles, head: Head) -> Picture:
    """Where the head looks on the example that shows its role best (the first text where it has none)."""
    from headlens.roles import DETECTORS

    role = found.scores.label(head)
    source, index = "text", 0
    if role is not None:
        best = int(found.scores.examples[role][head.site][head.layer, head.head])
        if best >= 0 and DETECTORS[role].looks_at in found.sources:
            source, index = DETECTORS[role].looks_at, best
    data = found.sources[source]
    patterns = cache.example_patterns(lens.fingerprint, data.hash, index, SHOWN_TOKENS, lens, data)
    layer = patterns.pattern_layers[head.site].index(head.layer)
    pattern = patterns.pattern[head.site][layer, head.head]
    cut = slice(0, SHOWN_TOKENS)
    queries, keys = patterns.query_ids[head.site], patterns.key_ids[head.site]
    return Picture(pattern, queries[cut], keys[cut], source)

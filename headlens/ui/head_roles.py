"""Roles of all heads for the pages: one shared job for each model and text, and pictures of where a head looks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
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
        sources: what the detectors looked at: ``text``, ``twice``, ``four times``, ``parsed``.
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


def roles_job(lens: Lens, data: EncodedData, viewer: str, *, costly: bool = False) -> Job:
    """The shared job whose result is a :class:`HeadRoles`; what an earlier run has found comes from the store.

    With ``costly`` the roles that need long texts of their own are found too; the others are its partial result.
    """
    from headlens.roles import DETECTORS
    from headlens.roles.stored import merged, stored_roles

    few = replace(data, examples=data.examples[:EXAMPLES])

    def work(job: Job) -> HeadRoles:
        scores = stored_roles(lens, few, store=cache.store(), on_progress=job.progress)
        found = HeadRoles(scores, _sources(lens, few, scores.seed))
        if not costly:
            return found
        job.publish(found)
        job.phase(f"What the heads of {lens.title} do in parsed stories and long texts")
        left = [name for name, each in DETECTORS.items() if each.costly]
        more = stored_roles(lens, few, detectors=left, store=cache.store(), on_progress=job.progress)
        return HeadRoles(merged(lens, [scores, more]), found.sources)

    key = roles_key(lens, few, costly)
    return cache.jobs().start(key, f"What the heads of {lens.title} do", work, viewer, implied=True)


def roles_key(lens: Lens, few: EncodedData, costly: bool) -> Hashable:
    """Names the job on these examples."""
    return ("roles", lens.fingerprint, few.hash, costly)


def _sources(lens: Lens, few: EncodedData, seed: int) -> dict[str, EncodedData]:
    """What detectors looked at, for pictures of it; not the long texts."""
    from headlens.roles.blocks import repeated_blocks
    from headlens.roles.parses import parsed_stories

    sources = {"text": few}
    if not lens.accepts("input_ids"):
        return sources
    for name, block, times in (("twice", 50, 2), ("four times", 25, 4)):
        blocks = repeated_blocks(lens, block, times, seed=seed)
        if blocks is not None:
            sources[name] = blocks.data
    stories = parsed_stories(lens, seed=seed)
    if stories is not None:
        sources["parsed"] = stories.data
    return sources


def found_roles(job: Job | None) -> HeadRoles | None:
    """What a job of :func:`roles_job` has found so far; None while there is nothing."""
    return None if job is None else job.result or job.partial


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

"""The list of role detectors. A new one is a class in a file here, a line in ``DETECTORS`` below and a test."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from headlens.roles.base import Detector
from headlens.roles.content import Broad, Punctuation, Separator
from headlens.roles.position import Distance, FirstToken, NextToken, Positional, PreviousToken, SelfToken
from headlens.roles.rare import RareWord
from headlens.roles.repeats import DuplicateToken, Induction, PrefixMatching
from headlens.roles.retrieval import Retrieval
from headlens.roles.syntactic import Syntactic


def _registry(*detectors: Detector) -> Mapping[str, Detector]:
    found: dict[str, Detector] = {}
    for detector in detectors:
        if detector.name in found:
            raise ValueError(f"two role detectors are called {detector.name!r}")
        found[detector.name] = detector
    return MappingProxyType(found)


DETECTORS: Mapping[str, Detector] = _registry(
    PreviousToken(),
    NextToken(),
    SelfToken(),
    FirstToken(),
    DuplicateToken(),
    Induction(),
    PrefixMatching(),
    Separator(),
    Punctuation(),
    Syntactic(),
    RareWord(),
    Retrieval(),
    Broad(),
    Positional(),
    Distance(),
)

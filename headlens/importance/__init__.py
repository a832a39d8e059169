"""Importance methods. A new one is a file here, a line in ``METHODS`` below and a test; see CONTRIBUTING.md."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from headlens.errors import HeadlensError
from headlens.importance.ablation import AblationMethod
from headlens.importance.base import Method, Raw, Request
from headlens.importance.confidence import ConfidenceMethod
from headlens.importance.fisher import FisherMethod
from headlens.importance.gradient import GradientMethod
from headlens.importance.magnitude import MagnitudeMethod, MagnitudeOVMethod
from headlens.importance.output_norm import OutputNormMethod
from headlens.importance.random import RandomMethod


def _registry(*methods: Method) -> Mapping[str, Method]:
    found: dict[str, Method] = {}
    for method in methods:
        if method.name in found:
            raise ValueError(f"two importance methods are called {method.name!r}")
        found[method.name] = method
    return MappingProxyType(found)


METHODS: Mapping[str, Method] = _registry(
    AblationMethod(),
    GradientMethod(),
    MagnitudeMethod(),
    MagnitudeOVMethod(),
    OutputNormMethod(),
    FisherMethod(),
    ConfidenceMethod(),
    RandomMethod(),
)


def method_for(name: str) -> Method:
    """The method called ``name``; raises HeadlensError with a suggestion."""
    if name in METHODS:
        return METHODS[name]
    near = difflib.get_close_matches(name, METHODS, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise HeadlensError(f"unknown method {name!r}; {hint}choose one of {', '.join(METHODS)}")


__all__ = ["METHODS", "Method", "Raw", "Request", "method_for"]

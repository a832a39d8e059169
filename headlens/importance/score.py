"""From a method's raw contributions to labelled scores with error, reliability and provenance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import headlens
from headlens.errors import HeadlensError
from headlens.importance.base import Method, Raw, Request
from headlens.metrics import ratio
from headlens.reliability import split_half
from headlens.scores import HeadScores
from headlens.switches import by_content

if TYPE_CHECKING:
    from headlens.data.encode import Encoded, EncodedData
    from headlens.heads import SiteShape, Unit
    from headlens.lens import Lens

_LANGUAGE_MODELS = ("causal-lm", "masked-lm", "seq2seq")
Normalize = Literal["none", "layer"]


def score(lens: Lens, method: Method, request: Request, *, normalize: Normalize = "none") -> HeadScores:
    """Scores every head of ``lens`` with ``method``.

    Args:
        lens: the model.
        method: from the registry.
        request: data, metric and options.
        normalize: ``layer`` divides each layer by its l2 norm (Molchanov et al. 2017).

    Raises:
        HeadlensError: the method does not apply to this model, metric or data.
    """
    raw = method.compute(lens, request)
    if raw.values:
        values = dict(raw.values)
        sem = {site: np.full_like(array, np.nan) for site, array in values.items()}
    else:
        pairs = {site: ratio(array, raw.denominator[site]) for site, array in raw.numerator.items()}
        values = {site: pair[0] for site, pair in pairs.items()}
        sem = {site: pair[1] for site, pair in pairs.items()}
    if normalize == "layer":
        norms = {site: np.sqrt(np.nansum(array**2, axis=1, keepdims=True)) for site, array in values.items()}
        if any(norms[site.name][layer] == 0 for site in lens.topology.sites for layer in _scored(site, request.unit)):
            raise HeadlensError("--normalize layer: every score of a layer is 0, so it has no norm to divide by")
        values = {site: array / norms[site] for site, array in values.items()}
        sem = {site: array / norms[site] for site, array in sem.items()}
    return HeadScores(
        topology=lens.topology,
        values=values,
        sem=sem,
        n=len(request.data) if raw.numerator and request.data is not None else 0,
        unit=request.unit,
        method=method.name,
        metric=request.metric.name if raw.numerator else None,
        ablation=request.ablation if method.name == "ablation" else None,
        reliability=_reliability(request, raw, normalize),
        no_signal=no_signal(lens, request.data, raw, request) if raw.numerator else "",
        provenance=_provenance(lens, request, raw, normalize),
    )


def _scored(site: SiteShape, unit: Unit) -> list[int]:
    """Layers of a site that have something to score."""
    return [layer for layer in range(len(site.layers)) if site.columns(layer, unit)]


def _reliability(request: Request, raw: Raw, normalize: str) -> float | None:
    if not raw.numerator:
        return None
    order = by_content(request.need_data())  # so that the halves do not depend on the order of the examples
    numerator = {site: array[order] for site, array in raw.numerator.items()}
    denominator = {site: array[order] for site, array in raw.denominator.items()}
    return split_half(numerator, denominator, seed=request.seed, normalize=normalize == "layer")


GUESSING = 0.98
"""A loss above this share of log(vocabulary size) is no better than guessing (untrained models sit at about 1)."""


def no_signal(lens: Lens, data: EncodedData | None, raw: Raw, request: Request) -> str:
    """Why a ranking would only rank noise, or an empty string."""
    if data is None:
        return ""
    if len({example.content for example in data.examples}) < 2:
        return "there is only one distinct example, so nothing tells how much the scores would change on another"
    special: set[int] = set(getattr(lens.tokenizer, "all_special_ids", ()))
    if lens.task in _LANGUAGE_MODELS and all(_constant(example, special) for example in data.examples):
        return "every text repeats one single token"
    totals = [
        raw.numerator[s.name][:, i, s.columns(i, request.unit)].sum(0)
        for s in lens.topology.sites
        for i in _scored(s, request.unit)
    ]
    flat = np.concatenate(totals)
    if not np.isfinite(flat).all():
        return f"some scores are not finite numbers (the model computes in {lens.dtype}; try --dtype float32)"
    if np.ptp(flat) == 0:
        return "all scores are equal"
    classes = lens.vocabulary if lens.task in _LANGUAGE_MODELS else 0
    guess = GUESSING * math.log(classes) if classes > 1 else math.inf
    if request.metric.name == "loss" and raw.baseline is not None and raw.baseline >= guess:
        return (
            f"the model is no better than guessing on this text (loss {raw.baseline:.3f}, "
            f"guessing among {classes} tokens gives {math.log(classes):.3f})"
        )
    return ""


def _constant(example: Encoded, special: set[int]) -> bool:
    """Whether the text that is predicted holds no two different ordinary tokens."""
    ids = example.inputs.get("decoder_input_ids", example.inputs["input_ids"])
    return len(set(ids.tolist()) - special) < 2


def _provenance(lens: Lens, request: Request, raw: Raw, normalize: str) -> Mapping[str, Any]:
    data = request.data if raw.numerator else None
    return {
        "model": lens.name,
        "fingerprint": lens.fingerprint,
        "family": lens.family,
        "task": lens.task,
        "dtype": str(lens.dtype).removeprefix("torch."),
        "device": str(lens.device),
        "data": None if data is None else data.name,
        "data_hash": None if data is None else data.hash,
        "split": None if data is None else data.split,
        "predictions": None if data is None else data.tokens,
        "signed": request.signed,
        "normalize": normalize,
        "seed": request.seed,
        "baseline": raw.baseline if raw.baseline is not None and math.isfinite(raw.baseline) else None,
        "seconds": round(raw.seconds, 3),
        "cached": raw.cached,
        "versions": {
            "headlens": headlens.__version__,
            **{name: version(name) for name in ("torch", "transformers", "numpy")},
        },
    }

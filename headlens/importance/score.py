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

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.lens import Lens

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
        if any((norm == 0).any() for norm in norms.values()):
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
        reliability=split_half(raw.numerator, raw.denominator, seed=request.seed, normalize=normalize == "layer"),
        no_signal=no_signal(lens, request.data, raw, request) if raw.numerator else "",
        provenance=_provenance(lens, request, raw, normalize),
    )


GUESSING = 0.98
"""A loss above this share of log(vocabulary size) is no better than guessing (untrained models sit at about 1)."""


def no_signal(lens: Lens, data: EncodedData | None, raw: Raw, request: Request) -> str:
    """Why a ranking would only rank noise, or an empty string."""
    if data is None:
        return ""
    if len({example.content for example in data.examples}) < 2:
        return "there is only one distinct example, so nothing tells how much the scores would change on another"
    if data.tokens and all(_constant(example.inputs.get("input_ids")) for example in data.examples):
        return "every text repeats one single token"
    flat = np.concatenate([array[:, ~np.isnan(array[0])].sum(0) for array in raw.numerator.values()])
    if np.ptp(flat) == 0:
        return "all scores are equal"
    classes = lens.vocabulary if lens.task in ("causal-lm", "masked-lm", "seq2seq") else 0
    guess = GUESSING * math.log(classes) if classes > 1 else math.inf
    if request.metric.name == "loss" and raw.baseline is not None and raw.baseline >= guess:
        return (
            f"the model is no better than guessing on this text (loss {raw.baseline:.3f}, "
            f"guessing among {classes} tokens gives {math.log(classes):.3f})"
        )
    return ""


def _constant(ids: Any) -> bool:
    """Whether all tokens but the first (perhaps a start token) and the last (perhaps an end token) are the same."""
    return ids is not None and len(set(ids.tolist()[1:-1] or ids.tolist())) == 1


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
        "baseline": raw.baseline,
        "seconds": round(raw.seconds, 3),
        "cached": raw.cached,
        "versions": {
            "headlens": headlens.__version__,
            **{name: version(name) for name in ("torch", "transformers", "numpy")},
        },
    }

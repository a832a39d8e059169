"""From a method's raw contributions to labelled scores with error, reliability and provenance."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import headlens
from headlens.errors import HeadlensError, StoreError
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
_logger = logging.getLogger(__name__)
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
    return from_raw(lens, method, request, contributions(lens, method, request), normalize=normalize)


def from_raw(
    lens: Lens, method: Method, request: Request, raw: Raw, *, normalize: Normalize = "none", absolute: bool = False
) -> HeadScores:
    """Scores of contributions that are there already; see :func:`score`.

    Args:
        lens, method, request: what the contributions were made with.
        raw: the contributions.
        normalize: see :func:`score`.
        absolute: score the size of the effect and not its direction (of the total; not of each example).

    Raises:
        HeadlensError: a layer without any effect is to be normalised.
    """
    if raw.values:
        values = dict(raw.values)
        sem = {site: np.full_like(array, np.nan) for site, array in values.items()}
    else:
        pairs = {site: ratio(array, raw.denominator[site]) for site, array in raw.numerator.items()}
        values = {site: pair[0] for site, pair in pairs.items()}
        sem = {site: pair[1] for site, pair in pairs.items()}
    if absolute:
        values = {site: np.abs(array) for site, array in values.items()}
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
        reliability=_reliability(request, raw, normalize, absolute),
        no_signal=no_signal(lens, request.data, raw, request) if raw.numerator else "",
        provenance={**_provenance(lens, request, raw, normalize), "absolute": absolute},
    )


def contributions(lens: Lens, method: Method, request: Request) -> Raw:
    """What ``method`` computes, from the store where it is there; a new computation is put into the store.

    Methods that need no data cost less than reading a file, and an exact sweep keeps its own layers.
    """
    store = request.store
    if store is None or request.data is None or not method.needs or method.name in _KEEP_THEIR_OWN:
        return method.compute(lens, request)
    key = _key(lens, method, request)
    found = store.get(key) if request.resume else None
    raw = None if found is None else _unpacked(lens, request, found)
    if raw is None:
        raw = method.compute(lens, request)
        try:
            store.put(key, _packed(raw))
        except StoreError as error:  # the work is done: losing it for want of a place to keep it helps nobody
            _logger.warning("%s", error)
    return raw


def stored(lens: Lens, method: Method, request: Request) -> Raw | None:
    """Contributions that the store has, or None; nothing is computed."""
    if request.store is None or request.data is None or not method.needs or method.name in _KEEP_THEIR_OWN:
        return None
    found = request.store.get(_key(lens, method, request))
    return None if found is None else _unpacked(lens, request, found)


_KEEP_THEIR_OWN = ("ablation",)


def _key(lens: Lens, method: Method, request: Request) -> str:
    """Store key: everything that can change the numbers by more than rounding."""
    from headlens.store import unit_key

    return unit_key(
        kind="contributions",
        method=method.name,
        formula=method.formula,
        model=lens.fingerprint,
        dtype=str(lens.dtype),
        data=request.need_data().hash,
        metric=request.metric.name,
        unit=request.unit,
        signed=request.signed,
        seed=request.seed,
    )


def _packed(raw: Raw) -> dict[str, np.ndarray]:
    arrays = {f"numerator/{site}": array for site, array in raw.numerator.items()}
    arrays |= {f"denominator/{site}": array for site, array in raw.denominator.items()}
    return arrays | {"baseline": np.array(np.nan if raw.baseline is None else raw.baseline)}


def _unpacked(lens: Lens, request: Request, arrays: Mapping[str, np.ndarray]) -> Raw | None:
    """The contributions of a stored entry, or None when it does not fit; ``cached`` counts layers."""
    shapes = {
        site.name: (len(request.need_data()), len(site.layers), site.width(request.unit))
        for site in lens.topology.sites
    }
    numerator = {site: arrays.get(f"numerator/{site}") for site in shapes}
    denominator = {site: arrays.get(f"denominator/{site}") for site in shapes}
    top = {site: array for site, array in numerator.items() if array is not None and array.shape == shapes[site]}
    bottom = {site: array for site, array in denominator.items() if array is not None}
    if len(top) != len(shapes) or len(bottom) != len(shapes):
        return None
    baseline = float(arrays["baseline"])
    layers = sum(len(_scored(site, request.unit)) for site in lens.topology.sites)
    return Raw(top, bottom, baseline=None if math.isnan(baseline) else baseline, cached=layers)


def _scored(site: SiteShape, unit: Unit) -> list[int]:
    """Layers of a site that have something to score."""
    return [layer for layer in range(len(site.layers)) if site.columns(layer, unit)]


def _reliability(request: Request, raw: Raw, normalize: str, absolute: bool) -> float | None:
    if not raw.numerator:
        return None
    order = by_content(request.need_data())  # so that the halves do not depend on the order of the examples
    numerator = {site: array[order] for site, array in raw.numerator.items()}
    denominator = {site: array[order] for site, array in raw.denominator.items()}
    return split_half(numerator, denominator, seed=request.seed, normalize=normalize == "layer", absolute=absolute)


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

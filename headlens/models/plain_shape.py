"""Cut models that transformers can describe by itself: the same number of heads everywhere, and a config to say so.

Llama's own config insists that the number of heads divides the width of the model; Mistral's and Qwen2's do not, and
their layers compute the same thing. Whether a config really describes the model is not argued here but tried: it is
built from that config with the same weights, and has to give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from headlens.models.labels import CONFIG_KEY, Labels, as_built
from headlens.models.quiet import quiet
from headlens.models.sample import sample_inputs, tensors_of
from headlens.models.sizes import BUILD_ERRORS

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads")
_RELATIVES = {"llama": ("Mistral", "Qwen2")}
"""Families whose layers compute the same as another's; what differs in the config must be turned off there."""
_OFF = {"sliding_window": None, "use_sliding_window": False}


def as_plain(model: PreTrainedModel, labels: Labels) -> PreTrainedModel | None:
    """The same model, with a config that by itself describes what is left of it; None where none does.

    Args:
        model: a cut model; it shares its weights with the result.
        labels: its heads.

    Returns:
        A model whose folder ``AutoModel.from_pretrained`` opens without HeadLens. Its outputs equal those of ``model``
        to the bit on a made-up batch.
    """
    uniform = _uniform(labels)
    if uniform is None:
        return None
    for cls, config in _candidates(model, *uniform):
        setattr(config, CONFIG_KEY, as_built(labels))
        found = _built(cls, config, model)
        if found is not None:
            return found
    return None


def _uniform(labels: Labels) -> tuple[int, int] | None:
    """Query and KV heads of every layer, where all layers have equally many; None otherwise, or where one has none."""
    found = set()
    for layers in labels.values():
        for layer in layers:
            groups = {head * layer["kv_original"] // layer["original"] for head in layer["heads"]}
            found.add((len(layer["heads"]), len(groups)))
    if len(found) != 1:
        return None
    ((heads, groups),) = found
    return (heads, groups) if heads and heads % groups == 0 else None


def _candidates(
    model: PreTrainedModel, heads: int, kv_heads: int
) -> Iterator[tuple[type[PreTrainedModel], PretrainedConfig]]:
    """Configs that may describe the model: its own family's first."""
    import transformers

    own = model.config
    fields = {name: value for name, value in own.to_dict().items() if name not in ("model_type", "architectures")}
    width = getattr(own, "head_dim", None) or own_width(own)
    changes: dict[str, Any] = {name: heads for name in _HEADS if name in fields}
    if "num_key_value_heads" in fields:
        changes["num_key_value_heads"] = kv_heads
    if width is not None:
        changes["head_dim"] = width
    kinds: list[tuple[Any, type[PreTrainedModel], dict[str, Any]]] = [(type(own), type(model), {})]
    for relative in _RELATIVES.get(own.model_type, ()):
        name = type(model).__name__.replace(type(own).__name__.removesuffix("Config"), relative)
        cls, config = getattr(transformers, name, None), getattr(transformers, f"{relative}Config", None)
        if cls is not None and config is not None:
            kinds.append((config, cls, _OFF))
    for config, cls, off in kinds:
        try:
            with quiet():
                made = config(**{**fields, **changes, **off})
        except Exception:  # noqa: BLE001 - configs check themselves in many ways; one that refuses is no candidate
            continue
        yield cls, made


def own_width(config: Any) -> int | None:
    """Width of a head as a config implies it: the model's width by the number of heads."""
    width, heads = getattr(config, "hidden_size", None), getattr(config, "num_attention_heads", None)
    return width // heads if isinstance(width, int) and isinstance(heads, int) and heads else None


def _built(cls: type[PreTrainedModel], config: PretrainedConfig, model: PreTrainedModel) -> PreTrainedModel | None:
    """A model of ``cls`` with the weights of ``model``, if they fit and it computes the same."""
    state = model.state_dict()
    try:
        with quiet(), torch.device("meta"):
            shapes = {name: tensor.shape for name, tensor in cls(config).state_dict().items()}
        if shapes != {name: tensor.shape for name, tensor in state.items()}:
            return None
        with quiet():
            builder: Any = cls
            found = builder.from_pretrained(None, config=config, state_dict=dict(state), dtype=model.dtype)
        inputs = sample_inputs(model)
        with torch.inference_mode():
            wanted, output = tensors_of(model(**inputs)), tensors_of(found.to(model.device)(**inputs))
    except BUILD_ERRORS:
        return None
    same = wanted.keys() == output.keys() and all(torch.equal(wanted[name], output[name]) for name in wanted)
    if not same:
        return None
    if getattr(model, "generation_config", None) is not None:
        found.generation_config = model.generation_config
    return found.eval()

"""Opened tiny models beside their untouched copies, and a second, independent way to switch heads off.

The oracle finds output projections by a table of names written here, not by HeadLens's adapters, and switches a head
off by setting its columns of the projection's weight to zero in a deep copy.
"""

from __future__ import annotations

import copy
import functools
import re
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from headlens.heads import Head, HeadSet
from headlens.lens import Lens
from tests.unit.models.tiny import TINY, outputs, tiny

HEADS = 4
"""Query heads in every layer of every tiny model."""

_ENC_DEC = {
    "enc": r"\bencoder\.(?:layers|block)\.(\d+)\.(?:self_attn\.out_proj|layer\.0\.SelfAttention\.o)$",
    "dec": r"\bdecoder\.(?:layers|block)\.(\d+)\.(?:self_attn\.out_proj|layer\.0\.SelfAttention\.o)$",
    "cross": r"\bdecoder\.(?:layers|block)\.(\d+)\.(?:encoder_attn\.out_proj|layer\.1\.EncDecAttention\.o)$",
}
_PROJECTIONS = {
    "gpt2": r"\bh\.(\d+)\.attn\.c_proj$",
    "gpt_neo": r"\bh\.(\d+)\.attn\.attention\.out_proj$",
    "gpt_neox": r"\blayers\.(\d+)\.attention\.dense$",
    "opt": r"\blayers\.(\d+)\.self_attn\.out_proj$",
    "bloom": r"\bh\.(\d+)\.self_attention\.dense$",
    "falcon": r"\bh\.(\d+)\.self_attention\.dense$",
    "phi": r"\blayers\.(\d+)\.self_attn\.dense$",
    "bert": r"\blayer\.(\d+)\.attention\.output\.dense$",
    "roberta": r"\blayer\.(\d+)\.attention\.output\.dense$",
    "xlm-roberta": r"\blayer\.(\d+)\.attention\.output\.dense$",
    "camembert": r"\blayer\.(\d+)\.attention\.output\.dense$",
    "electra": r"\blayer\.(\d+)\.attention\.output\.dense$",
    "distilbert": r"\blayer\.(\d+)\.attention\.out_lin$",
    "modernbert": r"\blayers\.(\d+)\.attn\.Wo$",
    "vit": r"\blayers\.(\d+)\.attention\.o_proj$",
    "deit": r"\blayers\.(\d+)\.attention\.o_proj$",
    "dinov2": r"\blayer\.(\d+)\.attention\.o_proj$",
    "clip_text_model": r"\blayers\.(\d+)\.self_attn\.out_proj$",
    "clip_vision_model": r"\blayers\.(\d+)\.self_attn\.out_proj$",
}
_LLAMA_LIKE = r"\blayers\.(\d+)\.self_attn\.o_proj$"
_TOWERS = {
    "text": r"text_model\.encoder\.layers\.(\d+)\.self_attn\.out_proj$",
    "vision": r"vision_model\.encoder\.layers\.(\d+)\.self_attn\.out_proj$",
}


@dataclass(frozen=True)
class Opened:
    """A lens, an untouched deep copy of its model made before, and inputs."""

    name: str
    lens: Lens
    plain: PreTrainedModel
    inputs: dict[str, Tensor]

    @property
    def model(self) -> PreTrainedModel:
        """The instrumented model."""
        return self.lens.model

    def out(self, inputs: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Outputs of the instrumented model under whatever applies now."""
        with torch.no_grad():
            return outputs(self.model, inputs or self.inputs)

    def reference(self, off: Iterable[Head] = (), inputs: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Outputs of the untouched copy, with heads removed the other way."""
        with self.without(off) as model, torch.no_grad():
            return outputs(model, inputs or self.inputs)

    @contextmanager
    def without(self, off: Iterable[Head]) -> Iterator[PreTrainedModel]:
        """The plain copy while the heads' columns of ``W_O`` are zero (bias kept); put back afterwards."""
        if self.name.startswith("albert"):
            handles = _zero_calls(self.plain, list(off))
            yield self.plain
            for handle in handles:
                handle.remove()
            return
        kept: list[tuple[Tensor, Tensor]] = []
        for head in off:
            module = projections(self.name, self.plain, head.site)[head.layer]
            weight: Tensor = module.weight.data  # type: ignore[assignment, union-attr]
            kept.append((weight, weight.clone()))
            rows = weight.T if isinstance(module, nn.Linear) else weight  # [heads * d_head, d_model]
            d_head = len(rows) // HEADS
            rows[head.head * d_head : (head.head + 1) * d_head] = 0.0
        yield self.plain
        for weight, before in reversed(kept):
            weight.copy_(before)


def lens_on(model: PreTrainedModel) -> Lens:
    """A lens on a model that did not come from a file."""
    fields = {"name": "tiny", "title": "tiny", "task": "none", "tokenizer": None, "processor": None, "source": ""}
    return Lens(cast(Any, types.SimpleNamespace(model=model, notes=(), sidecar=None, **fields)))


@functools.cache
def opened(name: str, cls: str | None = None, *, padded: bool = True, dtype: torch.dtype = torch.float32) -> Opened:
    """One tiny model, opened once for all tests: nothing may stay behind on it."""
    model, inputs = tiny(name, cls, padded=padded, dtype=dtype)
    plain = copy.deepcopy(model)
    return Opened(name, lens_on(model), plain, inputs)


def projections(name: str, model: PreTrainedModel, site: str) -> list[nn.Module]:
    """The output projections of a site, found by name."""
    if TINY[name].kind in ("seq2seq", "sound"):
        pattern = (
            _ENC_DEC["dec" if "ForCausalLM" in type(model).__name__ else "enc"] if site == "self" else _ENC_DEC[site]
        )
    elif name == "clip":
        pattern = _TOWERS[site]
    else:
        base = name if name in _PROJECTIONS else name.split("-")[0]
        pattern = _PROJECTIONS.get(base, _LLAMA_LIKE)
    found = {int(m[1]): module for path, module in model.named_modules() if (m := re.search(pattern, path))}
    assert sorted(found) == list(range(len(found)))
    assert found
    return [found[i] for i in range(len(found))]


def _zero_calls(model: PreTrainedModel, off: list[Head]) -> list[Any]:
    """ALBERT: zeroes heads at the n-th call of any attention's ``dense`` in a forward pass."""
    count = [0]
    wanted = {head.layer: [h.head for h in off if h.layer == head.layer] for head in off}

    def before_model(module: nn.Module, args: Any, kwargs: Any) -> None:
        count[0] = 0

    def before_dense(module: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        z = args[0].clone()
        d_head = z.shape[-1] // HEADS
        for head in wanted.get(count[0], []):
            z[..., head * d_head : (head + 1) * d_head] = 0.0
        count[0] += 1
        return (z,)

    handles = [model.register_forward_pre_hook(before_model, with_kwargs=True)]
    for path, module in model.named_modules():
        if path.endswith(".attention.dense"):
            handles.append(module.register_forward_pre_hook(before_dense))
    return handles


def some_heads(lens: Lens) -> list[Head]:
    """Heads of different layers, three in each site."""
    return [
        Head(site.name, layer, head)
        for site in lens.topology.sites
        for layer, head in ((0, 0), (1, 3), (len(site.layers) - 1, 1))
    ]


def assert_same(found: dict[str, Tensor], wanted: dict[str, Tensor], atol: float = 0.0) -> None:
    """Same names, and values equal to the bit or within ``atol``."""
    assert found.keys() == wanted.keys()
    assert found
    for name, value in wanted.items():
        assert torch.isfinite(value).all(), name
        if atol == 0.0:
            assert torch.equal(found[name], value), f"{name}: {(found[name] - value).abs().max()}"
        else:
            torch.testing.assert_close(found[name], value, atol=atol, rtol=atol)


def differs(found: dict[str, Tensor], other: dict[str, Tensor], by: float = 1e-3) -> bool:
    """Whether some output differs by more than ``by``."""
    return any(float((found[name] - other[name]).abs().max()) > by for name in other)


def hook_count(model: nn.Module) -> int:
    """Hooks on all modules."""
    kinds: list[Callable[[Any], int]] = [
        lambda m: len(m._forward_hooks),
        lambda m: len(m._forward_pre_hooks),
        lambda m: len(m._backward_hooks),
    ]
    return sum(kind(module) for module in model.modules() for kind in kinds)


def heads(*found: Head) -> HeadSet:
    """A head set."""
    return HeadSet.of(found)

"""The lab's models: one decoder layer of transformers' Llama or Qwen3, and a linear read-out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.lab.specs import Architecture, Task


class LabModel(nn.Module):
    """A model of the lab; ``backbone`` is the transformers model. For one thread at a time.

    Attributes:
        task, architecture: what it was made for.
        backbone: ``LlamaModel`` or ``Qwen3Model`` with one layer.
        read_out: from the last hidden state to the task's outputs.
    """

    def __init__(self, task: Task, architecture: Architecture) -> None:
        super().__init__()
        self.task, self.architecture = task, architecture
        self.backbone = _backbone(task, architecture)
        self.read_out = nn.Linear(architecture.width, task.outputs)

    @property
    def layer(self) -> Any:
        """The one decoder layer."""
        return self.backbone.layers[0]

    def forward(self, tokens: Tensor) -> Tensor:
        """Read-out at the scored positions, ``[sequences, scored positions, outputs]``."""
        hidden = self.backbone(input_ids=tokens, use_cache=False).last_hidden_state
        return self.read_out(hidden[:, self.task.first :])

    def patterns(self, tokens: Tensor) -> Tensor:
        """Attention after the softmax, ``[sequences, heads, query, key]``."""
        before = self.backbone.config._attn_implementation
        self.backbone.set_attn_implementation("eager")  # the only one that hands the weights out
        try:
            with torch.inference_mode():
                return self.backbone(input_ids=tokens, use_cache=False, output_attentions=True).attentions[0]
        finally:
            self.backbone.set_attn_implementation(before)

    def head_outputs(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """What enters the layer and every head's ``z`` at the scored positions.

        Returns:
            The residual stream before the layer ``[sequences, positions, width]`` and ``z``
            ``[sequences, positions, heads, d_head]``.
        """
        seen: list[Tensor] = []
        handle = self.layer.self_attn.o_proj.register_forward_pre_hook(lambda _module, args: seen.append(args[0]))
        try:
            with torch.inference_mode():
                entering = self.backbone.get_input_embeddings()(tokens)
                self.backbone(input_ids=tokens, use_cache=False)
        finally:
            handle.remove()
        first, a = self.task.first, self.architecture
        return entering[:, first:], seen[0][:, first:].unflatten(-1, (a.heads, a.d_head))

    def written(self, z: Tensor) -> Tensor:
        """What each head writes into the residual stream, ``[..., heads, width]`` from ``z`` ``[..., heads, d_head]``.

        Their sum is the attention layer's output: the output projection has no bias.
        """
        a = self.architecture
        slices = self.layer.self_attn.o_proj.weight.unflatten(1, (a.heads, a.d_head))  # [width, heads, d_head]
        return torch.einsum("...hd,whd->...hw", z, slices)

    def after_attention(self, hidden: Tensor) -> Tensor:
        """Read-out from the residual stream after attention, ``[..., outputs]`` from ``[..., width]``."""
        hidden = hidden + self.layer.mlp(self.layer.post_attention_layernorm(hidden))
        return self.read_out(self.backbone.norm(hidden))


def build(task: Task, architecture: Architecture, seed: int) -> LabModel:
    """A model with transformers' own initial weights (normal, 0.02) drawn by the seed; changes no global state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LabModel(task, architecture)


def _backbone(task: Task, a: Architecture) -> Any:
    from transformers import LlamaConfig, LlamaModel, Qwen3Config, Qwen3Model

    classes: dict[str, tuple[Any, Any]] = {"llama": (LlamaConfig, LlamaModel), "qwen3": (Qwen3Config, Qwen3Model)}
    config_class, model_class = classes[a.shape]
    config = config_class(
        vocab_size=task.symbols,
        hidden_size=a.width,
        intermediate_size=a.mlp,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=a.d_head,
        max_position_embeddings=task.length,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    # LlamaConfig's constructor refuses numbers of heads that do not divide the width; the model takes them.
    config.num_attention_heads = config.num_key_value_heads = a.heads
    config._attn_implementation = "sdpa"
    return model_class(config)


def cut(model: LabModel, keep: Sequence[int]) -> LabModel:
    """A smaller model with the heads ``keep`` alone; everything else is copied. Equals switching the others off."""
    a = model.architecture
    if not keep or len(set(keep)) < len(keep) or not set(keep) <= set(range(a.heads)):
        raise ValueError(f"heads {list(keep)} are not a choice among {a.heads}")
    small = build(model.task, replace(a, heads=len(keep)), seed=0)
    rows = torch.tensor([head * a.d_head + place for head in keep for place in range(a.d_head)])
    weights = dict(model.state_dict())
    for name, weight in weights.items():
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
            weights[name] = weight[rows]
        elif name.endswith("o_proj.weight"):
            weights[name] = weight[:, rows]
    small.load_state_dict(weights)
    return small

"""The same question on a language: small English, two layers, few heads from scratch against few kept of many.

Every model reads the same stories in the same order. The loss that no model can beat is known exactly
(:mod:`headlens.zoo.grammar`), so what is reported is the *gap*: mean excess of a model's loss over the stories' own
information content, in nats a token, on stories that were not used otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch

from headlens.errors import HeadlensError
from headlens.zoo.batches import draw
from headlens.zoo.recipes import LENGTH, Recipe, build
from headlens.zoo.training import schedule

Sharing = Literal["mha", "gqa", "mqa", "mla"]
SHARINGS: tuple[Sharing, ...] = get_args(Sharing)
LATENT, ROPE = 24, 8
"""MLA: numbers that all heads share for keys and values, and for the position, a token and layer."""


@dataclass(frozen=True)
class Language:
    """A model of small English and its training.

    Attributes:
        heads: query heads in each layer.
        sharing: who has keys and values: every head (``mha``), groups of four (``gqa``), all together (``mqa``), or a
            shared latent vector (``mla``).
        layers, width, d_head, mlp: sizes.
        steps, batch, rate: of the training; the learning rate goes as :func:`headlens.zoo.training.schedule` says.
        seed: of the weights and the stories.
    """

    heads: int = 8
    sharing: Sharing = "mha"
    layers: int = 2
    width: int = 128
    d_head: int = 16
    mlp: int = 256
    steps: int = 1500
    batch: int = 16
    rate: float = 3e-3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.sharing not in SHARINGS:
            raise HeadlensError(f"unknown sharing {self.sharing!r}; choose one of {', '.join(SHARINGS)}")
        if self.heads < 1 or (self.sharing == "gqa" and self.heads % 4):
            raise HeadlensError(f"{self.heads} heads cannot be shared as {self.sharing}")

    @property
    def kv_heads(self) -> int:
        """Heads that have keys and values of their own (MLA: every head, from the latent vector)."""
        return {"gqa": self.heads // 4, "mqa": 1}.get(self.sharing, self.heads)

    @property
    def kv_bytes(self) -> int:
        """Bytes that a token leaves in a cache of 16-bit keys and values."""
        numbers = LATENT + ROPE if self.sharing == "mla" else 2 * self.kv_heads * self.d_head
        return 2 * self.layers * numbers

    @property
    def recipe(self) -> Recipe:
        """As the zoo builds and feeds it."""
        settings: dict[str, Any] = {
            "hidden_size": self.width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "intermediate_size": self.mlp,
            "max_position_embeddings": LENGTH,
            "initializer_range": 0.08,
            "tie_word_embeddings": True,
        }
        name, model, config = "lab", "Qwen3ForCausalLM", "Qwen3Config"
        if self.sharing == "mla":
            model, config = "DeepseekV3ForCausalLM", "DeepseekV3Config"
            settings |= {"first_k_dense_replace": self.layers, "q_lora_rank": None, "kv_lora_rank": LATENT}
            settings |= {"qk_nope_head_dim": self.d_head - ROPE, "qk_rope_head_dim": ROPE, "v_head_dim": self.d_head}
        else:
            settings["head_dim"] = self.d_head
        return Recipe(name, name, "causal", model, config, settings, self.steps, self.batch, self.rate)

    def flops_a_token(self, vocabulary: int) -> int:
        """Floating-point operations of one token's training: matrix products, backward counted twice, length 128.

        Not for ``mla``, whose projections are built otherwise.
        """
        inner, keys = self.heads * self.d_head, self.kv_heads * self.d_head
        attention = 2 * self.width * inner + 2 * self.width * keys + 2 * LENGTH * inner
        return 6 * (self.layers * (attention + 3 * self.width * self.mlp) + self.width * vocabulary)


def untrained(spec: Language) -> Any:
    """The model with its first weights."""
    return build(spec.recipe, spec.seed)


def train(
    model: Any,
    spec: Language,
    first: int = 0,
    last: int | None = None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> Any:
    """Steps ``first`` + 1 to ``last`` (default: all) of the training, in place; the averages of AdamW start anew."""
    last = spec.steps if last is None else last
    # Weight decay would pull on heads that wait to be pruned, so there is none.
    optimiser = torch.optim.AdamW(model.parameters(), lr=spec.rate, betas=(0.9, 0.98), weight_decay=0.0)
    batch_of = draw(spec.recipe, spec.seed)
    model.train().requires_grad_(True)
    for step in range(first + 1, last + 1):
        for group in optimiser.param_groups:
            group["lr"] = spec.rate * schedule(step - 1, spec.steps)
        loss = model(**batch_of(step)).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if on_progress is not None:
            on_progress(step - first, last - first)
    return model.eval().requires_grad_(False)

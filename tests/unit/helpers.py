"""Tiny models with planted sizes, data for them, and a slow, plain way to get every number: the oracle.

The oracle shares no code with HeadLens: it runs an untouched copy of the model, one example at a time and without
padding, with the columns of W_O set to zero or with a hook of its own, and computes the metrics from the logits.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)

from headlens.data.encode import IGNORE, Encoded, EncodedData
from headlens.lens import Lens

VOCAB = 24
D_HEAD = 4
HEADS = 4
LAYERS = 3
D_MODEL = 16

KINDS = ("gpt2", "llama", "t5", "bert-mlm", "bert-bare", "bert-class")
TASKS = {
    "gpt2": "causal-lm",
    "llama": "causal-lm",
    "t5": "seq2seq",
    "bert-mlm": "masked-lm",
    "bert-bare": "embedding",
    "bert-class": "text-classification",
}
SITES = {"t5": ("enc", "dec", "cross")}
PROJECTIONS = {
    ("gpt2", "self"): "transformer.h.{}.attn.c_proj",
    ("llama", "self"): "model.layers.{}.self_attn.o_proj",
    ("t5", "enc"): "encoder.block.{}.layer.0.SelfAttention.o",
    ("t5", "dec"): "decoder.block.{}.layer.0.SelfAttention.o",
    ("t5", "cross"): "decoder.block.{}.layer.1.EncDecAttention.o",
    ("bert-mlm", "self"): "bert.encoder.layer.{}.attention.output.dense",
    ("bert-class", "self"): "bert.encoder.layer.{}.attention.output.dense",
    ("bert-bare", "self"): "encoder.layer.{}.attention.output.dense",
}
Edit = Callable[[Tensor], Tensor]
"""What the oracle does to z ``[1, query, heads, d_head]``."""


def build(kind: str, *, dtype: torch.dtype = torch.float64, seed: int = 0) -> PreTrainedModel:
    """A random model in which every head matters."""
    torch.manual_seed(seed)
    sizes: dict[str, Any]
    if kind == "gpt2":
        sizes = {"n_layer": LAYERS, "n_head": HEADS, "n_embd": D_MODEL, "n_positions": 32}
        model: Any = GPT2LMHeadModel(GPT2Config(**sizes, vocab_size=VOCAB, bos_token_id=0, eos_token_id=0))
    elif kind == "t5":
        sizes = {"num_layers": LAYERS, "num_heads": HEADS, "d_model": D_MODEL, "d_kv": D_HEAD, "d_ff": 24}
        sizes |= {"vocab_size": VOCAB, "decoder_start_token_id": 0}
        sizes |= {"feed_forward_proj": "gated-gelu"}  # no kinks: slopes by finite differences are then exact
        model = T5ForConditionalGeneration(T5Config(**sizes))
    else:
        sizes = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "hidden_size": D_MODEL}
        sizes |= {"intermediate_size": 24, "vocab_size": VOCAB, "max_position_embeddings": 32, "pad_token_id": 0}
        if kind == "llama":
            model = LlamaForCausalLM(LlamaConfig(**sizes, num_key_value_heads=2, bos_token_id=1, eos_token_id=2))
        else:
            cls = {"bert-mlm": BertForMaskedLM, "bert-bare": BertModel, "bert-class": BertForSequenceClassification}
            model = cls[kind](BertConfig(**{**sizes, "num_labels": 3}))
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "norm" not in name.lower() and "ln_" not in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.35
    _exact_norms(model)
    return model.eval().to(dtype)


def _exact_norms(model: nn.Module) -> None:
    """Llama's and T5's norms round to float32 inside; torch's own keep the dtype, so float64 means float64."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child).__name__ in ("LlamaRMSNorm", "T5LayerNorm"):
                norm = nn.RMSNorm(D_MODEL, eps=float(cast(Any, child).variance_epsilon))
                setattr(module, name, norm)


def open_lens(model: PreTrainedModel, task: str, *, name: str = "tiny", tokenizer: Any = None, **more: Any) -> Lens:
    """A lens on a model that did not come from a file."""
    loaded = types.SimpleNamespace(
        name=name, title=name, task=task, model=model, tokenizer=tokenizer, processor=None, source="", notes=(), **more
    )
    loaded.sidecar = more.get("sidecar")
    return Lens(cast(Any, loaded))


def lens_for(kind: str, *, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[Lens, PreTrainedModel]:
    """A lens, and an untouched copy of its model for the oracle."""
    model = build(kind, dtype=dtype, seed=seed)
    plain = copy.deepcopy(model)
    return open_lens(model, TASKS[kind]), plain


def sentence(ids: Sequence[int] | Tensor) -> Encoded:
    """One example of a causal language model."""
    tokens = torch.as_tensor(ids)
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    return Encoded(inputs, torch.cat([tokens[1:], torch.tensor([IGNORE])]))


def pack(examples: Iterable[Encoded], *, pad: int = 0) -> EncodedData:
    """Examples as a data set."""
    return EncodedData("made up", "score", tuple(examples), pad, torch.device("cpu"))


def random_data(kind: str, count: int = 5, *, seed: int = 0, pad: int = 0, shortest: int = 3) -> EncodedData:
    """Random examples of different lengths; one of them has nothing to predict where the task allows that."""
    rng = np.random.default_rng(seed)

    def draw(low: int, high: int) -> Tensor:
        return torch.from_numpy(rng.integers(1, VOCAB, size=int(rng.integers(low, high))))

    found = []
    for number in range(count):
        ids = draw(shortest, 9)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        targets: Tensor | None = torch.cat([ids[1:], torch.tensor([IGNORE])])
        if kind == "gpt2" and number == count - 1:
            inputs = {name: value[:1] for name, value in inputs.items()}
            targets = torch.tensor([IGNORE])
        elif kind == "t5":
            targets = draw(2, 7)
            inputs["decoder_input_ids"] = torch.cat([torch.tensor([0]), targets[:-1]])
            inputs["decoder_attention_mask"] = torch.ones_like(targets)
        elif kind == "bert-mlm":
            targets = torch.full_like(ids, IGNORE)
            targets[::2] = ids[::2]
            inputs["input_ids"] = ids.clone()
            inputs["input_ids"][::2] = 1
        elif kind == "bert-class":
            targets = torch.tensor([int(rng.integers(0, 3))])
        elif kind == "bert-bare":
            targets = None
        found.append(Encoded(inputs, targets))
    return pack(found, pad=pad)


def places(kind: str) -> list[tuple[str, int, int]]:
    """(site, layer, head) of every head."""
    sites = SITES.get(kind, ("self",))
    return [(site, layer, head) for site in sites for layer in range(LAYERS) for head in range(HEADS)]


def core(lens: Lens) -> Any:
    """The modules of a GPT-2 model."""
    return cast(Any, lens.model).transformer


class Oracle:
    """The plain model, run one example at a time."""

    def __init__(self, kind: str, model: PreTrainedModel) -> None:
        self.kind = kind
        self.model = model

    def projection(self, site: str, layer: int, model: PreTrainedModel | None = None) -> nn.Module:
        """The output projection of a layer."""
        return (model or self.model).get_submodule(PROJECTIONS[self.kind, site].format(layer))

    def outputs(self, data: EncodedData, model: PreTrainedModel | None = None, **more: Any) -> list[Tensor]:
        """Logits ``[position, classes]`` or hidden states of each example, run alone."""
        found = []
        for example in data.examples:
            inputs = {name: value[None] for name, value in example.inputs.items()}
            with torch.no_grad():
                output = (model or self.model)(**inputs, use_cache=False, **more)
            values = output.last_hidden_state if self.kind == "bert-bare" else output.logits
            found.append(values if self.kind == "bert-class" else values[0])
        return found

    def scaled(self, factors: Mapping[tuple[str, int, int], float]) -> PreTrainedModel:
        """A copy whose W_O columns of the named heads are multiplied (0 switches them off)."""
        model = copy.deepcopy(self.model)
        for (site, layer, head), factor in factors.items():
            module: Any = self.projection(site, layer, model)
            columns = slice(head * D_HEAD, (head + 1) * D_HEAD)
            if self.kind == "gpt2":  # Conv1D keeps [in, out]
                module.weight.data[columns] *= factor
            else:
                module.weight.data[:, columns] *= factor
        return model

    def z(self, data: EncodedData, site: str, layer: int) -> list[Tensor]:
        """``z`` of each example, ``[query, heads, d_head]``."""
        seen: list[Tensor] = []
        handle = self.projection(site, layer).register_forward_pre_hook(
            lambda _, args: seen.append(args[0][0].unflatten(-1, (HEADS, D_HEAD)).clone())
        )
        self.outputs(data)
        handle.remove()
        return seen

    def replaced(
        self,
        data: EncodedData,
        places_off: Iterable[tuple[str, int, int]],
        ablation: str,
        partner: Sequence[int] | None = None,
    ) -> list[Tensor]:
        """Outputs with heads replaced, ``ablation`` zero, mean or resample (``partner``: whose z comes in)."""
        off = list(places_off)
        if ablation == "zero":
            return self.outputs(data, self.scaled(dict.fromkeys(off, 0.0)))
        clean = {(site, layer): self.z(data, site, layer) for site, layer, _ in off}
        current = [0]
        handles = []
        for (site, layer), z in clean.items():
            heads = [h for s, la, h in off if (s, la) == (site, layer)]

            def hook(module: nn.Module, args: Any, z: list[Tensor] = z, heads: list[int] = heads) -> Any:
                mine = args[0].unflatten(-1, (HEADS, D_HEAD)).clone()
                for head in heads:
                    if ablation == "mean":
                        every = torch.cat([one[:, head] for one in z])
                        mine[0, :, head] = every.mean(0)
                    else:
                        assert partner is not None
                        other = z[partner[current[0]]][:, head]
                        for t in range(mine.shape[1]):
                            mine[0, t, head] = other[min(t, len(other) - 1)]
                return (mine.flatten(-2),)

            handles.append(self.projection(site, layer).register_forward_pre_hook(hook))
        found = []
        for number, example in enumerate(data.examples):
            current[0] = number
            found.extend(self.outputs(pack([example])))
        for handle in handles:
            handle.remove()
        return found

    def sums(self, metric: str, data: EncodedData, outputs: list[Tensor], clean: list[Tensor]) -> np.ndarray:
        """Numerator and denominator of each example, ``[examples, 2]``, from first principles."""
        rows = []
        for example, values, before in zip(data.examples, outputs, clean, strict=True):
            if example.targets is None:
                a, b = values.double().mean(0), before.double().mean(0)
                rows.append((float(1 - (a @ b) / (a.norm() * b.norm())), 1.0))
                continue
            total, count = 0.0, 0
            for position, target in enumerate(example.targets.tolist()):
                if target == IGNORE:
                    continue
                probability = (values[position].double() - values[position].double().max()).exp()
                probability = probability / probability.sum()
                count += 1
                if metric == "loss":
                    total -= float(probability[target].log())
                elif metric == "accuracy":
                    total += float(int(probability.argmax()) == target)
                else:
                    reference = before[position].double().softmax(0)
                    total += float((reference * (reference.log() - probability.log())).sum())
            rows.append((total, float(count)))
        return np.array(rows)

    def value(self, metric: str, data: EncodedData, outputs: list[Tensor], clean: list[Tensor]) -> float:
        """Ratio of the sums."""
        total = self.sums(metric, data, outputs, clean).sum(0)
        return float(total[0] / total[1])

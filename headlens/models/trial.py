"""One small forward pass of a model that is watched: what attends in it, and which linear layers receive that."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from transformers.pytorch_utils import Conv1D

from headlens.errors import ModelError
from headlens.patterns import sdpa_pattern

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

TOKENS = 7
PIXELS = 64
_PRODUCTS: frozenset[Any] = frozenset({torch.matmul, torch.bmm, torch.Tensor.matmul, torch.Tensor.__matmul__})
_FAILS = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    AttributeError,
    NotImplementedError,
    AssertionError,
)


def unclear(name: str, why: str) -> ModelError:
    """The error for a model of class ``name`` whose heads cannot be found."""
    return ModelError(f"{name} has no adapter and its heads cannot be told from its structure: {why}")


@dataclass
class Attended:
    """One attention of the trial pass.

    Attributes:
        module: the innermost module that was running.
        z: ``[1, query, heads, d_head]``.
        pattern: ``[1, heads, query, key]``.
        value: what the pattern was applied to, ``[1, KV heads or heads, key, d_head]``.
        out_proj: linear layers that received ``z``, heads side by side.
        projected: what the first of them made of it.
    """

    module: str
    z: Tensor
    pattern: Tensor
    value: Tensor
    out_proj: list[str] = field(default_factory=list)
    projected: Tensor | None = None


def equal(one: Tensor, other: Tensor) -> bool:
    """Same shape and same bits."""
    return one.shape == other.shape and torch.equal(one, other)


class Trial(TorchFunctionMode):
    """Watches a forward pass: what attends, and which linear layers receive it.

    Attributes:
        attended: the attentions, in call order.
        outputs: what each linear layer gave, by path.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.attended: list[Attended] = []
        self.outputs: dict[str, Tensor] = {}
        self.running: list[str] = []
        self.handles: list[Any] = []
        for path, module in model.named_modules():
            linear = isinstance(module, (nn.Linear, Conv1D))
            self.handles.append(module.register_forward_pre_hook(self._before(path, linear)))
            self.handles.append(module.register_forward_hook(self._after(path, linear)))

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        for handle in self.handles:
            handle.remove()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Called in place of each torch function; the mode is off while it runs."""
        output = func(*args, **(kwargs or {}))
        if func is torch.nn.functional.scaled_dot_product_attention:
            found = inspect.signature(sdpa_pattern).bind(*args, **(kwargs or {})).arguments
            pattern = sdpa_pattern(**found)
            self.attended.append(Attended(self.running[-1], output.transpose(1, 2), pattern, found["value"]))
        elif func in _PRODUCTS and len(args) == 2 and _are_weights(args[0]):
            pattern, value = (x if x.dim() == 4 else x[None] for x in args)
            z = output if output.dim() == 4 else output[None]
            self.attended.append(Attended(self.running[-1], z.transpose(1, 2), pattern, value))
        return output

    def _before(self, path: str, linear: bool) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...]) -> None:  # noqa: ARG001
            self.running.append(path)
            if linear and args and isinstance(args[0], torch.Tensor):
                for found in self.attended:
                    if equal(args[0], found.z.flatten(2)):
                        found.out_proj.append(path)

        return hook

    def _after(self, path: str, linear: bool) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
            self.running.pop()
            if linear and isinstance(output, torch.Tensor):
                self.outputs[path] = output
                for found in self.attended:
                    if found.out_proj[:1] == [path] and found.projected is None:
                        found.projected = output

        return hook


def _are_weights(x: Any) -> bool:
    """Whether each row of a 3-d or 4-d tensor is a distribution: not negative, summing to 1."""
    if not isinstance(x, torch.Tensor) or x.dim() not in (3, 4) or not x.is_floating_point() or x.shape[-1] < 2:
        return False
    x = x.float()
    return bool((x >= 0).all()) and torch.allclose(x.sum(-1), torch.ones_like(x[..., 0]), atol=1e-2)


def run_trial(model: PreTrainedModel) -> Trial:
    """Sends one short row through ``model`` and reports what was seen.

    Raises:
        ModelError: the model does not take tokens or a picture, or the pass failed.
    """
    name = type(model).__name__
    inputs = _trial_inputs(model, name)
    accepted = inspect.signature(model.forward).parameters
    if "use_cache" in accepted:
        inputs["use_cache"] = False
    training = model.training
    try:
        with torch.no_grad(), Trial(model) as trial:
            model.eval()(**inputs)
    except _FAILS as error:
        said = " ".join(str(error).split())[:100]
        raise unclear(name, f"a trial pass failed with {type(error).__name__}: {said}") from error
    finally:
        model.train(training)
    return trial


def _trial_inputs(model: PreTrainedModel, name: str) -> dict[str, Any]:
    """One short row of what the model takes: tokens or a picture of noise."""
    config, device = model.config, model.device
    if model.main_input_name == "input_ids":
        vocabulary = int(getattr(model.get_input_embeddings(), "num_embeddings", 0)) or 2
        ids = (torch.arange(TOKENS, device=device) * 3 + 5)[None] % vocabulary
        return {"input_ids": ids, **({"decoder_input_ids": ids} if config.is_encoder_decoder else {})}
    if model.main_input_name == "pixel_values":
        size = getattr(config, "image_size", None) or PIXELS
        height, width = (size, size) if isinstance(size, int) else size
        shape = (1, int(getattr(config, "num_channels", 3)), int(height), int(width))
        noise = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        return {"pixel_values": noise.to(device, model.dtype)}
    raise unclear(name, f"no trial pass can be made for its input {model.main_input_name}")

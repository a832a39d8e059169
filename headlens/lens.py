"""The Lens: a model opened once, with its tokenizer and its sites, shared by everyone who looks through it."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from headlens.errors import DataError, ModelError
from headlens.heads import HeadSet, LayerShape, SiteShape, Topology
from headlens.instrument import instrument
from headlens.models.families import family_of
from headlens.models.offloaded import is_offloaded, tensors_of
from headlens.models.placement import main_device
from headlens.run import Edit, Run, StopForward, running
from headlens.switches import off_mask

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor
    from transformers import PreTrainedModel

    from headlens.models.families import SitePlaces
    from headlens.models.loading import Loaded
    from headlens.models.placement import DeviceMap


def open_model(
    name: str,
    *,
    device: str = "auto",
    dtype: str | None = None,
    device_map: DeviceMap | None = None,
    max_memory: Mapping[int | str, int] | None = None,
) -> Lens:
    """Opens a model by catalogue name, local folder, GGUF file or hub id.

    Args:
        name: MODEL of the command line.
        device: ``auto`` (cuda, else mps, else cpu), ``cpu``, ``cuda`` or ``mps``.
        dtype: ``float32``, ``bfloat16`` or ``float16``; float32 on a CPU unless asked.
        device_map: for a model that one device cannot hold: ``auto`` (GPUs first, then main memory, then the disk),
            ``balanced``, ``balanced_low_0``, ``sequential``, or a dict from modules to devices (a GPU's number,
            ``cpu``, ``disk``). What is on the disk, or in main memory beside a GPU, is loaded in every forward pass.
        max_memory: bytes that the weights may take on each device, with ``device_map``.

    Raises:
        ModelError: it cannot be found, read, understood or held in memory; says what to do.
    """
    from headlens.models.loading import load

    return Lens(load(name, device=device, dtype=dtype, device_map=device_map, max_memory=max_memory))


class Lens:
    """An opened model. Concurrent use from several threads is safe, with different switches in each.

    No switch is ever stored on the model: see :mod:`headlens.run`. Parameters are frozen, the model is in eval mode
    and caches of keys and values stay off while measuring.

    Attributes:
        name, title, family, task: what it is.
        model: the transformers model; calling it directly gives the plain outputs, bit for bit.
        tokenizer, processor: as loaded, or None.
        sites: where the heads are (modules).
        topology: which heads there are (labels).
        notes: what users should know about it, one line each.
    """

    def __init__(self, loaded: Loaded) -> None:
        self.name = loaded.name
        self.title = loaded.title
        self.task: str = loaded.task
        self.model: PreTrainedModel = loaded.model
        self.tokenizer = loaded.tokenizer
        self.processor = loaded.processor
        self.source = loaded.source
        self.path: Path | None = getattr(loaded, "path", None)
        adapter = family_of(self.model)
        self.family = adapter.name
        self.adapter = adapter
        self.notes: tuple[str, ...] = (*loaded.notes, *((adapter.note,) if adapter.note else ()))
        self.model.eval().requires_grad_(False)
        self.sites: tuple[SitePlaces, ...] = adapter.sites(self.model)
        if not any(site.layers for site in self.sites):
            raise ModelError(f"{type(self.model).__name__} has no attention heads to look at")
        self.topology = Topology(tuple(_shape(site, (loaded.sidecar or {}).get("heads")) for site in self.sites))
        self._counted = getattr(loaded, "parameters", None)
        self._inputs_on = main_device(self.model)
        # Weights that come and go in a forward pass are the one thing that threads cannot share.
        self.owner = instrument(self.model, self.sites, device=self._inputs_on, one_at_a_time=is_offloaded(self.model))

    @property
    def device(self) -> torch.device:
        """Where inputs go."""
        return self._inputs_on or self.model.device

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the weights."""
        return self.model.dtype

    @cached_property
    def parameters(self) -> int:
        """Number of parameters, shared ones counted once."""
        if self._counted is not None:
            return self._counted
        return sum(parameter.numel() for parameter in self.model.parameters())

    @cached_property
    def vocabulary(self) -> int:
        """Number of ids that the input embedding takes; 0 without one."""
        embedding = self.model.get_input_embeddings()
        return int(getattr(embedding, "num_embeddings", 0))

    @cached_property
    def max_positions(self) -> int | None:
        """Longest input that the positions allow, or None where nothing limits it."""
        config = self.model.config
        for name in ("n_positions", "max_position_embeddings", "max_source_positions"):
            value = getattr(config, name, None)
            if isinstance(value, int) and value > 0:
                # RoBERTa keeps the first pad_token_id + 1 positions for padding.
                reserved = 2 if config.model_type in ("roberta", "xlm-roberta", "camembert") else 0
                return value - reserved
        return None

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over the class and every weight's name, dtype, shape and bytes; the same for equal models anywhere."""
        digest = hashlib.sha256(type(self.model).__name__.encode())
        for name, tensor in tensors_of(self.model):
            digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
            raw = tensor.detach().contiguous().cpu().flatten().view(torch.uint8)
            digest.update(memoryview(raw.numpy()))  # type: ignore[arg-type]  # numpy's arrays are buffers
        digest.update(repr(sorted(_behaviour(self.model.config).items())).encode())
        return digest.hexdigest()

    @cached_property
    def _parameters_of_forward(self) -> frozenset[str]:
        return frozenset(inspect.signature(self.model.forward).parameters)

    def accepts(self, name: str) -> bool:
        """Whether the model's forward takes an input of this name."""
        return name in self._parameters_of_forward

    def forward(self, inputs: Mapping[str, Tensor], run: Run | None = None) -> Any:
        """One forward pass under ``run`` (None: whatever applies in this context), without a KV cache.

        The caller chooses the gradient mode.
        """
        extra = {"use_cache": False} if self.accepts("use_cache") else {}
        if run is None:
            return self.model(**inputs, **extra)
        with running(self.owner, run):
            return self.model(**inputs, **extra)

    def forward_until(self, inputs: Mapping[str, Tensor], run: Run) -> Any:
        """Runs up to the block named by ``run.replay.stop`` and returns that block's output."""
        try:
            self.forward(inputs, run)
        except StopForward as stop:
            return stop.output
        raise RuntimeError("the forward ended before the block at which it was to stop")

    @contextmanager
    def off(self, heads: HeadSet | str) -> Iterator[HeadSet]:
        """Zero-ablates ``heads`` in every call of ``model`` (also ``generate``) inside the block, in this context only.

        Raises:
            HeadError: for labels that this model does not have.
        """
        chosen = self.topology.parse(heads) if isinstance(heads, str) else heads
        edits = {key: Edit(off=mask.to(self.device)) for key, mask in off_mask(self.topology, chosen).items()}
        with running(self.owner, Run(edits=edits)):
            yield chosen

    def shift_right(self, labels: Tensor) -> Tensor:
        """Decoder input ids for target ids ``[tokens]``: the decoder's start id in front, the last id dropped."""
        shift = getattr(self.model, "prepare_decoder_input_ids_from_labels", None)
        config = self.model.config
        start = getattr(config, "decoder_start_token_id", None)
        if shift is not None and (start is not None or config.model_type == "mbart"):
            return shift(labels=labels[None])[0]
        start = start if start is not None else getattr(config, "pad_token_id", None)
        return torch.cat([torch.tensor([start or 0]), labels[:-1]])

    def pixels(self, path: Path | None, where: str) -> Tensor:
        """A picture as the model wants it, ``[channels, height, width]``; raises DataError."""
        from PIL import Image, UnidentifiedImageError

        if path is None or self.processor is None:
            raise DataError(f"{where}: a picture is needed (column image)")
        try:
            with Image.open(path) as picture:
                found = self.processor(images=picture.convert("RGB"), return_tensors="pt")
        except (OSError, UnidentifiedImageError, ValueError, Image.DecompressionBombError) as error:
            raise DataError(f"{where}: {path} cannot be read as a picture") from error
        return found["pixel_values"][0].to(self.dtype)

    def __repr__(self) -> str:
        sites = ", ".join(f"{s.name} {len(s.layers)} x {s.width()}" for s in self.topology.sites)
        return f"Lens({self.name!r}, {self.family}, {self.task}, {sites})"

    def _repr_html_(self) -> str:
        from headlens.notebook import lens_html

        return lens_html(self)


def _behaviour(config: Any) -> dict[str, Any]:
    """The part of a config that can change outputs (not where it was loaded from, nor how attention is computed)."""
    skipped = ("_name_or_path", "transformers_version", "_attn_implementation", "architectures")
    return {key: value for key, value in config.to_dict().items() if key not in skipped}


def _shape(site: SitePlaces, labels: Mapping[str, Any] | None) -> SiteShape:
    """The labels of a site's heads; those of a cut model come from its ``headlens.json``."""
    layers = []
    for index, place in enumerate(site.layers):
        cut = None if labels is None else labels[site.name][index]
        original = place.heads if cut is None else int(cut["original"])
        kv_original = place.kv_heads if cut is None else int(cut["kv_original"])
        heads = tuple(range(original)) if cut is None else tuple(cut["heads"])
        if len(heads) != place.heads:
            raise ModelError(
                f"headlens.json names {len(heads)} heads in {site.name} layer {index}, found {place.heads}"
            )
        kv_of = tuple(head * kv_original // original for head in range(original))
        layers.append(LayerShape(heads, original, kv_of, place.d_head, place.kv_heads, place.causal))
    return SiteShape(site.name, tuple(layers))

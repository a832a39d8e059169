"""Where a model that one device cannot hold lies: on several GPUs, in main memory and on the disk, by accelerate."""

from __future__ import annotations

import json
import re
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headlens.errors import ModelError
from headlens.models.offloaded import is_offloaded

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PretrainedConfig, PreTrainedModel

Strategy = Literal["auto", "balanced", "balanced_low_0", "sequential"]
STRATEGIES: tuple[Strategy, ...] = ("auto", "balanced", "balanced_low_0", "sequential")
DeviceMap = str | Mapping[str, int | str]
"""One of :data:`STRATEGIES`, or module -> a GPU's number, ``cpu`` or ``disk``."""
DISK, CPU = "disk", "cpu"
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class Spread:
    """How a model is to be spread.

    Attributes:
        device_map: a strategy, or a dict from modules to devices.
        limits: bytes for weights on each device; empty: what is free.
        folder: for weights whose form on the disk is not the one that the class wants; gone with this object.
    """

    device_map: DeviceMap
    limits: Mapping[int | str, int] = field(default_factory=dict)
    folder: tempfile.TemporaryDirectory[str] = field(default_factory=lambda: tempfile.TemporaryDirectory("-headlens"))

    def for_transformers(self) -> dict[str, Any]:
        """Arguments for ``from_pretrained``."""
        chosen = self.device_map if isinstance(self.device_map, str) else dict(self.device_map)
        limits = {"max_memory": dict(self.limits)} if self.limits else {}
        return {"device_map": chosen, "offload_folder": self.folder.name, **limits}

    def keep_for(self, model: PreTrainedModel) -> None:
        """The folder stays as long as the model."""
        weakref.finalize(model, self.folder.cleanup)


def spread_by(
    device_map: DeviceMap | None, max_memory: Mapping[int | str, int] | None, device: str = "auto"
) -> Spread | None:
    """What the options ask for; None where the model goes to one device.

    Raises:
        ModelError: a strategy, device or limit that does not exist here, or that contradicts ``device``.
    """
    if device_map is None:
        if max_memory:
            raise ModelError("a limit on memory needs a device map; add --device-map auto")
        return None
    if isinstance(device_map, str) and device_map not in STRATEGIES:
        raise ModelError(f"device map {device_map!r} is not one of {', '.join(STRATEGIES)}, nor a .json file of one")
    if not isinstance(device_map, str) and not device_map:
        raise ModelError('the device map is empty; map modules to devices, for example {"": "cpu"}')
    limits = dict(max_memory or {})
    gpus = _gpus()
    if device == CPU and isinstance(device_map, str) and gpus:
        limits = {**dict.fromkeys(range(gpus), 0), **limits}
    asked = [*limits, *(() if isinstance(device_map, str) else device_map.values())]
    for place in asked:
        if not _exists(place, gpus):
            there = ", ".join([CPU, DISK, *(str(number) for number in range(gpus))])
            raise ModelError(f"the device map names {place!r}, which is not on this machine; there are {there}")
    return Spread(device_map, limits)


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


def _exists(place: Any, gpus: int) -> bool:
    if place in (CPU, DISK):
        return True
    found = re.fullmatch(r"(?:cuda:)?(\d+)", str(place))
    return found is not None and int(found[1]) < gpus


def read_device_map(text: str) -> DeviceMap:
    """``--device-map``: a strategy, or the path of a JSON file with one object, module -> device.

    Raises:
        ModelError: neither, or the file cannot be read as such an object.
    """
    if not text.lower().endswith(".json"):
        return text
    try:
        found = json.loads(Path(text).expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(f"--device-map {text}: cannot be read as JSON ({error})") from error
    if not isinstance(found, dict) or not all(type(place) in (int, str) for place in found.values()):
        raise ModelError(f'--device-map {text}: give one object, module -> device, for example {{"": "cpu"}}')
    return found


def read_limits(text: str | None) -> dict[int | str, int] | None:
    """``--max-memory``: ``0=20GB,cpu=30GiB`` as bytes by device; None where it was not given.

    Raises:
        ModelError: anything else.
    """
    if text is None:
        return None
    found: dict[int | str, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(cpu|\d+)\s*=\s*(\d+(?:\.\d+)?)\s*([KMG]i?B)?\s*", part, re.IGNORECASE)
        if match is None:
            raise ModelError(f"--max-memory {text!r}: give limits such as 0=20GB,cpu=30GB")
        place = match[1].lower()
        found[int(place) if place.isdigit() else place] = int(float(match[2]) * _UNITS[(match[3] or "").upper()])
    return found


def fitted(
    name: str, config: PretrainedConfig, cls: type[PreTrainedModel], dtype: torch.dtype, spread: Spread
) -> Spread:
    """``spread`` with a map that names every weight once; refuses one that does not fit before a byte is read.

    Raises:
        ModelError: a module that the model has not, weights that no entry covers, a block that is torn apart, shared
            weights in two places, or more bytes than a device has.
    """
    import torch

    from headlens.models.quiet import quiet
    from headlens.models.sizes import available_bytes

    if isinstance(spread.device_map, str):
        return spread  # what fits nowhere else goes to the disk, where it is already
    with quiet(), torch.device("meta"):
        model = cls(config)
    modules = {path for path, _ in model.named_modules()} | {path for path, _ in model.named_parameters()}
    unknown = [path for path in spread.device_map if path not in modules]
    if unknown:
        some = ", ".join(path for path, _ in model.named_children())
        raise ModelError(f"the device map names {unknown[0]!r}, which {cls.__name__} has not; it starts with {some}")
    whole = _spelt_out(model, "", spread.device_map, frozenset(getattr(model, "_no_split_modules", None) or ()))
    used: dict[int | str, int] = {}
    first: dict[int, str] = {}
    for path, parameter in model.named_parameters(remove_duplicate=False):
        place = _place_of(path, whole)
        assert place is not None
        other = first.setdefault(id(parameter), path)
        if other != path:  # one weight under two names
            if _place_of(other, whole) != place:
                raise ModelError(f"{other} and {path} are one weight: the device map must give both the same place")
            continue
        used[place] = used.get(place, 0) + parameter.numel() * dtype.itemsize
    for place, needed in used.items():
        if place == DISK:
            continue
        device = CPU if place == CPU else f"cuda:{str(place).removeprefix('cuda:')}"
        free = min(available_bytes(device), spread.limits.get(place, needed))
        if needed > free:
            raise ModelError(
                f"{name}: the device map puts {_size(needed)} on {place}, where {_size(free)} are free; "
                "move modules elsewhere, to the disk for example, or use --device-map auto"
            )
    return replace(spread, device_map=whole)


def _spelt_out(
    module: nn.Module, path: str, device_map: Mapping[str, int | str], together: frozenset[str]
) -> dict[str, int | str]:
    """The map without entries inside other entries, which accelerate would read as two places for one weight."""
    inside = f"{path}." if path else ""
    if not any(entry != path and entry.startswith(inside) for entry in device_map):
        place = _place_of(path, device_map)
        if place is None:
            raise ModelError(f'the device map has no place for {path}; add it, or "" for everything else')
        return {path: place}
    found: dict[str, int | str] = {}
    for name, child in module.named_children():
        found |= _spelt_out(child, inside + name, device_map, together)
    for name, _ in module.named_parameters(recurse=False):
        found |= _spelt_out(module, inside + name, device_map, together)
    if type(module).__name__ in together and len(set(found.values())) > 1:
        raise ModelError(f"the device map tears {path} apart; give a {type(module).__name__} one place as a whole")
    return found


def _place_of(path: str, device_map: Mapping[str, int | str]) -> int | str | None:
    """The entry with the longest name that the parameter is in."""
    fitting = [entry for entry in device_map if entry == "" or path == entry or path.startswith(f"{entry}.")]
    return device_map[max(fitting, key=len)] if fitting else None


def where_it_lies(model: PreTrainedModel) -> str:
    """One sentence for users: how many parameters are where, and what that costs."""
    found: dict[str, int] = {}
    device_map: Mapping[str, Any] = getattr(model, "hf_device_map", {"": model.device})
    for path, parameter in model.named_parameters():
        place = str(_place_of(path, device_map))
        found[place] = found.get(place, 0) + parameter.numel()
    parts = [f"{count:,} on {f'GPU {place}' if place.isdigit() else place}" for place, count in found.items()]
    slow = DISK in found or (CPU in found and len(found) > 1)
    return f"parameters: {', '.join(parts)}" + ("; those not on the main device are loaded in every forward" * slow)


def main_device(model: PreTrainedModel) -> torch.device | None:
    """Where the inputs of a spread or offloaded model go; None where it is on one device, as a whole."""
    import torch

    if not is_offloaded(model) and len(set((getattr(model, "hf_device_map", None) or {}).values())) < 2:
        return None
    for module in model.modules():
        hook: Any = getattr(module, "_hf_hook", None)
        for one in getattr(hook, "hooks", (hook,)):
            device = getattr(one, "execution_device", None)
            if device is not None:
                return torch.device(f"cuda:{device}" if isinstance(device, int) else device)
    return None


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 10**8 else f"{count / 1e6:,.2f} MB"

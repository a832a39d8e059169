"""A picture for models that see: uploaded by the user, or a simple one that is drawn here."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from headlens.data.select import OWN_SET
from headlens.errors import DataError
from headlens.server import limits
from headlens.ui import words
from headlens.ui.components.attention_view.payload import Picture, picture_from_pixels

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.lens import Lens

TYPES = ("png", "jpg", "jpeg", "webp")
MAX_PIXELS = 40_000_000
OWN_PICTURE = "three shapes and the sign (three dots) that asks how many there are, as the model knows them"


@dataclass(frozen=True)
class PictureInput:
    """A picture as the model gets it.

    Attributes:
        pixels: ``[1, channels, height, width]``.
        shown: what the model sees, without its normalisation: ``[height, width, 3]``, 0..1.
        rows, columns: the patch grid.
        digest: sha256 of ``pixels``.
    """

    pixels: Tensor
    shown: np.ndarray
    rows: int
    columns: int
    digest: str

    def behind(self, tokens: int) -> Picture | None:
        """The picture for the view over ``tokens`` tokens, or None where patches and tokens do not fit together."""
        prefix = tokens - self.rows * self.columns
        if prefix < 0:
            return None
        return picture_from_pixels(self.shown, rows=self.rows, columns=self.columns, prefix=prefix)


def picture_input(lens: Lens) -> PictureInput:
    """Draws the upload field and reads the picture; a simple one where there is none.

    Raises:
        DataError: it cannot be read; a line for the page.
    """
    from PIL import Image

    kept: tuple[str, bytes] | None = st.session_state.get("hl_own_picture")
    if kept is None:
        key = f"_picture_{st.session_state.get('hl_pictures', 0)}"
        st.file_uploader(
            "A picture",
            type=list(TYPES),
            key=key,
            max_upload_size=limits.current().upload_mb,
            help=f"{', '.join(TYPES)}; at most {limits.current().upload_text}. Read for your visit only, and not kept.",
            on_change=_take,
            args=(key,),
        )
        own = getattr(lens.model.config, OWN_SET, None) == "shapes"
        st.caption(f"Until you give one, you see {OWN_PICTURE if own else 'a simple drawing'}.")
        image = Image.fromarray(own_picture() if own else simple_picture())
    else:
        left, right = st.columns([3, 1], vertical_alignment="center")
        left.caption(f"Picture: {words.plain(kept[0])}")
        right.button("Remove", key="_picture_remove", on_click=_forget)
        image = open_picture(*kept)
    return _prepare(lens, image)


def _take(key: str) -> None:
    uploaded = st.session_state.get(key)
    if uploaded is not None:
        st.session_state["hl_own_picture"] = (uploaded.name, uploaded.getvalue())


def _forget() -> None:
    st.session_state.pop("hl_own_picture", None)
    st.session_state["hl_pictures"] = st.session_state.get("hl_pictures", 0) + 1


def open_picture(name: str, content: bytes) -> Any:
    """The picture in RGB; raises DataError or LimitError with one line."""
    from PIL import Image, UnidentifiedImageError

    limits.current().check_upload(name, len(content))
    try:
        with Image.open(io.BytesIO(content)) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise DataError(f"{name[:80]}: {picture.width} x {picture.height} pixels are too many; make it smaller")
            return picture.convert("RGB")
    except (OSError, UnidentifiedImageError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{name[:80]} cannot be read as a picture; take one of {', '.join(TYPES)}") from error


def own_picture() -> np.ndarray:
    """A scene of the shapes that the zoo's model knows, uint8 ``[32, 32, 3]``: how many are there?"""
    from headlens.zoo.shapes import Scene, Shape, picture

    shapes = (
        Shape("circle", "red", 15, 9, 5),
        Shape("square", "blue", 22, 22, 4),
        Shape("triangle", "green", 11, 23, 3),
    )
    return picture(Scene("count", shapes))


def simple_picture(side: int = 224) -> np.ndarray:
    """A sun over a hill, uint8 ``[side, side, 3]``: something to look at before there is a picture."""
    y, x = np.mgrid[0:side, 0:side] / side
    sky = np.stack([0.55 + 0.3 * y, 0.72 + 0.15 * y, np.full_like(y, 0.95)], axis=-1)
    hill = y > 0.72 - 0.16 * np.sin(np.pi * x)
    sun = (x - 0.7) ** 2 + (y - 0.27) ** 2 < 0.018
    sky[hill] = (0.22, 0.5, 0.28)
    sky[sun] = (1.0, 0.82, 0.25)
    return (sky * 255).astype(np.uint8)


def _prepare(lens: Lens, image: Any) -> PictureInput:
    processor = lens.processor
    if processor is None:
        raise DataError(f"{lens.name} came without its image processor (preprocessor_config.json), so it cannot see")
    pixels = processor(images=image, return_tensors="pt")["pixel_values"].to(lens.device, lens.dtype)
    array = pixels[0].float().cpu().numpy().transpose(1, 2, 0)
    if getattr(processor, "do_normalize", False):
        array = array * np.array(processor.image_std) + np.array(processor.image_mean)
    patch = getattr(lens.model.config, "patch_size", None) or 1
    height, width = (patch, patch) if isinstance(patch, int) else (int(patch[0]), int(patch[1]))
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return PictureInput(pixels, np.clip(array, 0, 1), array.shape[0] // height, array.shape[1] // width, digest)

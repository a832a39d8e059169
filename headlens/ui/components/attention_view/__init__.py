"""Where attention heads look: token map, lines between tokens, patches over a picture."""

from headlens.ui.components.attention_view.component import AttentionState, attention_view
from headlens.ui.components.attention_view.payload import Picture, Scale, View, patch_tokens, picture_from_pixels

__all__ = ["AttentionState", "Picture", "Scale", "View", "attention_view", "patch_tokens", "picture_from_pixels"]

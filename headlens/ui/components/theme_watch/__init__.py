"""Draws the page again when its theme has changed."""

from headlens.ui.components.theme_watch.component import theme_watch

__all__ = ["theme_watch"]

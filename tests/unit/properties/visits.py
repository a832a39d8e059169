"""A browser session for :mod:`headlens.ui.state` without a browser: what it reads and writes, and what it warns of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from headlens.ui import state, widgets


class Query(dict[str, str]):
    """Streamlit's query parameters, as far as the state uses them."""

    def to_dict(self) -> dict[str, str]:
        return dict(self)

    def from_dict(self, values: dict[str, str]) -> None:
        self.clear()
        self.update(values)


class Visit:
    """One session.

    Attributes:
        url: its query parameters.
        session: its session state.
        warnings: what it was told.
    """

    def __init__(self) -> None:
        self.url = Query()
        self.session: dict[str, Any] = {}
        self.warnings: list[str] = []

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Inside, the state reads and writes the session."""
        stand_in: Any = SimpleNamespace(
            session_state=self.session, query_params=self.url, warning=lambda text, **_: self.warnings.append(text)
        )
        before = state.st, widgets.st
        state.st = widgets.st = stand_in
        try:
            yield
        finally:
            state.st, widgets.st = before

    def open(self, page: str = "heads", **query: str) -> Visit:
        """A run of a page, as far as the state goes."""
        self.url.update(query)
        return self.run(page)

    def run(self, page: str = "heads") -> Visit:
        """Another run of a page."""
        with self.at_work():
            state.adopt_url(page)
            state.show_notices()
            state.publish_url()
        return self

    def value(self, name: str) -> str:
        """A parameter's value in the session."""
        with self.at_work():
            return state.get(name)


def one_line(error: Exception, most: int = 2_000) -> None:
    """Users see one line of some length."""
    assert "\n" not in str(error)
    assert len(str(error)) < most

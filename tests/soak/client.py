"""A browser session without a browser: the app's websocket, spoken as Streamlit's own frontend speaks it.

It keeps what the page shows (elements by place), sends what a click on the head grid or on a button sends, and reruns
fragments by the clock as the frontend does.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

Element = Any
"""A Streamlit protobuf element."""


class PageError(Exception):
    """The page showed an error that no user should see, or did not answer in time."""


@dataclass
class _Shown:
    element: Element
    run: int
    fragment: str


@dataclass(frozen=True)
class Answer:
    """What the page said when a run had ended: the click that it had heard of, the heads that are off, the loss."""

    ack: int
    off: tuple[str, ...]
    loss: float | None


@dataclass
class Session:
    """One visitor.

    Attributes:
        url: address of the server, ``http://127.0.0.1:8501``.
        page: part of the address behind it; empty: the first page.
        query: the state in the URL.
    """

    url: str
    page: str = ""
    query: dict[str, str] = field(default_factory=dict)
    runs: int = 0
    finished: int = 0
    seq: int = 0
    answer: Answer = Answer(0, (), None)
    _shown: dict[tuple[int, ...], _Shown] = field(default_factory=dict)
    _cached: dict[str, ForwardMsg] = field(default_factory=dict)
    _fragments: list[str] = field(default_factory=list)
    _polls: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _states: dict[str, str] = field(default_factory=dict)
    _page_hash: str = ""
    _socket: ClientConnection | None = None
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _reader: asyncio.Task[None] | None = None

    async def open(self) -> Session:
        """Connects and asks for the page."""
        address = self.url.replace("http://", "ws://") + "/_stcore/stream"
        self._socket = await connect(address, subprotocols=["streamlit"], max_size=None, open_timeout=60)  # type: ignore[list-item]
        self._reader = asyncio.create_task(self._read())
        await self._rerun()
        return self

    async def close(self) -> None:
        """As closing the tab."""
        for task in (self._reader, *self._polls.values()):
            if task is not None:
                task.cancel()
        if self._socket is not None:
            await self._socket.close()

    # What the page shows

    def elements(self, kind: str) -> Iterator[Element]:
        """Everything of one kind that the page shows, from top to bottom."""
        for place in sorted(self._shown):
            element = self._shown[place].element
            if element.WhichOneof("type") == kind:
                yield getattr(element, kind)

    def metric(self, label: str = "Loss") -> float | None:
        """The figure whose label starts so."""
        found = next((metric for metric in self.elements("metric") if metric.label.startswith(label)), None)
        return None if found is None else float(found.body.replace("−", "-"))

    def grid(self) -> dict[str, Any]:
        """What the page sent to its head grid; empty where there is none."""
        found = self._grid()
        return {} if found is None else json.loads(found[0].bidi_component.json)

    def texts(self) -> str:
        """Everything that can be read on the page, except code and pictures."""
        found = [element.body for kind in ("markdown", "alert") for element in self.elements(kind)]
        return "\n".join([*found, *(progress.text for progress in self.elements("progress"))])

    def busy(self) -> bool:
        """Whether a progress bar is shown."""
        return any(True for _ in self.elements("progress"))

    # What the visitor does

    async def switch(self, off: list[str]) -> int:
        """A click on the grid, which leaves these heads off; its sequence number."""
        found = self._grid()
        if found is None:
            raise PageError("there is no grid on the page")
        element, fragment = found
        self.seq += 1
        mask = {"mask": {"off": off, "seq": self.seq}}
        self._states[element.bidi_component.id] = json.dumps(mask)
        await self._rerun(fragment)
        return self.seq

    async def press(self, label: str) -> None:
        """A click on the button whose label starts so."""
        for shown in self._shown.values():
            element = shown.element
            if element.WhichOneof("type") == "button" and element.button.label.startswith(label):
                await self._rerun(shown.fragment, pressed=element.button.id)
                return
        raise PageError(f"there is no button {label!r} on the page: {self.texts()[:300]}")

    async def until(self, what: Callable[[Session], bool], seconds: float = 120) -> None:
        """Waits until something is so on the page.

        Raises:
            PageError: it did not become so in time, the page shows an exception, or the connection was lost.
        """
        end = time.monotonic() + seconds
        async with self._changed:
            while not what(self):
                self.check()
                if self._reader is not None and self._reader.done():
                    raise PageError("the connection was lost")
                left = end - time.monotonic()
                if left <= 0:
                    raise PageError(f"not so after {seconds:.0f} s; the page says: {self.texts()[:500]}")
                try:
                    await asyncio.wait_for(self._changed.wait(), min(left, 5))
                except TimeoutError:
                    continue

    def check(self) -> None:
        """Raises PageError if the page shows an exception."""
        for exception in self.elements("exception"):
            raise PageError(f"exception on the page: {exception.type} {exception.message}")

    # The protocol

    def _grid(self) -> tuple[Element, str] | None:
        for place in sorted(self._shown):
            shown = self._shown[place]
            if shown.element.WhichOneof("type") == "bidi_component" and "grids" in shown.element.bidi_component.json:
                return shown.element, shown.fragment
        return None

    async def _rerun(self, fragment: str = "", pressed: str = "", *, by_clock: bool = False) -> None:
        message = BackMsg()
        rerun = message.rerun_script
        rerun.query_string = urllib.parse.urlencode(self.query)
        rerun.page_name, rerun.page_script_hash = ("", self._page_hash) if self._page_hash else (self.page, "")
        rerun.fragment_id = fragment
        rerun.is_auto_rerun = by_clock
        rerun.context_info.url = f"{self.url}/{self.page}"
        for name, value in self._states.items():
            state = rerun.widget_states.widgets.add()
            state.id, state.json_value = name, value
        if pressed:
            state = rerun.widget_states.widgets.add()
            state.id, state.trigger_value = pressed, True
        rerun.cached_message_hashes.extend(self._cached)
        assert self._socket is not None
        await self._socket.send(message.SerializeToString())

    async def _read(self) -> None:
        assert self._socket is not None
        try:
            async for raw in self._socket:
                assert isinstance(raw, bytes)
                message = ForwardMsg.FromString(raw)
                async with self._changed:
                    self._take(message)
                    self._changed.notify_all()
        except ConnectionClosed:
            pass
        finally:
            async with self._changed:
                self._changed.notify_all()

    def _take(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        if kind == "ref_hash":  # the server knows that we have this one
            copy = ForwardMsg()
            copy.CopyFrom(self._cached[message.ref_hash])
            copy.metadata.CopyFrom(message.metadata)
            message, kind = copy, copy.WhichOneof("type")
        elif message.metadata.cacheable and message.hash:
            self._cached[message.hash] = message
        if kind == "new_session":
            self.runs += 1
            self._fragments = list(message.metadata.run.fragment_ids)
            if not self._fragments:
                self._stop_polls()
        elif kind == "navigation":
            self._page_hash = message.navigation.page_script_hash
        elif kind == "delta":
            self._show(tuple(message.metadata.delta_path), message.delta)
        elif kind == "page_info_changed":
            self.query = dict(urllib.parse.parse_qsl(message.page_info_changed.query_string))
        elif kind == "auto_rerun":
            self._poll(message.auto_rerun.fragment_id, message.auto_rerun.interval)
        elif kind == "script_finished" and message.script_finished in (
            ForwardMsg.FINISHED_SUCCESSFULLY,
            ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY,
        ):
            self._forget_stale()
            self.finished += 1
            if grid := self.grid():
                self.answer = Answer(grid.get("ack", 0), tuple(sorted(grid["off"])), self.metric())

    def _show(self, place: tuple[int, ...], delta: Any) -> None:
        kind = delta.WhichOneof("type")
        if kind == "new_element":
            self._shown[place] = _Shown(delta.new_element, self.runs, delta.fragment_id)
        elif kind == "add_block":
            self._shown.pop(place, None)  # a block takes the place of an element

    def _forget_stale(self) -> None:
        """What the run that has ended did not draw again is gone."""
        ran = set(self._fragments)
        self._shown = {
            place: shown
            for place, shown in self._shown.items()
            if shown.run == self.runs or (ran and shown.fragment not in ran)
        }

    def _poll(self, fragment: str, interval: float) -> None:
        async def again() -> None:
            while True:
                await asyncio.sleep(interval)
                try:
                    await self._rerun(fragment, by_clock=True)
                except ConnectionClosed:
                    return

        if fragment in self._polls:
            self._polls[fragment].cancel()
        self._polls[fragment] = asyncio.create_task(again())

    def _stop_polls(self) -> None:
        for task in self._polls.values():
            task.cancel()
        self._polls.clear()

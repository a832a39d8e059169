"""A bounded, fair line in front of the models: sessions take turns, everybody knows their place and the likely wait.

Who comes joins the line of their session; a free slot goes to the session whose last turn is longest ago, so one
session with twenty wishes does not hold up another with one. Long work gives its slot back now and then
(:meth:`Ticket.step`) when others wait, so that nobody waits for the end of somebody else's sweep.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headlens.errors import HeadlensError

QUANTUM_SECONDS = 1.0
"""How long work keeps its slot while others wait."""
FIRST_GUESS_SECONDS = 0.5
_MEMORY = 0.9
"""Weight of the past in the running mean of how long a slot is held."""


class BusyError(HeadlensError):
    """The line is full; try again later."""


class Ticket:
    """One wish: waiting, holding a slot, or done with. Made by :meth:`Turns.join`; ``leave`` it in any case."""

    def __init__(self, turns: Turns, session: str) -> None:
        self.session = session
        self._turns = turns
        self._granted = threading.Event()
        self._since = 0.0
        self._gone = False

    def wait(self, seconds: float) -> bool:
        """Waits for the slot at most that long; whether it is held now."""
        return self._granted.wait(seconds)

    @property
    def holds(self) -> bool:
        """Whether it holds a slot."""
        return self._granted.is_set() and not self._gone

    @property
    def place(self) -> int:
        """1: next; 0: holding a slot, or gone."""
        return self._turns.place_of(self)

    @property
    def seconds(self) -> float:
        """Likely wait until the slot comes."""
        return self._turns.expected(self.place)

    def leave(self) -> None:
        """Gives the slot, or the place in the line, to others. May be called twice."""
        self._turns.leave(self)

    def step(self, check: Callable[[], None]) -> None:
        """Called by long work between its steps: lets others go first if they wait and the time is up.

        ``check`` is called now and then while it waits for its next turn, and may raise to end the work.
        """
        if self._turns.should_yield(self):
            self.aside()
            self.back(check)

    def aside(self) -> None:
        """Gives the slot back for a while; see :meth:`back`."""
        self._turns.aside(self)

    def back(self, check: Callable[[], None]) -> None:
        """Lines up again, also where the line is full, and waits."""
        self._turns.rejoin(self)
        while not self.wait(0.2):
            check()


@dataclass(frozen=True)
class Standing:
    """How a line stands: how many hold a slot, wait, and how long a wait is likely to be, in seconds."""

    slots: int
    at_work: int
    waiting: int
    places: int
    seconds: float


class Turns:
    """The line.

    Args:
        slots: how many hold a slot at the same time.
        places: how many may wait.
        quantum: seconds that long work keeps its slot while others wait.
    """

    def __init__(self, slots: int, places: int, quantum: float = QUANTUM_SECONDS) -> None:
        if slots < 1 or places < 1:
            raise ValueError("give at least one slot and one place")
        self.slots, self.places, self.quantum = slots, places, quantum
        self._lock = threading.RLock()
        self._lines: OrderedDict[str, deque[Ticket]] = OrderedDict()
        self._served: dict[str, float] = {}
        self._at_work: set[Ticket] = set()
        self._mean = FIRST_GUESS_SECONDS
        self.refused = 0

    @property
    def share(self) -> int:
        """Places that one session may take: a tenth, so that nobody fills the line alone."""
        return max(4, self.places // 10)

    def join(self, session: str) -> Ticket:
        """A place in the line, perhaps a slot at once.

        Raises:
            BusyError: the line is full, or the session has its share of it.
        """
        with self._lock:
            waiting = self._waiting()
            if waiting >= self.places:
                self.refused += 1
                raise BusyError(
                    f"the server is busy: {waiting} computations wait already; "
                    f"try again in about {max(1, round(self.expected(waiting)))} s"
                )
            if len(self._lines.get(session, ())) >= self.share:
                self.refused += 1
                raise BusyError(
                    f"{self.share} computations of yours wait already; let them end, or cancel some, and try again"
                )
            ticket = Ticket(self, session)
            self._line_up(ticket)
            return ticket

    @contextmanager
    def turn(self, session: str, on_wait: Callable[[Ticket], None] | None = None) -> Iterator[Ticket]:
        """Holds a slot inside; ``on_wait`` is called twice a second before that and may raise to give up.

        Raises:
            BusyError: see :meth:`join`.
        """
        ticket = self.join(session)
        try:
            while not ticket.wait(0.5):
                if on_wait is not None:
                    on_wait(ticket)
            yield ticket
        finally:
            ticket.leave()

    def standing(self) -> Standing:
        """How the line stands."""
        with self._lock:
            waiting = self._waiting()
            return Standing(self.slots, len(self._at_work), waiting, self.places, self.expected(waiting + 1))

    def expected(self, place: int) -> float:
        """Seconds until the one at that place gets a slot, by how long slots were held so far."""
        return max(0, place) * self._mean / self.slots

    def place_of(self, ticket: Ticket) -> int:
        """How many turns it takes until it is this ticket's."""
        with self._lock:
            line = self._lines.get(ticket.session)
            if line is None or ticket not in line:
                return 0
            depth, order = line.index(ticket), self._order()
            mine = order.index(ticket.session)
            return (
                1
                + sum(
                    min(len(self._lines[session]), depth + (1 if number < mine else 0))
                    for number, session in enumerate(order)
                    if session != ticket.session
                )
                + depth
            )

    def leave(self, ticket: Ticket) -> None:
        """See :meth:`Ticket.leave`."""
        with self._lock:
            ticket._gone = True
            self._drop(ticket)
            self._serve()

    def aside(self, ticket: Ticket) -> None:
        """See :meth:`Ticket.aside`."""
        with self._lock:
            self._drop(ticket)
            ticket._granted.clear()
            self._serve()

    def rejoin(self, ticket: Ticket) -> None:
        """See :meth:`Ticket.back`."""
        with self._lock:
            if not ticket._gone and ticket not in self._at_work:
                self._line_up(ticket)

    def should_yield(self, ticket: Ticket) -> bool:
        """Whether its time is up and somebody waits."""
        with self._lock:
            late = time.monotonic() - ticket._since > self.quantum
            return late and bool(self._lines) and ticket in self._at_work

    def _waiting(self) -> int:
        return sum(map(len, self._lines.values()))

    def _order(self) -> list[str]:
        """Sessions that wait, the one whose last turn is longest ago first."""
        return sorted(self._lines, key=lambda session: self._served.get(session, 0.0))

    def _line_up(self, ticket: Ticket) -> None:
        self._lines.setdefault(ticket.session, deque()).append(ticket)
        self._serve()

    def _drop(self, ticket: Ticket) -> None:
        if ticket in self._at_work:
            self._at_work.remove(ticket)
            held = time.monotonic() - ticket._since
            self._mean = _MEMORY * self._mean + (1 - _MEMORY) * held
        line = self._lines.get(ticket.session)
        if line is not None and ticket in line:
            line.remove(ticket)
            if not line:
                del self._lines[ticket.session]

    def _serve(self) -> None:
        while self._lines and len(self._at_work) < self.slots:
            session = self._order()[0]
            line = self._lines[session]
            ticket = line.popleft()
            if not line:
                del self._lines[session]
            ticket._since = self._served[session] = time.monotonic()
            self._at_work.add(ticket)
            ticket._granted.set()
        if len(self._served) > 10_000:  # sessions long gone
            for session in sorted(self._served, key=self._served.__getitem__)[:5_000]:
                del self._served[session]

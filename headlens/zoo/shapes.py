"""Shapes: pictures of 32 x 32 pixels with one question each, drawn in the corner, and one right answer.

The sign in the top left corner asks: three dots "how many shapes?" (one to four), an arrow head "which one is larger,
the left or the right?", two bars "have both the same colour?". The signs matter: a picture with two shapes has another
answer under each of them. Everything is drawn without blurred edges, so answers can be read off the pixels, and a
perfect model has a loss of 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

import numpy as np

SIZE = 32
"""Height and width of a picture in pixels."""

LABELS = ("one", "two", "three", "four", "left", "right", "same", "different")
"""The answers, in the order of the classes."""

COLOURS = {
    "red": (214, 39, 40),
    "green": (44, 160, 44),
    "blue": (31, 119, 180),
    "yellow": (255, 201, 14),
    "purple": (148, 103, 189),
    "orange": (255, 127, 14),
}
KINDS = ("circle", "square", "triangle")
BACKGROUND = (255, 255, 255)
INK = (0, 0, 0)

Question = Literal["count", "larger", "same"]
QUESTIONS: tuple[Question, ...] = ("count", "larger", "same")

_SIGNS = {
    "count": ("......", "##.##.", "##.##.", "......", ".##...", ".##..."),
    "larger": ("#.....", "###...", "..###.", "..###.", "###...", "#....."),
    "same": ("......", "#####.", "#####.", "......", "#####.", "#####."),
}
_TOP = 8  # rows above hold the sign
_GAP = 2  # pixels between two shapes, and between a shape and the edge
_SMALL, _LARGE = 2, 6  # radius in pixels
_CLEARLY = 2  # by how many pixels of radius the larger one is larger


@dataclass(frozen=True)
class Shape:
    """One shape: its box is ``2 * radius + 1`` pixels high and wide around ``(row, column)``."""

    kind: str
    colour: str
    row: int
    column: int
    radius: int


@dataclass(frozen=True)
class Scene:
    """A question and the shapes that it is about."""

    question: Question
    shapes: tuple[Shape, ...]

    @property
    def answer(self) -> str:
        """The right one of :data:`LABELS`."""
        if self.question == "count":
            return LABELS[len(self.shapes) - 1]
        first, second = sorted(self.shapes, key=lambda shape: shape.column)
        if self.question == "larger":
            return "left" if first.radius > second.radius else "right"
        return "same" if first.colour == second.colour else "different"


def scene(rng: Random) -> Scene:
    """Draws a scene: all questions, and all answers of a question, are equally likely."""
    question = rng.choice(QUESTIONS)
    count = rng.randint(1, 4) if question == "count" else 2
    alike = rng.random() < 0.5
    while True:
        shapes = _place(rng, question, count, alike)
        if shapes is not None:
            return Scene(question, shapes)


def picture(scene: Scene) -> np.ndarray:
    """The pixels of a scene, uint8 ``[row, column, colour]``."""
    pixels = np.full((SIZE, SIZE, 3), BACKGROUND, dtype=np.uint8)
    sign = np.array([[mark == "#" for mark in line] for line in _SIGNS[scene.question]])
    pixels[1 : 1 + sign.shape[0], 1 : 1 + sign.shape[1]][sign] = INK
    for shape in scene.shapes:
        pixels[_mask(shape)] = COLOURS[shape.colour]
    return pixels


def _place(rng: Random, question: Question, count: int, alike: bool) -> tuple[Shape, ...] | None:
    """Shapes that do not touch; None where a try leads to no room. ``alike``: whether two have the same colour."""
    radii = [rng.randint(_SMALL, _LARGE - 1) for _ in range(count)]
    kinds = [rng.choice(KINDS) for _ in range(count)]
    colours = [rng.choice(tuple(COLOURS)) for _ in range(count)]
    if question == "larger":
        kinds = kinds[:1] * 2  # only shapes of one kind can be compared by their width
        radii = [rng.randint(_SMALL, _LARGE - _CLEARLY), 0]
        radii[1] = rng.randint(radii[0] + _CLEARLY, _LARGE)
        rng.shuffle(radii)
    if question == "same":
        others = [colour for colour in COLOURS if colour != colours[0]]
        colours[1] = colours[0] if alike else rng.choice(others)
    placed: list[Shape] = []
    for kind, colour, radius in zip(kinds, colours, radii, strict=True):
        rows, columns = (_TOP + radius, SIZE - 1 - _GAP - radius), (_GAP + radius, SIZE - 1 - _GAP - radius)
        for _ in range(20):
            found = Shape(kind, colour, rng.randint(*rows), rng.randint(*columns), radius)
            if all(_apart(found, other, question) for other in placed):
                placed.append(found)
                break
        else:
            return None
    return tuple(placed)


def _apart(one: Shape, other: Shape, question: Question) -> bool:
    """Whether two shapes leave a gap; for "which is larger" one must also stand clearly to the left of the other."""
    room = one.radius + other.radius + _GAP
    across, down = abs(one.column - other.column), abs(one.row - other.row)
    return across > room or (down > room and question != "larger")


def _mask(shape: Shape) -> np.ndarray:
    """The pixels that a shape covers, bool ``[row, column]``."""
    rows, columns = np.mgrid[:SIZE, :SIZE]
    down, across, radius = rows - shape.row, columns - shape.column, shape.radius
    inside = (abs(down) <= radius) & (abs(across) <= radius)
    if shape.kind == "circle":
        return inside & (down**2 + across**2 <= (radius + 0.4) ** 2)
    if shape.kind == "triangle":
        return inside & (2 * abs(across) <= down + radius)
    return inside

"""Pictures of shapes: the answer is worked out again from the list of shapes, and once more from the pixels alone."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from scipy import ndimage

from headlens.zoo import shapes
from headlens.zoo.shapes import Scene, Shape, picture, scene


def scenes(count: int = 400) -> list[Scene]:
    rng = Random(0)
    return [scene(rng) for _ in range(count)]


def answer_from_list(found: Scene) -> str:
    """By the numbers in the scene."""
    if found.question == "count":
        return {1: "one", 2: "two", 3: "three", 4: "four"}[len(found.shapes)]
    a, b = found.shapes
    if found.question == "same":
        return "same" if a.colour == b.colour else "different"
    larger, other = (a, b) if a.radius > b.radius else (b, a)
    return "left" if larger.column < other.column else "right"


def answer_from_pixels(pixels: np.ndarray) -> str:
    """By what is drawn: the sign's ink, and connected patches of one colour below it."""
    ink = int((pixels[:7, :7] == 0).all(-1).sum())
    drawn = (pixels[7:] != 255).any(-1)
    patches: np.ndarray = np.zeros(drawn.shape, dtype=np.int32)
    count = int(ndimage.label(drawn, structure=np.ones((3, 3)), output=patches))  # type: ignore[arg-type]
    areas = np.bincount(patches.ravel())[1:]
    columns = [np.nonzero((patches == i).any(0))[0].mean() for i in range(1, count + 1)]
    colours = [{tuple(map(int, c)) for c in pixels[7:][patches == i]} for i in range(1, count + 1)]
    assert all(len(each) == 1 for each in colours)
    if ink == 12:  # three dots of four pixels
        return ["one", "two", "three", "four"][count - 1]
    assert count == 2
    if ink == 20:  # two bars
        return "same" if colours[0] == colours[1] else "different"
    return "left" if columns[int(areas.argmax())] < columns[int(areas.argmin())] else "right"


def test_answers() -> None:
    for found in scenes():
        assert found.answer == answer_from_list(found) == answer_from_pixels(picture(found))


def test_answers_of_a_question_are_equally_likely() -> None:
    counts = Counter(found.answer for found in scenes(6000))
    assert set(counts) == set(shapes.LABELS)
    for label in shapes.LABELS:
        share = 1 / 12 if label in ("one", "two", "three", "four") else 1 / 6
        assert counts[label] / 6000 == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize(("kind", "pixels"), [("square", 25), ("circle", 21), ("triangle", 13)])
def test_a_shape_by_hand(kind: str, pixels: int) -> None:
    drawn = picture(Scene("count", (Shape(kind, "red", 20, 16, 2),)))[8:]
    red = (drawn == shapes.COLOURS["red"]).all(-1)
    assert int(red.sum()) == pixels
    rows, columns = np.nonzero(red)
    assert (rows.min() + 8, rows.max() + 8, columns.min(), columns.max()) == (18, 22, 14, 18)
    if kind == "triangle":
        assert [int(n) for n in red.sum(1)[10:15]] == [1, 1, 3, 3, 5]


def test_form_and_seed() -> None:
    pixels = picture(scene(Random(5)))
    assert (pixels.shape, pixels.dtype) == ((32, 32, 3), np.uint8)
    assert (pixels == picture(scene(Random(5)))).all()
    assert (pixels != picture(scene(Random(6)))).any()

"""The budget of rendering a template: steps and output characters rather than time, which makes results repeatable."""

from __future__ import annotations

import contextvars
import dataclasses
from collections.abc import Iterator

MAX_STEPS = 100_000
MAX_OUTPUT_CHARACTERS = 524_288
CHARACTERS_PER_STEP = 256


class TemplateError(ValueError):
    """A template that cannot be parsed or rendered; `line` is 0 if it is unknown."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.message = f"Line {line}: {message}" if line else message
        self.line = line


class ParseError(TemplateError):
    """The text is not a valid template."""


class RenderError(TemplateError):
    """The template cannot be rendered with the given values, or exceeds its budget."""


@dataclasses.dataclass(slots=True)
class Budget:
    """The remaining budget of one rendering."""

    steps: int = MAX_STEPS
    characters: int = MAX_OUTPUT_CHARACTERS

    def charge(self, characters: int = 0) -> None:
        """Charge one step, and one more per 256 characters processed. Raises RenderError."""
        self.steps -= 1 + characters // CHARACTERS_PER_STEP
        if self.steps < 0:
            raise RenderError("the template does too much")

    def write(self, characters: int) -> None:
        """Charge output. Raises RenderError."""
        self.characters -= characters
        if self.characters < 0:
            raise RenderError("the result is too long")

    def metered(self, chunks: Iterator[str]) -> Iterator[str]:
        """Yield the output of a template, and charge it."""
        for chunk in chunks:
            self.charge()
            self.write(len(chunk))
            yield chunk


current_budget: contextvars.ContextVar[Budget] = contextvars.ContextVar("template_budget")
"""The budget of the rendering in progress."""


def charge(characters: int = 0) -> None:
    """Charge the rendering in progress. Raises RenderError."""
    current_budget.get().charge(characters)


def require_output_length(characters: int) -> None:
    """Raise RenderError for a text longer than the output may be."""
    if characters > MAX_OUTPUT_CHARACTERS:
        raise RenderError("a text is too long")

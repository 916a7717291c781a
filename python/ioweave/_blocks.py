"""What the end of a `with` block does."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class Block:
    """A class that is its own `with` block."""

    def _leave(self, error: BaseException | None) -> None:
        """Ends the block; `error` is what was raised inside it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave(error)


class Closing(Block):
    """The end of the block calls `close()`."""

    def close(self) -> None:
        raise NotImplementedError

    def _leave(self, error: BaseException | None) -> None:
        self.close()

"""Shows what a runtime does now: `Runtime(progress=True)`.

On a terminal it is a table below the program's output, redrawn a few times a second. Elsewhere (a
file, a batch system, a notebook) it is a line now and then. Both go to standard error.

A thread of its own asks the runtime first, and then hands the result to rich. Rich must never wait
for the runtime's lock: a thread that prints or logs while it holds that lock waits for rich.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    from .runtime import FlowStats, Stats

_log = logging.getLogger("ioweave")

_MOST_ROWS = 12
_WINDOW_S = 10.0  # the throughput of calls that ended is a mean over these seconds
_MB = 1e6

Key = tuple[str, str]  # a task and its device


class Progress:
    """Shows the progress of a runtime until stop().

    Args:
        stats: Runtime.stats; called on the thread of this.
        explanations: returns what Runtime.explain() returns, for all I/O tasks.
        console: where to show it; None: standard error.
        draw_s: seconds between two drawings of the table.
        line_s: seconds between two lines, without a terminal.
        clock: returns seconds.

    Raises:
        ModuleNotFoundError: rich is not installed.
    """

    def __init__(
        self,
        stats: Callable[[], Stats],
        explanations: Callable[[], Iterable[Mapping[str, Any]]] = lambda: (),
        *,
        console: Console | None = None,
        draw_s: float = 0.25,
        line_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            from rich.console import Console
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "progress=True needs rich: pip install 'ioweave[progress]'", name=error.name
            ) from error
        self._stats = stats
        self._explanations = explanations
        self._console = Console(stderr=True) if console is None else console
        self._clock = clock
        self._began = clock()
        self._moved: deque[tuple[float, dict[Key, int]]] = deque()
        self._live: Live | None = None
        if self._can_draw():
            from rich.live import Live

            # What the program prints goes above the table, but only if it goes to a terminal.
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
                redirect_stderr=True,
            )
        self._period = draw_s if self._live is not None else line_s
        self._end = threading.Event()
        self._thread = threading.Thread(
            target=self._show_repeatedly, name="ioweave-progress", daemon=True
        )

    def _can_draw(self) -> bool:
        console = self._console
        return console.is_terminal and not console.is_dumb_terminal and not console.is_jupyter

    def start(self) -> None:
        self._began = self._clock()
        self._thread.start()

    def stop(self) -> None:
        """Shows the last state, and gives the terminal back. Hold no lock."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()

    def _show_repeatedly(self) -> None:
        try:
            while not self._end.wait(self._period):
                self.show()
            self.show()
        except Exception:  # the program continues without it
            _log.exception("progress is not shown any more")
        finally:
            with contextlib.suppress(Exception):
                if self._live is not None:
                    self._live.stop()

    def show(self) -> None:
        """Draws the table, or writes a line."""
        stats = self._stats()
        rates = self._measure_rates(stats)
        why = {
            (one["flow"], one["device"]): _describe_constraint(one) for one in self._explanations()
        }
        if self._live is None:
            self._console.file.write(self.line(stats, rates, why) + "\n")
            self._console.file.flush()
            return
        if not self._live.is_started:
            self._live.start()
        self._live.update(self.table(stats, rates, why), refresh=True)

    def _measure_rates(self, stats: Stats) -> dict[Key, float]:
        """Returns MB/s of each flow: of its measured device while calls run, since they may take
        minutes; otherwise of the calls that ended in the last seconds."""
        now = self._clock()
        moved = {_make_key(flow): flow.bytes for flow in stats.flows}
        while len(self._moved) > 1 and self._moved[1][0] <= now - _WINDOW_S:
            self._moved.popleft()
        since, before = self._moved[0] if self._moved else (self._began, {})
        self._moved.append((now, moved))
        per_mb = _MB * (now - since) or math.inf
        ended = {key: (moved[key] - before.get(key, 0)) / per_mb for key in moved}
        return ended | {
            _make_key(flow): flow.device_mb_per_s
            for flow in stats.flows
            if flow.running and flow.device_mb_per_s is not None
        }

    # ---- What is shown. -------------------------------------------------------------------------

    def line(self, stats: Stats, rates: Mapping[Key, float], why: Mapping[Key, str]) -> str:
        """Returns all in one line:
        "ioweave 1:05: 8 of 48 cpus busy, 9 pending, 1 done; save on ssd ..."."""
        parts = [
            f"{stats.cpus - stats.cpus_free} of {stats.cpus} cpus busy, {stats.pending} pending, "
            f"{_describe_done(stats)}"
        ]
        for flow in _choose_flows(stats.flows):
            key = _make_key(flow)
            constraint = f" ({why[key]})" if key in why else ""
            limit = f" of {flow.limit}" if flow.limit else ""
            parts.append(
                f"{flow.task} on {flow.device} {flow.waiting} waiting, {flow.running}{limit} "
                f"running, {flow.done} done, {rates[key]:.3g} MB/s{constraint}"
            )
        return f"ioweave {_clock(self._clock() - self._began)}: " + "; ".join(parts)

    def table(self, stats: Stats, rates: Mapping[Key, float], why: Mapping[Key, str]) -> Table:
        """Makes the table: a row for each I/O task, and one for all that compute."""
        from rich.table import Table
        from rich.text import Text

        table = Table(
            "",
            *("waiting", "running", "limit", "done", "MB/s", "constraint"),
            box=None,
            pad_edge=False,
        )
        for column in table.columns[1:6]:
            column.justify = "right"
        table.columns[-1].no_wrap = True
        shown = _choose_flows(stats.flows)
        for flow in shown:
            key = _make_key(flow)
            table.add_row(
                Text(f"{flow.task} on {flow.device}"),
                str(flow.waiting),
                str(flow.running),
                str(flow.limit or "-"),
                str(flow.done),
                f"{rates[key]:.3g}",
                why.get(key, ""),
            )
        if len(stats.flows) > len(shown):
            table.add_row(f"and {len(stats.flows) - len(shown)} more")
        io_done = sum(flow.done for flow in stats.flows)
        table.add_row(
            "computing",
            "",
            str(stats.cpus - stats.cpus_free),
            str(stats.cpus),
            str(max(0, stats.succeeded - io_done)),
        )
        passed = _clock(self._clock() - self._began)
        table.caption = f"{passed}, {stats.pending} pending, {_describe_done(stats)}"
        table.caption_justify = "left"
        return table


def _choose_flows(flows: Iterable[FlowStats]) -> list[FlowStats]:
    """Returns the flows to show in their order. Of too many, those with work come first."""
    shown = list(flows)
    if len(shown) > _MOST_ROWS:
        shown.sort(key=lambda flow: flow.waiting + flow.running == 0)
    return shown[:_MOST_ROWS]


def _describe_done(stats: Stats) -> str:
    text = f"{stats.succeeded} done"
    for name, count in (("failed", stats.failed), ("cancelled", stats.cancelled)):
        if count:
            text += f", {count} {name}"
    return text


def _make_key(flow: FlowStats) -> Key:
    return flow.task, flow.device


def _describe_constraint(explanation: Mapping[str, Any]) -> str:
    """Returns a text such as "fixed 8 MB/s", "auto 4 MB/s, learning", "climb, settled", "none"."""
    policy, phase = str(explanation["policy"]), str(explanation["phase"])
    held = explanation["constraint_mb_per_s"]
    text = f"{policy} {held:.3g} MB/s" if held else policy
    return text if phase == policy else f"{text}, {phase}"


def _clock(seconds: float) -> str:
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"

#!/usr/bin/env python3
"""Checks that includes follow the direction of ARCHITECTURE.md, and fails on a breach.

    calls -> stream -> service -> {gate -> policy, engine, tasking} -> base
    cli, calls, stream -> stats -> device -> config -> choice -> base
    cli, apps/tiom, python, bench -> model -> base
    python -> simulator -> {policy, model}
    cli -> stream -> {engine, stats}
    apps/tiom, python -> device

A station may include what lies anywhere behind it, never what lies beside or before it. The public
headers stand alone; programs in apps/ know nothing of Ioweave, except apps/tiom, which measures it
through its public headers, and apps/cube and apps/ranked, which write and read by them; those in
examples/ know only these, those in bench/ also base and model, and the Python module these, policy,
model, device and config.
policy, model and choice are pure logic: what the system offers of I/O, time and threads is closed
to them. A policy is constructed by its drivers alone: the gate of a process, and the Python
binding, which serves simulations and Dask's scheduler.

Usage: check_includes.py [ROOT]
"""

import re
import sys
from pathlib import Path

PUBLIC = "ioweave"  # include/ioweave/, included as <ioweave/...> or "ioweave/..."

# Station (a folder of src/, or a top folder) -> the stations that its files may include.
ALLOWED: dict[str, set[str]] = {
    "base": {"base"},
    "choice": {"choice", "base"},
    "config": {"config", "choice", "base"},
    "device": {"device", "config", "choice", "base"},
    "stats": {"stats", "device", "config", "choice", "base"},
    "policy": {"policy", "base"},
    "model": {"model", "base"},
    "simulator": {"simulator", "policy", "model", "base"},
    "gate": {"gate", "policy", "base"},
    "engine": {"engine", "base"},
    "stream": {"stream", "service", "engine", "stats", "device", "config", "base", PUBLIC},
    "tasking": {"tasking", "base"},
    "service": {"service", "gate", "policy", "engine", "tasking", "base", PUBLIC},
    "calls": {
        "calls",
        "stream",
        "service",
        "policy",
        "engine",
        "stats",
        "config",
        "choice",
        "base",
        PUBLIC,
    },
    "cli": {"cli", "stream", "engine", "stats", "device", "config", "model", "choice", "base"},
    "include": {PUBLIC},
    "apps": set(),
    "apps/cube": {PUBLIC},
    "apps/ranked": {PUBLIC},
    "apps/tiom": {PUBLIC, "base", "device", "model"},
    "examples": {PUBLIC},
    "bench": {PUBLIC, "base", "model"},
    "python": {PUBLIC, "policy", "model", "simulator", "device", "config", "base"},
}

# System headers that a station must do without, and why.
_IMPURE = re.compile(
    r"thread|mutex|shared_mutex|condition_variable|atomic|future|chrono|c?time"
    r"|unistd\.h|fcntl\.h|pthread\.h|fstream|iostream|c?stdio|sys/.*|linux/.*"
)
FORBIDDEN_SYSTEM = {
    station: (_IMPURE, f"{station} is pure logic: no I/O, clock, thread or lock")
    for station in ("policy", "model", "choice")
}

# Who may construct a policy: a second driver in a process would be a second budget for its devices.
# The policy's own folder replays logs; the binding serves the two Python files below.
POLICY_DRIVERS = ("src/policy/", "src/gate/", "python/src/policy.")
PYTHON_POLICY_DRIVERS = {"simulated.py", "dask/admission.py"}
_CONSTRUCTS_POLICY = re.compile(
    r"\bpolicy::Policy\s+\w+\s*(\[\w*\]\s*)?[;({=]|<policy::Policy>|\bnew policy::Policy\b"
)
_CONSTRUCTS_POLICY_IN_PYTHON = re.compile(r"(?<![\w.])(_core\.)?Policy\(")

_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
_SUFFIXES = {".c", ".h", ".cpp", ".hpp"}


def station_of(path: Path) -> str:
    """The station of a source file, by its path below the root."""
    if "/".join(path.parts[:2]) in ALLOWED:
        return "/".join(path.parts[:2])
    return path.parts[1] if path.parts[0] == "src" else path.parts[0]


def station_named(header: str, stations: set[str]) -> str | None:
    """The station an include names, or None for headers of the system and of the same folder."""
    first, slash, _ = header.partition("/")
    return first if slash and first in stations else None


def breach(station: str, opening: str, header: str, stations: set[str]) -> str | None:
    """Why a file of `station` must not include `header`, or None if it may."""
    if ".." in Path(header).parts:
        return 'climbs with ".."; name it from src/ on'
    named = station_named(header, stations)
    if named is not None and named != station and named not in ALLOWED[station]:
        allowed = ", ".join(sorted(ALLOWED[station])) or "nothing of ours"
        return f"{station} may include only {allowed}"
    pattern, why = FORBIDDEN_SYSTEM.get(station, (None, ""))
    if opening == "<" and pattern is not None and pattern.fullmatch(header):
        return why
    return None


def breaches(root: Path) -> list[str]:
    """All breaches below `root`, as "file:line: message"; a folder without a rule is one too."""
    found = []
    stations = {folder.name for folder in (root / "src").iterdir() if folder.is_dir()} | {PUBLIC}
    for unruled in sorted(stations - ALLOWED.keys() - {PUBLIC}):
        found.append(f"src/{unruled}: no rule for this folder in tools/check_includes.py")
    for top in ("src", "include", "apps", "examples", "bench", "python"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in _SUFFIXES:
                continue
            relative = path.relative_to(root)
            station = station_of(relative)
            if station not in ALLOWED:
                continue
            for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                match = _INCLUDE.match(line)
                why = breach(station, match[1], match[2], stations) if match else None
                if match and why:
                    found.append(f"{relative}:{number}: must not include {match[2]}: {why}")
                is_driver = str(relative).startswith(POLICY_DRIVERS)
                if not is_driver and _CONSTRUCTS_POLICY.search(line):
                    found.append(f"{relative}:{number}: must not construct a policy: ask the gate")
    package = root / "python/ioweave"
    for path in sorted(package.rglob("*.py")):
        if str(path.relative_to(package)) in PYTHON_POLICY_DRIVERS:
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if _CONSTRUCTS_POLICY_IN_PYTHON.search(line):
                relative = path.relative_to(root)
                found.append(f"{relative}:{number}: must not construct a policy: ask the gate")
    return found


def main(arguments: list[str]) -> int:
    """Prints the breaches; the exit status is 1 if there are any."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    found = breaches(root)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

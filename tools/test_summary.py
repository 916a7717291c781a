#!/usr/bin/env python3
"""Sums up the JUnit files of ctest: skips with their reasons, what failed, a line of counts.

Of each failed test the last lines of its output are repeated here, where who reads only the end of
a long log finds them.

Usage: test_summary.py tests.xml [tests.xml ...]

Exit status: 1 if a test failed, or if none passed at all.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

OUTPUT_LINES = 25

# GoogleTest prints the message of GTEST_SKIP() after "file:line: Skipped"; scripts print "SKIP: ".
_REASON = re.compile(r"^(?:\S+:\d+: Skipped\n|SKIP: )(.+)$", re.MULTILINE)


def skip_reason(case: ElementTree.Element) -> str | None:
    """Why a test was skipped, or None if it was not: what could not be started has failed."""
    if case.get("status") == "disabled":
        return "disabled"
    skipped = case.find("skipped")
    if skipped is None or not skipped.get("message", "").startswith("SKIP_"):
        return None
    found = _REASON.search(case.findtext("system-out", ""))
    return found.group(1).strip() if found else "no reason given"


def main(paths: list[str]) -> int:
    """Prints the summary of all files together."""
    passed = failed = 0
    skipped: list[str] = []
    failures: list[str] = []
    for path in paths:
        if not Path(path).exists():
            print(f"{path} is missing: its tests did not run")
            failed += 1
            continue
        for case in ElementTree.parse(path).iter("testcase"):
            reason = skip_reason(case)
            if reason is not None:
                skipped.append(f"{case.get('name')}: {reason}")
            elif case.get("status") == "run":
                passed += 1
            else:
                failed += 1
                output = case.findtext("system-out", "").strip().splitlines()[-OUTPUT_LINES:]
                failures.append("\n    ".join([f"failed {case.get('name')}", *output]))

    for line in sorted(set(skipped)):
        print(f"skipped {line}")
    for text in failures:
        print(text)
    print(f"{passed} passed, {failed} failed, {len(skipped)} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

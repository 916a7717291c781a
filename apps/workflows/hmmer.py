#!/usr/bin/env python3
"""HMMER: sequences against a database of profiles, in fragments, with checkpoints (paper, 5.2.1).

Each pair of a sequence fragment and a database fragment is a search (hmmscan, HMMER 3's hmmpfam),
whose result is checkpointed. The results of a sequence fragment are gathered over the database, and
then over the fragments. The profiles are those of the package hmmer-examples; the sequences are
emitted from them.
"""

from __future__ import annotations

import gzip
import itertools
import sys
from pathlib import Path
from typing import Annotated, Any

import ioweave
import workflow

EXAMPLES = Path("/usr/share/doc/hmmer/examples")
Read = Annotated[Path, ioweave.In]
Write = Annotated[Path, ioweave.Out]


def profiles(where: workflow.Folders) -> list[str]:
    """The protein profiles of the package, each as the text of a file of today's format."""
    found = []
    for path in sorted(itertools.chain(EXAMPLES.rglob("*.hmm"), EXAMPLES.rglob("*.hmm.gz"))):
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8", "replace")
        if text.startswith("HMMER3/") and "\nALPH  amino\n" in text and text.count("\n//") == 1:
            old, new = where.work / "old.hmm", where.work / "new.hmm"
            old.write_text(text, "utf-8")
            workflow.run_tool("hmmconvert", old, stdout=new)
            found.append(new.read_text("utf-8"))
    if not found:
        sys.exit(f"no profiles below {EXAMPLES}; on Debian: apt-get install hmmer-examples")
    return found


def make_inputs(options: Any, where: workflow.Folders) -> tuple[list[Path], list[Path]]:
    """Database fragments, pressed, and sequence fragments: `--database` and `--sequences` many."""
    texts = profiles(where)
    databases = []
    for number in range(options.database):
        path = where.work / f"database-{number}.hmm"
        # All profiles in each, under names of its own, so that searches are equal as the paper's
        # are: there are few profiles, and the largest is 150 times as long as the smallest.
        path.write_text(
            "".join(
                text.replace("\nNAME  ", f"\nNAME  {number}.{i}.", 1)
                for i, text in enumerate(texts)
            ),
            "utf-8",
        )
        workflow.run_tool("hmmpress", path)
        databases.append(path)
    sequences = []
    for number in range(options.sequences):
        path = where.work / f"sequences-{number}.fa"
        workflow.run_tool(
            *("hmmemit", "-N", options.sequences_each, "--seed", options.seed + number),
            *("-o", path, databases[number % len(databases)]),
        )
        sequences.append(path)
    return databases, sequences


@ioweave.task
def hmmpfam(sequences: Read, database: Read, hits: Write) -> bytes:
    workflow.run_tool(
        *("hmmscan", "--cpu", 0, "--noali", "-o", "/dev/null", "--tblout", hits),
        *(database, sequences),
    )
    return hits.read_bytes()


@ioweave.task
def gather(results: list[bytes]) -> bytes:
    return b"".join(
        line
        for result in results
        for line in result.splitlines(keepends=True)
        if not line.startswith(b"#")
    )


def search(options: Any, where: workflow.Folders, inputs: tuple[list[Path], list[Path]]) -> int:
    """Returns the number of hits, which all modes must agree on."""

    @workflow.io_task(options.mode)
    def checkpointFrag(path: Any, content: bytes, size: int) -> None:
        workflow.write_checkpoint(path, content, size, options.direct)

    size = int(options.checkpoint_mb * workflow.MB)
    databases, sequences = inputs
    gathered = []
    for i, fragment in enumerate(sequences):
        results = []
        for k, database in enumerate(databases):
            result = hmmpfam(fragment, database, where.work / f"hits-{i}-{k}")
            checkpointFrag(where.checkpoints / f"hits-{i}-{k}", result, size)
            results.append(result)
        gathered.append(gather(results))
    return int(ioweave.wait(gather(gathered)).count(b"\n"))


def main() -> int:
    parser = workflow.parser(__doc__)
    parser.add_argument("--database", type=int, default=8, help="fragments of the database")
    parser.add_argument("--sequences", type=int, default=8, help="fragments of the sequences")
    parser.add_argument("--sequences-each", type=int, default=4, help="per profile and fragment")
    options = parser.parse_args()
    workflow.need("hmmconvert", "hmmpress", "hmmemit", "hmmscan", packages="hmmer hmmer-examples")
    if options.database < 1 or options.sequences < 1:
        parser.error("--database and --sequences must be at least 1")
    with workflow.folders(options) as where:
        inputs = make_inputs(options, where)
        workflow.report(workflow.run(options, where, lambda: search(options, where, inputs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Variants discovery: from reads to variants, a pipeline for each sample (paper, 5.2.2).

Reads are unpacked, mapped (bwa), sorted, merged, marked for duplicates and grouped (samtools), and
their variants called (bcftools). Major steps are checkpointed, in five tasks whose sizes have the
proportions of the paper's table 1. The reference is that of the package bowtie2-examples; reads and
variants in them are simulated on it (wgsim).
"""

from __future__ import annotations

import gzip
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import ioweave
import workflow

REFERENCE = Path("/usr/share/doc/bowtie2/examples/reference/lambda_virus.fa.gz")
# MB that each checkpoint writes in the paper; --checkpoint-mb is what the second one writes here.
TABLE_1 = {"fastq": 162, "mapped": 290, "merged": 330, "marked": 596, "grouped": 615}

Read = Annotated[Path, ioweave.In]
Write = Annotated[Path, ioweave.Out]


def make_inputs(options: Any, where: workflow.Folders) -> tuple[Path, list[tuple[Path, Path]]]:
    """The indexed reference, and for each sample its packed pairs of reads."""
    if not REFERENCE.exists():
        sys.exit(f"no {REFERENCE}; on Debian: apt-get install bowtie2-examples")
    reference = where.work / "reference.fa"
    reference.write_bytes(gzip.decompress(REFERENCE.read_bytes()))
    workflow.run_tool("bwa", "index", reference)
    workflow.run_tool("samtools", "faidx", reference)
    samples = []
    for number in range(options.samples):
        pair = (where.work / f"{number}_1.fq", where.work / f"{number}_2.fq")
        workflow.run_tool(
            *("wgsim", "-N", options.reads, "-1", 100, "-2", 100, "-r", 0.01),
            *("-S", options.seed + number, reference, *pair),
        )
        packed = []
        for path in pair:
            packed.append(path.with_suffix(".fq.gz"))
            packed[-1].write_bytes(gzip.compress(path.read_bytes(), 1))
            path.unlink()
        samples.append((packed[0], packed[1]))
    return reference, samples


@ioweave.task
def unpack(packed: Read, reads: Write) -> bytes:
    with gzip.open(packed) as source, reads.open("wb") as sink:
        shutil.copyfileobj(source, sink)
    return reads.read_bytes()[:65536]


@ioweave.task
def bwa_map(reference: Read, first: Read, second: Read, sam: Write) -> bytes:
    workflow.run_tool("bwa", "mem", "-v", 1, reference, first, second, stdout=sam)
    return sam.read_bytes()[:65536]


@ioweave.task
def sort(sam: Read, bam: Write) -> bytes:
    workflow.run_tool("samtools", "sort", "-n", "-o", bam, sam)
    return bam.read_bytes()[:65536]


@ioweave.task
def merge(bam: Read, merged: Write) -> bytes:
    """Pairs know of each other, in the order of positions."""
    mates = merged.with_suffix(".mates")
    workflow.run_tool("samtools", "fixmate", "-m", bam, mates)
    workflow.run_tool("samtools", "sort", "-o", merged, mates)
    mates.unlink()
    return merged.read_bytes()[:65536]


@ioweave.task
def mark_duplicates(bam: Read, marked: Write) -> bytes:
    workflow.run_tool("samtools", "markdup", bam, marked)
    return marked.read_bytes()[:65536]


@ioweave.task
def add_group(bam: Read, grouped: Write, sample: int) -> bytes:
    group = f"@RG\\tID:{sample}\\tSM:sample{sample}"
    workflow.run_tool("samtools", "addreplacerg", "-r", group, "-o", grouped, bam)
    workflow.run_tool("samtools", "index", grouped)
    return grouped.read_bytes()[:65536]


@ioweave.task
def call_variants(reference: Read, bam: Read, variants: Write) -> int:
    likelihoods = variants.with_suffix(".bcf")
    workflow.run_tool("bcftools", "mpileup", "-Ou", "-f", reference, "-o", likelihoods, bam)
    workflow.run_tool("bcftools", "call", "-mv", "--ploidy", 1, "-o", variants, likelihoods)
    likelihoods.unlink()
    return sum(not line.startswith("#") for line in variants.read_text("utf-8").splitlines())


def discover(
    options: Any, where: workflow.Folders, inputs: tuple[Path, list[tuple[Path, Path]]]
) -> int:
    """Returns the number of variants, which all modes must agree on."""

    def checkpointing(kind: str) -> Any:
        def checkpoint(path: Any, content: bytes, size: int) -> None:
            workflow.write_checkpoint(path, content, size, options.direct)

        checkpoint.__name__ = f"checkpoint_{kind}"
        task = workflow.io_task(options.mode)(checkpoint)
        size = int(options.checkpoint_mb * workflow.MB * TABLE_1[kind] / TABLE_1["mapped"])
        return lambda name, content: task(where.checkpoints / f"{kind}-{name}", content, size)

    save = {kind: checkpointing(kind) for kind in TABLE_1}
    reference, samples = inputs
    numbers = []
    for i, (first, second) in enumerate(samples):
        path = where.work / f"sample-{i}"
        reads = [path.with_suffix(f".{k}.fq") for k in (1, 2)]
        for k, packed in enumerate((first, second)):
            save["fastq"](f"{i}-{k}", unpack(packed, reads[k]))
        mapped = bwa_map(reference, reads[0], reads[1], path.with_suffix(".sam"))
        save["mapped"](f"{i}-mapped", mapped)
        ordered = sort(path.with_suffix(".sam"), path.with_suffix(".names.bam"))
        save["mapped"](f"{i}-sorted", ordered)
        save["merged"](i, merge(path.with_suffix(".names.bam"), path.with_suffix(".merged.bam")))
        marked = mark_duplicates(path.with_suffix(".merged.bam"), path.with_suffix(".marked.bam"))
        save["marked"](i, marked)
        grouped = add_group(path.with_suffix(".marked.bam"), path.with_suffix(".bam"), i)
        save["grouped"](i, grouped)
        numbers.append(call_variants(reference, path.with_suffix(".bam"), path.with_suffix(".vcf")))
    return sum(ioweave.wait(numbers))


def main() -> int:
    parser = workflow.parser(__doc__)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--reads", type=int, default=4000, help="pairs for each sample")
    options = parser.parse_args()
    workflow.need(
        *("bwa", "samtools", "wgsim", "bcftools"), packages="bwa samtools bcftools bowtie2-examples"
    )
    if options.samples < 1:
        parser.error("--samples must be at least 1")
    with workflow.folders(options) as where:
        inputs = make_inputs(options, where)
        workflow.report(workflow.run(options, where, lambda: discover(options, where, inputs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

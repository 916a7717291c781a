"""Reads the resources file of COMPSs: the cores and the storage bandwidth of nodes."""

import socket
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Node:
    """One `<ComputeNode>`."""

    name: str
    computing_units: int | None  # cores; None: not given
    storage_mb_per_s: float | None  # `<Storage><Bandwidth>`; None: not given


def read_resources(path: Path) -> list[Node]:
    """Reads all compute nodes of the file. A ValueError names what is wrong in the file."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise ValueError(f"{path}: not XML: {error}") from None
    nodes = [
        _read_node(path, element) for element in root.iter() if _strip_tag(element) == "ComputeNode"
    ]
    if not nodes:
        raise ValueError(f"{path}: no <ComputeNode> in it: is it a resources file of COMPSs?")
    return nodes


def this_node(nodes: list[Node]) -> Node | None:
    """Returns the node that is this machine, by its name or `localhost`."""
    names = {"localhost", "127.0.0.1", socket.gethostname(), socket.getfqdn()}
    return next((node for node in nodes if node.name in names), None)


def _strip_tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _find_children(element: ElementTree.Element, tag: str) -> list[ElementTree.Element]:
    return [child for child in element if _strip_tag(child) == tag]


def _read_number(path: Path, node: str, element: ElementTree.Element) -> float:
    try:
        value = float((element.text or "").strip())
    except ValueError:
        value = -1
    if value <= 0:
        raise ValueError(
            f"{path}: node {node!r}: <{_strip_tag(element)}> must be a number above 0, "
            f"not {(element.text or '').strip()!r}"
        )
    return value


def _read_node(path: Path, element: ElementTree.Element) -> Node:
    name = element.get("Name", "")
    units = [
        _read_number(path, name, child)
        for processor in _find_children(element, "Processor")
        for child in _find_children(processor, "ComputingUnits")
    ]
    bandwidths = [
        _read_number(path, name, child)
        for storage in _find_children(element, "Storage")
        for child in _find_children(storage, "Bandwidth")
    ]
    return Node(name, int(sum(units)) if units else None, bandwidths[0] if bandwidths else None)

"""Hardware files of every kind: Headway's own, and those of other tools, told by suffix and content."""

from __future__ import annotations

from pathlib import Path

from headway.config.yaml_file import Document, read_yaml


def read_hardware(path: Path) -> Document:
    """A hardware file in Headway's form, not yet checked; other tools' are converted.

    A `.cfg` is a configuration of SCALE-Sim; YAML with an operational array is an accelerator of ZigZag, and
    YAML with cores and what connects them a system of Stream. Raises HeadwayError for a file that cannot be
    read, and for a field of another tool that has no counterpart.
    """
    if path.suffix.lower() == ".cfg":
        from headway.config.importers.scalesim_cfg import read_scalesim_cfg

        return read_scalesim_cfg(path)
    document = read_yaml(path, number_keys=True)
    from headway.config.importers import stream_system, zigzag_core, zigzag_hardware

    if zigzag_core.is_zigzag_core(document.data):
        return zigzag_hardware.zigzag_hardware(document, path)
    if stream_system.is_stream_system(document.data):
        return zigzag_hardware.stream_hardware(document, path)
    return document

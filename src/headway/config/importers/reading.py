"""Hardware files of every kind: Headway's own, and those of other tools, told by suffix and content."""

from __future__ import annotations

from pathlib import Path

from headway.config.yaml_file import Document, read_yaml, refuse_repeated
from headway.core.errors import HeadwayError


def read_hardware(path: Path, mapping: Path | None = None) -> Document:
    """A hardware file in Headway's form, not yet checked; other tools' are converted.

    `mapping` is a mapping file of ZigZag beside its accelerator, which says what the array unrolls.
    A `.cfg` is a configuration of SCALE-Sim; YAML with an operational array is an accelerator of ZigZag, and
    YAML with cores and what connects them a system of Stream. Raises HeadwayError for a file that cannot be
    read, and for a field of another tool that has no counterpart.
    """
    if mapping is not None and path.suffix.lower() == ".cfg":
        raise _no_mapping(path, mapping)
    if path.suffix.lower() == ".cfg":
        from headway.config.importers.scalesim_cfg import read_scalesim_cfg

        return read_scalesim_cfg(path)
    document = read_yaml(path, number_keys=True, repeated_keys=True)
    from headway.config.importers import stream_system, zigzag_core, zigzag_hardware

    if zigzag_core.is_zigzag_core(document.data):
        return zigzag_hardware.zigzag_hardware(document, path, mapping)
    if mapping is not None:
        raise _no_mapping(path, mapping)
    refuse_repeated(document)
    if stream_system.is_stream_system(document.data):
        return zigzag_hardware.stream_hardware(document, path)
    return document


def _no_mapping(path: Path, mapping: Path) -> HeadwayError:
    return HeadwayError(
        f"{path}#{mapping.name}: a mapping file belongs to an accelerator of ZigZag; found another file"
    )

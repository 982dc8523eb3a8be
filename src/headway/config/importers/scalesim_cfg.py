"""SCALE-Sim's configurations (`.cfg`) as hardware descriptions.

The sections and keys are those of SCALE-Sim 2 and 3 (configs/scale.cfg, scalesim/scale_config.py).
"""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from typing import Any, Final

from headway.config.importers.names import plain_name
from headway.config.yaml_file import Document
from headway.core.errors import HeadwayError

_ARCHITECTURE: Final = "architecture_presets"
_SIZES: Final = ("IfmapSramSzkB", "FilterSramSzkB", "OfmapSramSzkB")
# What changes nothing that is priced here: where data lie, how traces are written, how requests queue up.
_UNREAD: Final = {
    "general": {"run_name"},
    _ARCHITECTURE: {"IfmapOffset", "FilterOffset", "OfmapOffset", "MemoryBanks"}
    | {"ReadRequestBuffer", "WriteRequestBuffer", "Topology"},
    "layout": {f"{operand}{key}" for operand in ("Ifmap", "Filter") for key in (
        "CustomLayout", "SRAMBankBandwidth", "SRAMBankNum", "SRAMBankPort")},
    "sparsity": {"SparseRep", "OptimizedMapping", "BlockSize", "RandomNumberGeneratorSeed"},
    "run_presets": {"UseRamulatorTrace", "TimeLinearModel"}
    | {f"{memory}_{part}_size" for memory in ("SRAM", "DRAM") for part in ("row", "bank")},
    "network_presets": {"TopologyCsvLoc"},
}  # fmt: skip
_READ: Final = {
    _ARCHITECTURE: {"ArrayHeight", "ArrayWidth", "Dataflow", "Bandwidth", *_SIZES},
    "sparsity": {"SparsitySupport"},
    "run_presets": {"InterfaceBandwidth"},
}
_SWITCHES: Final = (
    ("layout", "IfmapCustomLayout"),
    ("layout", "FilterCustomLayout"),
    ("sparsity", "SparsitySupport"),
    ("run_presets", "UseRamulatorTrace"),
)


def read_scalesim_cfg(path: Path) -> Document:
    """The description of one core with the array, the dataflow and the SRAM of a configuration.

    The three SRAMs become one of their sum. Elements are one byte and the clock is 1 GHz, which SCALE-Sim
    does not say; all that is assumed or not read stands in `assumptions`.

    Raises HeadwayError naming section and key for whatever is missing, wrong, or without counterpart:
    sparsity, custom layouts and traces of other tools.
    """
    config = _Config(path)
    rows, columns = config.number("ArrayHeight"), config.number("ArrayWidth")
    dataflow = config.text(_ARCHITECTURE, "Dataflow").lower()
    if dataflow not in ("os", "ws", "is"):
        raise config.error(_ARCHITECTURE, "Dataflow", f"found {dataflow!r}; accepted: os, ws, is")
    for section, key in _SWITCHES:
        if config.has(section, key) and config.text(section, key).lower() not in ("false", "0", "no"):
            raise config.error(
                section,
                key,
                f"found {config.text(section, key)!r}, which has no counterpart; accepted: False",
            )
    sram = sum(config.number(key) for key in _SIZES)
    words, said = config.words_per_cycle(rows, columns)
    assumptions = [
        "elements of one byte and a clock of 1 GHz, which the file does not say",
        f"one SRAM for all operands, as large as the three together ({', '.join(_SIZES)})",
        said,
        "no overhead for starting a run or a band",
        "energies are Headway's defaults: the file has none",
    ]
    if unread := config.unread():
        assumptions.append(f"not read: {', '.join(unread)}")
    data: dict[str, Any] = {
        "name": plain_name(config.name or path.stem),
        "source": f"{path.name}, a configuration of SCALE-Sim",
        "assumptions": "; ".join(assumptions) + ".",
        "operand_bits": 8,
        "cores": [
            {
                "name": "core",
                "array": {"rows": rows, "columns": columns},
                "dataflow": dataflow,
                "clock": "1 GHz",
                "sram": f"{sram} KiB",
            }
        ],
        "dram": {"bandwidth": f"{words} GB/s"},
        "dispatch_overhead": "0 s",
        "switch_overhead": "0 s",
    }
    return Document(str(path), data)


def _spelled(key: str) -> str:
    """A key as SCALE-Sim's documentation spells it, which does not tell upper from lower case."""
    known = (name for keys in (*_READ.values(), *_UNREAD.values()) for name in keys)
    return next((name for name in known if name.lower() == key.lower()), key)


class _Config:
    """The keys of a configuration by section."""

    def __init__(self, path: Path) -> None:
        self._path = path
        parser = configparser.ConfigParser(interpolation=None)
        parser.optionxform = _spelled  # type: ignore[assignment,method-assign]  # upper and lower case are the same
        try:
            parser.read_string(path.read_text(encoding="utf-8-sig"), source=path.name)
        except UnicodeDecodeError as error:
            raise HeadwayError(f"{path}: not a text file in UTF-8 (byte {error.start})") from None
        except OSError as error:
            raise HeadwayError(f"{path}: {error.strerror or error}") from None
        except configparser.Error as error:
            raise HeadwayError(f"{path}: not a configuration: {' '.join(str(error).split())}") from None
        self._sections = {section: dict(parser[section]) for section in parser.sections()}
        if _ARCHITECTURE not in self._sections:
            raise HeadwayError(
                f"{path}: no section [{_ARCHITECTURE}]; accepted: a configuration of SCALE-Sim"
            )
        for section, values in self._sections.items():
            known = _READ.get(section, set()) | _UNREAD.get(section, set())
            for key in values:
                if key not in known:
                    raise self.error(section, key, "has no counterpart")

    @property
    def name(self) -> str:
        return self._sections.get("general", {}).get("run_name", "")

    def error(self, section: str, key: str, message: str) -> HeadwayError:
        return HeadwayError(f"{self._path}: [{section}] {key}: {message}")

    def has(self, section: str, key: str) -> bool:
        return key in self._sections.get(section, {})

    def text(self, section: str, key: str) -> str:
        if not self.has(section, key):
            raise self.error(section, key, "missing, but required")
        return self._sections[section][key].strip()

    def number(self, key: str) -> int:
        text = self.text(_ARCHITECTURE, key)
        if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
            raise self.error(_ARCHITECTURE, key, f"found {text!r}; accepted: a whole number from 1 on")
        return int(text)

    def bandwidth(self) -> int:
        """The words per cycle; where there is a list, they must be the same for all operands."""
        given = self.text(_ARCHITECTURE, "Bandwidth")
        if len({part.strip() for part in given.split(",")}) == 1:
            self._sections[_ARCHITECTURE]["Bandwidth"] = given.split(",")[0]
        return self.number("Bandwidth")

    def words_per_cycle(self, rows: int, columns: int) -> tuple[int, str]:
        """Words that pass the memory interface per cycle, and what that rests on."""
        mode = self.text("run_presets", "InterfaceBandwidth").upper()
        if mode == "USER":
            words = self.bandwidth()
            return words, f"Bandwidth of {words} words per cycle shared by reads and writes"
        if mode != "CALC":
            raise self.error("run_presets", "InterfaceBandwidth", f"found {mode!r}; accepted: USER, CALC")
        words = rows + 2 * columns
        return words, (
            f"InterfaceBandwidth CALC is a memory that never holds up the array: {words} words per cycle, "
            "all that its edges can take and give"
        )

    def unread(self) -> list[str]:
        """Keys that stand in the file and change nothing here."""
        return [
            key
            for section, values in self._sections.items()
            for key in values
            if key in _UNREAD.get(section, set()) and key != "run_name"
        ]

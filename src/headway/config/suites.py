"""Suites: a matrix of scenarios, described in one file."""

from __future__ import annotations

from functools import cache
from importlib import resources
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from headway.config.model_sets import ModelSet, named_set
from headway.config.noise import Noise
from headway.config.quantities import Duration, closest
from headway.config.scenario import MOST_REQUESTS, Scenario
from headway.config.suite_cells import (
    OWN,
    Cell,
    Terms,
    arrivals_label,
    cell_name,
    hardware_label,
    process_of,
    value_label,
)
from headway.config.validation import Name, Positive, Strict, exactly_one, mistake, validate
from headway.config.warmup import Warmup, WarmupField
from headway.config.yaml_file import Document, parse_yaml, read_yaml
from headway.core.errors import HeadwayError

MOST_CELLS = 10_000
AXES = ("models", "hardware", "qos", "loads", "arrivals", "priorities")
"""Of every suite, from the slowest to the fastest; then come the places of `over`."""

_ELSEWHERE = {"seed": "seeds", "policy": "policies", "load": "loads", "hardware": "hardware", "name": "name"}
"""Places of a scenario that a suite has a field of its own for, so that they are no places of `over`."""

_Text = Annotated[str, Field(min_length=1, max_length=256)]
_Seed = Annotated[int, Field(ge=0, lt=2**63)]
_Policy = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_:.-]{0,63}$")]


class Base(Strict):
    """Deadlines at a QoS of 1: a multiple of each model's isolated latency, or a table of published ones."""

    isolated: Positive | None = None
    table: Annotated[
        Literal["moca", "aurora", "planaria"] | None, Field(description="docs/suites.md has the tables.")
    ] = None

    @model_validator(mode="after")
    def _check(self) -> Base:
        exactly_one(self.isolated, self.table, "isolated (4.0) and table (moca)")
        return self


class Suite(Strict):
    """A matrix of scenarios: each combination of the values of its axes is a cell, and a scenario.

    All cells have the seeds and policies of the suite.
    """

    name: Name
    summary: str = ""
    models: Annotated[
        tuple[Annotated[ModelSet, BeforeValidator(named_set)], ...],
        Field(strict=False, description="Sets of models: names, or mappings with name and tenants."),
    ]
    hardware: Annotated[
        tuple[str | dict[str, Any], ...], Field(strict=False, description="Each as a scenario's hardware.")
    ]
    qos: Annotated[
        dict[_Text, Positive],
        Field(
            description="Levels by name, each with the factor for all deadlines; default: medium, 1.",
            default_factory=lambda: {"medium": 1.0},
        ),
    ]
    base: Base = Base(isolated=4.0)
    loads: Annotated[
        tuple[Positive, ...] | None, Field(strict=False, description="Each as a scenario's load.")
    ] = None
    arrivals: Annotated[
        tuple[str | dict[str, Any], ...],
        Field(
            strict=False,
            description="Each a process (poisson, uniform, mmpp, periodic, moca-streams), or a mapping of"
            " process and its fields without a rate, or own: the tenants' own.",
        ),
    ] = ("poisson",)
    priorities: Annotated[tuple[Literal["none", "prema", "moca"], ...], Field(strict=False)] = ("none",)
    over: Annotated[
        dict[_Text, Annotated[tuple[Any, ...], Field(strict=False)]],
        Field(
            description="Further axes: places of a scenario, such as hardware.dram.bandwidth, with values.",
            default_factory=dict,
        ),
    ]
    duration: Duration | None = None
    requests: Annotated[int | None, Field(ge=1, le=MOST_REQUESTS)] = None
    warmup: WarmupField = Warmup(share=0.1)
    noise: Noise = Noise()
    seeds: Annotated[tuple[_Seed, ...], Field(strict=False)]
    policies: Annotated[tuple[_Policy, ...], Field(strict=False)]

    _document: Document = PrivateAttr(default=Document("suite", {}))
    _folder: Path = PrivateAttr(default=Path())

    @model_validator(mode="after")
    def _check(self) -> Suite:
        exactly_one(self.duration, self.requests, 'duration ("2 s") and requests (1000)')
        for path in self.over:
            if path in AXES or path in _ELSEWHERE:
                own = _ELSEWHERE.get(path, path)
                raise mistake(
                    f"found {path!r}; accepted: places of a scenario that have no field of the suite,"
                    f" as {own} is for this one",
                    "over",
                    path,
                )
        axes = self._labels()
        values: dict[str, list[Any]] = {**axes, "seeds": list(self.seeds), "policies": list(self.policies)}
        for axis, labels in values.items():
            place = ("over", axis) if axis in self.over else (axis,)
            if not labels:
                raise mistake("found nothing; accepted: at least one value", *place)
            twice = next((label for number, label in enumerate(labels) if label in labels[:number]), None)
            if twice is not None:
                raise mistake(f"{str(twice)!r} is there twice; give each a name of its own", *place)
        if prod(len(labels) for labels in axes.values()) > MOST_CELLS:
            raise mistake(f"more than {MOST_CELLS} cells", "models")
        paced = (OWN, "moca-streams")
        processes = [each if isinstance(each, str) else each.get("process") for each in self.arrivals]
        if self.loads is None and any(process not in paced for process in processes):
            raise mistake("missing, but required: other arrivals than own have shares, not rates", "loads")
        return self

    @classmethod
    def load(cls, path: str | Path) -> Suite:
        """Read and check a suite file, all of its cells included.

        Raises HeadwayError naming file, and line or cell, and field for whatever is wrong.
        """
        path = Path(path)
        return cls._checked(read_yaml(path), path.parent)

    @classmethod
    def _checked(cls, document: Document, folder: Path) -> Suite:
        suite = validate(cls, document)
        suite._document, suite._folder = document, folder
        for cell in suite.cells():
            suite.scenario(cell, suite.seeds[0])
        return suite

    @property
    def runs(self) -> int:
        """How many simulations the whole suite takes."""
        cells = prod(len(labels) for labels in self._labels().values())
        return cells * len(self.seeds) * len(self.policies)

    def cells(self) -> list[Cell]:
        """All cells, always in the same order: `models` change slowest, the last of `over` fastest.

        Raises HeadwayError for a combination that makes no scenario.
        """
        axes = self._labels()
        chosen = [name for name, labels in axes.items() if len(labels) > 1] or ["models"]
        cells: dict[str, Cell] = {}
        for point in product(*(range(len(labels)) for labels in axes.values())):
            at = dict(zip(axes, point, strict=True))
            parts = [_part(axis, axes[axis][at[axis]]) for axis in chosen]
            coordinates = {
                "load" if axis == "loads" else axis: labels[at[axis]] for axis, labels in axes.items()
            }
            changes = {place: values[at[place]] for place, values in self.over.items()}
            name = cell_name(parts)
            if name in cells:  # values that differ only in what a name cannot have
                name = cell_name([name, str(len(cells))])
            cells[name] = Cell(name, coordinates, self._cell(at), changes)
        return list(cells.values())

    def scenario(self, cell: Cell, seed: int) -> Scenario:
        """A cell as a scenario, under the first of the suite's policies.

        Raises HeadwayError naming suite, cell and field for whatever a scenario cannot have.
        """
        data = {"name": cell.name, "seed": seed, "policy": self.policies[0], **cell.document}
        scenario = Scenario.from_mapping(data, self._folder, name=f"{self._document.name}: cell {cell.name}")
        try:
            return scenario.with_overrides(cell.changes) if cell.changes else scenario
        except HeadwayError as error:
            raise HeadwayError(f"{self._document.where(('over',))}: {error}") from None

    def cell(self, name: str) -> Cell:
        """The cell of that name. Raises HeadwayError, naming the nearest, if there is none."""
        cells = {cell.name: cell for cell in self.cells()}
        if name not in cells:
            raise HeadwayError(
                f"{self._document.name}: no cell named {name!r}{closest(name, cells)};"
                f" accepted: {', '.join(list(cells)[:8])}{', ...' if len(cells) > 8 else ''}"
            )
        return cells[name]

    def _labels(self) -> dict[str, list[str | float | None]]:
        """The values of each axis, as coordinates have them, from the slowest axis to the fastest."""
        return {
            "models": [models.name for models in self.models],
            "hardware": [hardware_label(hardware) for hardware in self.hardware],
            "qos": list(self.qos),
            "loads": [None] if self.loads is None else list(self.loads),
            "arrivals": [arrivals_label(arrivals) for arrivals in self.arrivals],
            "priorities": list(self.priorities),
            **{place: [value_label(value) for value in values] for place, values in self.over.items()},
        }

    def _cell(self, at: dict[str, int]) -> dict[str, Any]:
        """The scenario of one point, without name, seed, policy and what `over` changes."""
        arrivals = process_of(
            self.arrivals[at["arrivals"]], self._document.where(("arrivals", at["arrivals"]))
        )
        streams: dict[str, Any] = {}
        if arrivals is not None and arrivals["process"] == "moca-streams":
            streams = {field: value for field, value in arrivals.items() if field != "process"}
        terms = Terms(
            isolated=self.base.isolated,
            table=self.base.table,
            qos=list(self.qos.values())[at["qos"]],
            arrivals=arrivals,
            priorities=self.priorities[at["priorities"]],
            where=self._document.where(("models", at["models"])),
        )
        length = self.model_dump(
            mode="json", include={"duration", "requests", "warmup", "noise"}, exclude_none=True
        )
        return {
            "hardware": self.hardware[at["hardware"]],
            **length,
            **({} if self.loads is None else {"load": self.loads[at["loads"]]}),
            **({"streams": streams} if streams else {}),
            "tenants": terms.tenants(self.models[at["models"]]),
        }


def _part(axis: str, label: str | float | None) -> str:
    """What a cell's name says of one axis."""
    if axis == "loads":
        return f"load{label}"
    if axis in AXES:
        return str(label)
    return f"{axis.rpartition('.')[2]}{label}"


def load_suite(path_or_name: str | Path) -> Suite:
    """A suite from its file, or one that is shipped by its name.

    Raises HeadwayError for a name that is unknown, and with file, line or cell, and field for whatever is
    wrong in a file.
    """
    name = str(path_or_name)
    if isinstance(path_or_name, Path) or name.endswith((".yaml", ".yml")) or "/" in name or "\\" in name:
        return Suite.load(path_or_name)
    known = _shipped()
    if name not in known:
        raise HeadwayError(
            f"no suite named {name!r}{closest(name, known)}; accepted: {', '.join(known)}, or a path that"
            " ends in .yaml"
        )
    return Suite._checked(parse_yaml(known[name], f"suite {name}"), Path())


def suite_names() -> tuple[str, ...]:
    """The suites that are shipped, sorted."""
    return tuple(_shipped())


@cache
def _shipped() -> dict[str, str]:
    """The text of each shipped suite by its name, which is its file's name."""
    # By way of the root package: the configuration does not import the workload.
    folder = resources.files("headway") / "workload" / "suites"
    texts = {
        entry.name.removesuffix(".yaml"): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".yaml")
    }
    return dict(sorted(texts.items()))

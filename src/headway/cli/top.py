"""`headway top`: a server's tenants, lanes and models in the terminal."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headway.cli.fitted_table import Column, FittedTable
from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

DEFAULT_URL: Final = "http://127.0.0.1:8002"
SNAPSHOT_PATH: Final = "/ui/snapshot"
TIMEOUT_S: Final = 5.0
LEAST_EVERY_S: Final = 0.2

_BAR_WIDTH: Final = 24
_SHOWN: Final = (
    *("name", "policy", "live", "ready", "faults", "window_s", "all", "lanes"),
    *("tenants", "tenants_left_out", "models", "models_left_out"),
)
"""Parts of the snapshot that are figures; the others are for the page."""

Snapshot = dict[str, Any]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("top")(top_command)


def top_command(
    url: Annotated[
        str, typer.Argument(metavar="[URL]", help="Where the server takes control.")
    ] = DEFAULT_URL,
    once: Annotated[bool, typer.Option("--once", help="Print it once and end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: one line each time, or once with --once.")
    ] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=LEAST_EVERY_S, help="Between two looks.")
    ] = 1.0,
) -> None:
    """Show what a server does: SLA attainment and latencies by tenant, lanes, models.

    All figures are of the last minute. Ctrl-C ends it.
    """
    from rich.console import Console

    if once:
        _print(read(url), as_json, Console())
    else:
        _watch(url, as_json, every)


def read(url: str) -> Snapshot:
    """A server's figures. Raises HeadwayError if there is no server, or something else answers."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    base = url if "://" in url else f"http://{url}"
    if not base.startswith(("http://", "https://")):
        raise HeadwayError(f"{url}: not an address of HTTP; accepted: {DEFAULT_URL} or the like")
    try:
        with urlopen(base.rstrip("/") + SNAPSHOT_PATH, timeout=TIMEOUT_S) as answer:
            found = json.loads(answer.read())
        return {name: found[name] for name in _SHOWN}
    except HTTPError as error:
        cause = f"answers {error.code} to {SNAPSHOT_PATH}"
    except URLError as error:
        reason = error.reason
        cause = f"cannot be reached: {getattr(reason, 'strerror', None) or reason}"
    except (OSError, HTTPException) as error:
        cause = f"cannot be reached: {getattr(error, 'strerror', None) or error or type(error).__name__}"
    except (ValueError, KeyError, TypeError):
        cause = "answers something else than figures"
    raise HeadwayError(f"{url}: {cause}; accepted: the control port's address of `headway serve`")


def _watch(url: str, as_json: bool, every_s: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    snapshot = read(url)
    if as_json or not console.is_terminal:
        while True:
            _print(snapshot, as_json, console)
            time.sleep(every_s)
            snapshot = read(url)
    with Live(screen(snapshot), console=console, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(every_s)
            try:
                snapshot, lost = read(url), ""
            except HeadwayError as error:  # it may come back
                lost = str(error)
            live.update(screen(snapshot, lost), refresh=True)


def _print(snapshot: Snapshot, as_json: bool, console: Console) -> None:
    if as_json:
        print(json.dumps(snapshot, separators=(",", ":")), flush=True)
    else:
        console.print(screen(snapshot))


# --- tables ------------------------------------------------------------------------------------------


def screen(snapshot: Snapshot, lost: str = "") -> RenderableType:
    """All of it as tables; `lost` says why figures are no longer new."""
    from rich.console import Group
    from rich.text import Text

    state = "ready" if snapshot["ready"] else "not ready" if snapshot["live"] else "has ended by a defect"
    total = snapshot["all"]
    head = Text.assemble(
        (_plain(snapshot["name"]), "bold"),
        f"  {state}  policy {_plain(snapshot['policy'])}",
        f"  SLA met {_percent(total['attainment'])}",
        f"  {total['per_s']:.1f} requests/s  {total['queue']} unanswered",
        f"  last {snapshot['window_s']:.0f} s",
    )
    parts: list[RenderableType] = [head]
    if snapshot["faults"]:
        parts.append(Text(f"the policy failed {snapshot['faults']} times", style="yellow"))
    if lost:
        parts.append(Text(f"connection lost: {_plain(lost)}", style="bold red"))
    parts += [_lanes(snapshot["lanes"]), _tenants(snapshot), _models(snapshot)]
    return Group(*parts)


def _lanes(lanes: list[Snapshot]) -> RenderableType:
    from rich.text import Text

    lines = []
    names_width = max((len(_plain(lane["name"])) for lane in lanes), default=0)
    for lane in lanes:
        filled = round(_BAR_WIDTH * lane["busy"])
        bar = "█" * filled + "·" * (_BAR_WIDTH - filled)
        lines.append(f"{_plain(lane['name']):<{names_width}} {bar} {_percent(lane['busy'])}")
    return Text("\n".join(lines))


def _tenants(snapshot: Snapshot) -> RenderableType:
    from rich.text import Text

    table = FittedTable(
        Column("tenant", is_text=True),
        Column("SLA", 2, is_text=True),
        Column("met"),
        Column("p50 ms", 3),
        Column("p99 ms", 1),
        Column("req/s", 4),
        Column("queue", 1),
        Column("late", 5),
        Column("shed", 6),
        Column("rejected", 8),
        Column("failed", 7),
    )
    for tenant in snapshot["tenants"]:
        counts = tenant["counts"]
        met, target = tenant["attainment"], tenant["target"]
        missed = met is not None and target is not None and met < target
        table.add_row(
            _plain(tenant["name"]),
            _plain(tenant["sla"] if tenant["strict"] else f"{tenant['sla']} (best effort)".strip()),
            Text(_percent(met), style="red" if missed else "green" if met is not None else ""),
            _number(tenant["p50_ms"]),
            _number(tenant["p99_ms"]),
            f"{tenant['per_s']:.1f}",
            str(tenant["queue"]),
            str(counts["late"] + counts["expired"]),
            str(counts["shed"]),
            str(counts["rejected"]),
            str(counts["failed"]),
        )
    return _with_rest(table, snapshot["tenants_left_out"], "tenants")


def _models(snapshot: Snapshot) -> RenderableType:
    table = FittedTable(
        Column("model", is_text=True),
        Column("state", is_text=True),
        Column("tier", 5),
        Column("alone ms", 4),
        Column("p50 ms", 2),
        Column("p99 ms", 1),
        Column("req/s", 3),
        Column("actual/predicted", 6),
    )
    for model in snapshot["models"]:
        ratio, tier = model["ratio"], model["tier"]
        table.add_row(
            _plain(f"{model['name']}/{model['version']}" if model["version"] else model["name"]),
            _plain(model["state"].lower()),
            "" if tier is None else f"C{tier}",
            _number(model["alone_ms"]),
            _number(model["p50_ms"]),
            _number(model["p99_ms"]),
            f"{model['per_s']:.1f}",
            "" if ratio is None else f"{ratio['middle']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})",
        )
    return _with_rest(table, snapshot["models_left_out"], "models")


def _with_rest(table: FittedTable, left_out: int, what: str) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    if not left_out:
        return table
    return Group(table, Text(f"{left_out} more {what}, to which less happened", style="dim"))


def _plain(text: str) -> str:
    """A server's text without what a terminal would take for a command."""
    return "".join(each if each.isprintable() else "�" for each in text)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"

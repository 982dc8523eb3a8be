"""`headway serve`: models on this machine's lanes behind the Open Inference Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.common import PolicyFile, load_policies
from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    from headway.config.serving import Serving

NO_PORT = -1

ServingFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="[SCENARIO]",
        help="What to serve (YAML): models, tenants with keys and SLAs, a repository; `headway schema"
        " serving` describes it. A scenario's tenants can be served too, without keys.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("serve")(serve_command)


def serve_command(
    scenario: ServingFile = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="NAME=PATH", help="An .onnx file or a zoo model. Repeatable."),
    ] = None,
    sla: Annotated[
        list[str] | None,
        typer.Option("--sla", metavar="NAME=TIME", help="That model's deadline: camera=50ms. Repeatable."),
    ] = None,
    repository: Annotated[
        Path | None,
        typer.Option("--repository", metavar="DIR", help="A folder with NAME/VERSION/model.onnx."),
    ] = None,
    hardware: Annotated[
        str, typer.Option("--hardware", help="Lanes, where there is no scenario.")
    ] = "cpu-lanes",
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="NAME", help="Instead of the scenario's.", show_default=False),
    ] = None,
    policy_file: PolicyFile = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Where to take inferences; 0.0.0.0 is everywhere.")
    ] = None,
    http_port: Annotated[
        int | None, typer.Option("--http-port", min=NO_PORT, max=65535, help="0: any free one, -1: none.")
    ] = None,
    grpc_port: Annotated[
        int | None, typer.Option("--grpc-port", min=NO_PORT, max=65535, help="0: any free one, -1: none.")
    ] = None,
    control_port: Annotated[
        int | None, typer.Option("--control-port", min=NO_PORT, max=65535, help="0: any free one, -1: none.")
    ] = None,
    control_host: Annotated[
        str | None,
        typer.Option("--control-host", help="Where to take control; by default 127.0.0.1."),
    ] = None,
) -> None:
    """Serve models on this machine's lanes over HTTP and gRPC, each tenant by its SLA.

    SIGTERM (or Ctrl-C) answers what is there and ends; a second one ends at once. SIGHUP reads the scenario
    again: tenants, keys, SLAs and models change without a request being dropped.
    """
    from headway.cli.serve_loop import run

    load_policies(policy_file)
    changes: dict[str, Any] = {"policy": policy} if policy else {}
    listen = {
        "host": host,
        "http": http_port,
        "grpc": grpc_port,
        "control": control_port,
        "control_host": control_host,
    }
    changed = {key: None if value == NO_PORT else value for key, value in listen.items() if value is not None}
    if changed:
        changes["listen"] = changed
    if scenario is None:
        serving = _of_options(model, sla, repository, hardware, changes)
        raise typer.Exit(run(serving, None))
    if model or sla or repository:
        raise HeadwayError(
            "found a scenario and --model, --sla or --repository; accepted: either, since a scenario names"
            " its models"
        )
    raise typer.Exit(run(_of_file(scenario, changes), lambda: _of_file(scenario, changes)))


def _of_file(path: Path, changes: dict[str, Any]) -> Serving:
    from headway.config.serving import Serving

    return Serving.load(path, changes)


def _of_options(
    models: list[str] | None,
    slas: list[str] | None,
    repository: Path | None,
    hardware: str,
    changes: dict[str, Any],
) -> Serving:
    from headway.config.serving import ANONYMOUS, Serving

    data: dict[str, Any] = {"hardware": hardware, **changes}
    if models:
        pairs = [_pair("--model", given) for given in models]
        data["models"] = [{"name": name, "model": path} for name, path in pairs]
    if repository is not None:
        data["repository"] = {"path": str(repository)}
    promised = {name: {"deadline": time} for name, time in (_pair("--sla", given) for given in slas or [])}
    data["tenants"] = [{"name": ANONYMOUS, "slas": promised}]
    return Serving.from_mapping(data, name="headway serve")


def _pair(option: str, given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name or not value:
        raise HeadwayError(f"{option}: found {given!r}; accepted: NAME=VALUE")
    return name, value

"""What the HTML pages share: each is one file with style, plots and data inside, which needs no network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headway.record.results import finite

if TYPE_CHECKING:
    from markupsafe import Markup

Filters = Mapping[str, Callable[..., Any]]
"""Of a template, by name."""


def render_page(name: str, data: Any, filters: Filters, /, **fields: Any) -> str:
    """The page `name` as text.

    Args:
        name: of the template `NAME.html.j2` and of its script `NAME.js`, which `page.js` precedes.
        data: plain data for the script.
        filters: of the template.
        fields: what else the template shows; one that it lacks is an error.
    """
    import jinja2
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    loader = jinja2.PackageLoader("headway.record", "templates")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters

    def asset(file: str) -> str:
        return loader.get_source(environment, file)[0]

    return environment.get_template(f"{name}.html.j2").render(
        style=Markup(asset("report.css")),
        script=Markup(asset("page.js") + asset(f"{name}.js")),
        plotly=Markup(get_plotlyjs()),
        data=script_json(data),
        **fields,
    )


def script_json(value: Any) -> Markup:
    """JSON for a script element: no character in it can end the element or start another."""
    from markupsafe import Markup

    text = json.dumps(finite(value), separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))

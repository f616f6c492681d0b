"""The command line: parse, build a configuration, call. No logic lives here."""

from __future__ import annotations

import sys

import typer

from agentix import __version__
from agentix.cli.ab import ab
from agentix.cli.bench import bench
from agentix.cli.calibrate import calibrate
from agentix.cli.demo import demo
from agentix.cli.engines import engines
from agentix.cli.key import key
from agentix.cli.offline import offline
from agentix.cli.recommend import recommend
from agentix.cli.record import record
from agentix.cli.report import report
from agentix.cli.serve import serve
from agentix.cli.simulate import simulate
from agentix.cli.top import top
from agentix.core.errors import AgentixError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Serving for LLM agents that schedules whole programs, not single requests.",
)
app.command("serve")(serve)
app.command("demo")(demo)
app.command("key")(key)
app.command("top")(top)
app.command("bench")(bench)
app.command("offline")(offline)
app.command("simulate")(simulate)
app.command("calibrate")(calibrate)
app.command("ab")(ab)
app.command("report")(report)
app.command("record")(record)
app.command("recommend")(recommend)
app.add_typer(engines, name="engines")


@app.command("version")
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Entry point of `agentix`: what cannot start or go on ends it with one message and status 2."""
    sys.path.insert(0, "")  # a user's own policy by dotted path is usually a file in the current directory
    try:
        app()
    except AgentixError as error:
        sys.stderr.write(f"agentix: {error}\n")
        sys.exit(2)

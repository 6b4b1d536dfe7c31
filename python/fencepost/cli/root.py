"""The commands under one name, and the one place where an error becomes a line and a code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

import click
from click.core import ParameterSource

import fencepost
from fencepost.cli.dashboard import dashboard
from fencepost.cli.database import Database
from fencepost.cli.dead import dead
from fencepost.cli.demo import demo
from fencepost.cli.inbox import inbox
from fencepost.cli.ingest import ingest
from fencepost.cli.lane import lane
from fencepost.cli.look import check, list_, show, stats
from fencepost.cli.operate import backup, cancel, limit, pause, prune, restore, resume
from fencepost.cli.outbox import outbox
from fencepost.cli.output import complain
from fencepost.cli.watch import health, metrics, top
from fencepost.cli.work import work
from fencepost.cli.workflow import workflow


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--database",
    envvar="FENCEPOST_DATABASE",
    metavar="PATH",
    help="The file. Also: FENCEPOST_DATABASE in the environment.",
)
@click.version_option(package_name="fencepost", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context, database: str | None) -> None:
    """Durable jobs, outbox, inbox and workflows in one SQLite file."""
    named = context.get_parameter_source("database") is ParameterSource.COMMANDLINE
    context.obj = Database(database, named=named)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(2)


LOOKING = (stats, health, check, top, metrics, list_, show, dashboard)
GROUPS = (dead, outbox, inbox, lane, workflow)
DOING = (work, ingest, cancel, pause, resume, limit, prune, backup, restore, demo)
for command in (*LOOKING, *GROUPS, *DOING):
    cli.add_command(command)


def _usage(error: click.UsageError) -> str:
    if error.ctx is None:
        return error.format_message()
    path = error.ctx.command_path
    if isinstance(error, click.NoSuchOption) and error.option_name == "--database":
        name, _, command = path.partition(" ")
        return f"--database stands before the command: {name} --database PATH {command}"
    return f"{error.format_message()} (see: {path} --help)"


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit code. Whatever goes wrong is told in one line on stderr."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that knows ASCII only
    try:
        code = cli.main(list(arguments), prog_name="fencepost", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        complain(_usage(error))
        return 2
    except click.ClickException as error:
        complain(error.format_message())
        return 1
    except (click.Abort, KeyboardInterrupt):
        complain("interrupted")
        return 1
    except BrokenPipeError:
        # The reader has seen enough. The interpreter must not stumble over the same pipe again
        # when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return 1
    except fencepost.Error as error:
        complain(str(error))
        return 1
    return code if isinstance(code, int) else 0

"""``archiver platform``: install, start and stop platforms on this machine."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from archiver.platforms import registry, servers
from archiver.platforms.programs import PROGRAMS, install
from archiver.values import version
from archiver.values.errors import PlatformError, UsageError

_PROGRAMS = sorted(PROGRAMS)
_NAMES = sorted([servers.EMBEDDED, *PROGRAMS])


@click.group()
def platform() -> None:
    """Platforms on this machine: the embedded store, and others at pinned versions, which it installs.

    \b
    Example:
        archiver platform list
    """


@platform.command("install")
@click.argument("names", nargs=-1, type=click.Choice(_PROGRAMS))
def install_command(names: tuple[str, ...]) -> None:
    """Install NAMES (all without one) into the cache folder; minutes, once.

    What cannot be installed is named with the reason; the rest is installed, and the exit status is 3.

    \b
    Example:
        archiver platform install versitygw
    """
    missing = []
    for name in names or _PROGRAMS:
        try:
            click.echo(f"{name} {PROGRAMS[name].version}: {install(name)}")
        except PlatformError as failed:
            click.echo(f"archiver: {failed}", err=True)
            missing.append(name)
    if missing:
        raise PlatformError(f"not installed: {', '.join(missing)}; the other platforms can be used")


@platform.command()
@click.argument("name", type=click.Choice(_NAMES))
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Its folder  [default: in the home]")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="On loopback  [default: a free one]")
def start(name: str, data: Path | None, port: int) -> None:
    """Start NAME on loopback until `archiver platform stop NAME`.

    Its credentials are throw-away ones, those of the embedded store are that store's own. They are kept in Archiver's
    home, readable by you only; `archiver platform environment NAME` prints them.

    \b
    Example:
        archiver platform start minio
    """
    with registry.starting(name):
        server = servers.start(name, (data if data is not None else registry.folder_of(name)).absolute(), port=port)
        registry.add(server)
    click.echo(f"{name} listens on {server.endpoint} (process {server.pid}), data in {server.folder}\n")
    click.echo(f'  use it    eval "$(archiver platform environment {name})"')
    click.echo(f"            archiver run dr550 --quick --endpoint {server.endpoint}")
    if server.tsm is not None:
        click.echo(
            f"            TSM sessions: {server.tsm.host} port {server.tsm.port}, node {server.tsm.node}; its password"
            f" is in {server.folder / 'nodes.json'}"
        )
    click.echo(f"  stop it   archiver platform stop {name}")


@platform.command()
@click.argument("name", type=click.Choice(_NAMES))
def environment(name: str) -> None:
    """Print the variables with which any client uses NAME, its credentials among them, for `eval`.

    AWS_* for S3 clients; for TSM programs DSMI_DIR and DSMI_CONFIG, which name option files with address and node.

    \b
    Example:
        archiver platform environment minio
    """
    entry = registry.entry(name)
    if not entry.is_up():
        raise PlatformError(f"{name} is not up; start it: archiver platform start {name}")
    server = entry.server
    click.echo(f"export AWS_ENDPOINT_URL={server.endpoint} AWS_DEFAULT_REGION=us-east-1")
    click.echo(f"export AWS_ACCESS_KEY_ID={server.access.access_key} AWS_SECRET_ACCESS_KEY={server.access.secret_key}")
    if server.tsm is not None:
        folder = registry.tsm_options_folder(name)
        click.echo(f"export DSMI_DIR={shlex.quote(str(folder))} DSMI_CONFIG={shlex.quote(str(folder / 'dsm.opt'))}")


@platform.command()
@click.argument("name", type=click.Choice(_NAMES))
def stop(name: str) -> None:
    """Stop NAME; its data stays.

    \b
    Example:
        archiver platform stop minio
    """
    entry = registry.entry(name)
    was_up = entry.stop()
    click.echo(f"{name}: {'stopped' if was_up else 'had ended before'}; its data is in {entry.server.folder}")


@platform.command("list")
def list_command() -> None:
    """The platforms: installed or not, up or not.

    \b
    Example:
        archiver platform list
    """
    for name in _NAMES:
        if name == servers.EMBEDDED:
            shown, where = version.VERSION, "built in"
        else:
            program = PROGRAMS[name]
            shown = program.version
            where = str(program.path) if program.path.exists() else "not installed: archiver platform install " + name
        click.echo(f"{name:<10} {shown:<38} {_state(name):<32} {where}")


def _state(name: str) -> str:
    try:
        known = registry.find(name)
    except UsageError as damaged:
        click.echo(f"archiver: {damaged}", err=True)
        return "not known whether up"
    return f"up on {known.server.endpoint}" if known is not None and known.is_up() else "not up"

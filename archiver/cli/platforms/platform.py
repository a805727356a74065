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
    """Install, start and stop platforms on this machine.

    Platforms are the embedded store, and others at pinned versions. `archiver platform list` has their names.

    \b
    Example:
        archiver platform list
    """


@platform.command("install")
@click.argument("names", nargs=-1, type=click.Choice(_PROGRAMS), metavar="[NAME]...")
def install_command(names: tuple[str, ...]) -> None:
    """Install platforms into the cache folder, once, in minutes.

    `archiver platform list` has the names. Without one, all are installed. If one cannot be installed, the reason is
    printed, the others are installed, and the exit status is 3.

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
@click.argument("name", type=click.Choice(_NAMES), metavar="NAME")
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), help="Folder for its data  [default: in $ARCHIVER_HOME]"
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="TCP port on loopback  [default: a free port]")
def start(name: str, data: Path | None, port: int) -> None:
    """Start a platform on loopback.

    It runs until `archiver platform stop NAME`. Its credentials are temporary; the embedded store has its own. They are
    kept in ARCHIVER_HOME, readable only by you. `archiver platform environment NAME` prints them.

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
@click.argument("name", type=click.Choice(_NAMES), metavar="NAME")
def environment(name: str) -> None:
    """Print a platform's environment variables, for `eval`.

    Any client can use the platform with them. They include its credentials. AWS_* are for S3 clients. DSMI_DIR and
    DSMI_CONFIG are for TSM programs, and name option files with address and node.

    \b
    Example:
        archiver platform environment minio
    """
    entry = registry.entry(name)
    if not entry.is_up():
        raise PlatformError(f"{name} is not running; start it: archiver platform start {name}")
    server = entry.server
    click.echo(f"export AWS_ENDPOINT_URL={server.endpoint} AWS_DEFAULT_REGION=us-east-1")
    click.echo(f"export AWS_ACCESS_KEY_ID={server.access.access_key} AWS_SECRET_ACCESS_KEY={server.access.secret_key}")
    if server.tsm is not None:
        folder = registry.tsm_options_folder(name)
        click.echo(f"export DSMI_DIR={shlex.quote(str(folder))} DSMI_CONFIG={shlex.quote(str(folder / 'dsm.opt'))}")


@platform.command()
@click.argument("name", type=click.Choice(_NAMES), metavar="NAME")
def stop(name: str) -> None:
    """Stop a platform and keep its data.

    \b
    Example:
        archiver platform stop minio
    """
    entry = registry.entry(name)
    was_up = entry.stop()
    click.echo(f"{name}: {'stopped' if was_up else 'was not running'}; its data is in {entry.server.folder}")


@platform.command("list")
def list_command() -> None:
    """List the platforms: installed or not, running or not.

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
        return "unknown whether it runs"
    return f"up on {known.server.endpoint}" if known is not None and known.is_up() else "not up"

"""``archiver platform``: install, start and stop real platforms on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from archiver.errors import PlatformError, UsageError
from archiver.rig import registry, servers
from archiver.rig.programs import PROGRAMS, install

_NAMES = sorted(PROGRAMS)


@click.group()
def platform() -> None:
    """Real platforms on this machine: MinIO and versitygw, at pinned versions.

    \b
    Example:
        archiver platform list
    """


@platform.command("install")
@click.argument("names", nargs=-1, type=click.Choice(_NAMES))
def install_command(names: tuple[str, ...]) -> None:
    """Build NAMES (all without one) with the Go toolchain, into the cache folder; minutes, once.

    \b
    Example:
        archiver platform install versitygw
    """
    for name in names or _NAMES:
        click.echo(f"{name} {PROGRAMS[name].version}: {install(name)}")


@platform.command()
@click.argument("name", type=click.Choice(_NAMES))
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Its folder  [default: in the home]")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="On loopback  [default: a free one]")
def start(name: str, data: Path | None, port: int) -> None:
    """Start NAME on loopback, with throw-away credentials, until `archiver platform stop NAME`.

    Prints the environment to use; the credentials are kept in Archiver's home, readable by you only.

    \b
    Example:
        archiver platform start minio
    """
    for known in registry.entries():
        if known.server.name == name and known.is_up():
            raise UsageError(f"{name} is up already on {known.server.endpoint}; stop it: archiver platform stop {name}")
    server = servers.start(name, (data if data is not None else registry.folder_of(name)).absolute(), port=port)
    registry.add(server)
    click.echo(f"{name} listens on {server.endpoint} (process {server.pid}), data in {server.folder}\n")
    click.echo(f'  use it    eval "$(archiver platform environment {name})"')
    click.echo(f"            archiver run dr550 --quick --endpoint {server.endpoint}")
    click.echo(f"  stop it   archiver platform stop {name}")


@platform.command()
@click.argument("name", type=click.Choice(_NAMES))
def environment(name: str) -> None:
    """Print the variables with which any S3 client uses NAME, its credentials among them, for `eval`.

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


@platform.command()
@click.argument("name", type=click.Choice(_NAMES))
def stop(name: str) -> None:
    """Stop NAME; its data stays.

    \b
    Example:
        archiver platform stop minio
    """
    entry = registry.entry(name)
    entry.stop()
    click.echo(f"{name}: stopped; its data is in {entry.server.folder}")


@platform.command("list")
def list_command() -> None:
    """The platforms: installed or not, up or not.

    \b
    Example:
        archiver platform list
    """
    up = {each.server.name: each.server for each in registry.entries() if each.is_up()}
    for name in _NAMES:
        program = PROGRAMS[name]
        where = str(program.path) if program.path.exists() else "not installed: archiver platform install " + name
        state = f"up on {up[name].endpoint}" if name in up else "not up"
        click.echo(f"{name:<10} {program.version:<38} {state:<32} {where}")

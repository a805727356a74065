"""`archiver serve`: run the embedded WORM store by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from archiver.cli.parameters import DURATION
from archiver.machine.home import store_dir
from archiver.values.errors import UsageError
from archiver.values.sizes import format_bytes
from backends.embedded.core.placement import catalogue_folder
from backends.embedded.core.rules import policy
from backends.embedded.core.store import Statistics
from backends.embedded.s3 import credentials
from backends.embedded.s3.server import METRICS_PATH
from backends.embedded.server import ListenAddresses, Settings, is_loopback
from backends.embedded.server import serve as run_store
from backends.embedded.tsm import nodes as nodes_file
from backends.embedded.tsm.incoming import OBJECTS_MAX
from backends.tsm.library.configuration import read_password


@click.command()
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the store; it is made if it is missing.  [default: store in $ARCHIVER_HOME]",
)
@click.option(
    "--catalogue-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of a new store's catalogue, for example on another disk; the store remembers it.  [default: --data]",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9000,
    show_default=True,
    help="TCP port of the S3 server; 0 takes a free port.",
)
@click.option(
    "--tsm-port",
    type=click.IntRange(0, 65535),
    default=1500,
    show_default=True,
    help="TCP port of the TSM server; 0 takes a free port.",
)
@click.option(
    "--credential",
    "requests",
    multiple=True,
    metavar="NAME[:without=RIGHT,...]",
    help="Make another credential, without these rights: bypass, retention, hold, delete; repeat for several.",
)
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Make another TSM node; repeat for several.")
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Give the node of --node the password in the first line of this file, of at least 8 characters.",
)
@click.option(
    "--password-expires",
    type=DURATION,
    help="Let the passwords of nodes expire this long after they were set: sign-on then returns 52.  [default: never]",
)
@click.option(
    "--txn-group-max",
    type=click.IntRange(4, OBJECTS_MAX),
    default=OBJECTS_MAX,
    show_default=True,
    help="Accept at most this many objects in a TSM transaction; many servers have 256.",
)
@click.option(
    "--management-class",
    "management_classes",
    multiple=True,
    metavar="NAME:retver=DURATION[,...]",
    help="Define a class, or make one stricter: retver=30d|nolimit, retinit=creation|event, retmin=10d; "
    "repeat for several.",
)
@click.option(
    "--tls-certificate",
    type=click.Path(dir_okay=False, path_type=Path),
    help="PEM file of the certificate; both servers then accept only TLS.",
)
@click.option(
    "--tls-key", type=click.Path(dir_okay=False, path_type=Path), help="PEM file of the certificate's private key."
)
def serve(
    data: Path | None,
    catalogue_dir: Path | None,
    host: str,
    port: int,
    tsm_port: int,
    requests: tuple[str, ...],
    nodes: tuple[str, ...],
    password_file: Path | None,
    password_expires: float | None,
    txn_group_max: int,
    management_classes: tuple[str, ...],
    tls_certificate: Path | None,
    tls_key: Path | None,
) -> None:
    """Run the embedded WORM store until Ctrl-C.

    It serves S3 with Object Lock and TSM sessions, and keeps its data on this machine's disk.

    \b
    Example:
        archiver serve --data /tmp/worm-store --port 0 --tsm-port 0

    On first use the store makes a random access key and secret, and the TSM node ARCHIVER with a random password. It
    keeps them in credentials.json and nodes.json in its folder, readable only by their owner, and never prints a
    secret.

    Every store has the management classes STANDARD (the default, 5 minutes from archiving on), SHORT (10 seconds), NONE
    (expires at once) and EVENT (until an event, at least 5 minutes). A class can be made stricter, never weaker.

    With --tls-certificate both servers accept only TLS. S3 clients use https. A stanza of dsm.sys needs SSL YES and,
    for Archiver's TSM library, SSLCAFILE with the PEM file of the authority that signed the certificate.

    The store refuses writes while less than 256 MiB of the device are free, and prints when that begins and ends. A
    store that was made with --catalogue-dir remembers that folder, and does not start if the folder is missing. A
    catalogue cannot be moved.
    """
    folder = data if data is not None else store_dir()
    if password_file is not None and len(nodes) != 1:
        raise UsageError("--password-file: name the one node that gets the password with --node")
    passwords = {nodes[0]: read_password(password_file, "--password-file")} if password_file is not None else {}
    if not is_loopback(host) and tls_certificate is None:
        click.echo(
            f"warning: {host} can be reached from other machines: objects are not encrypted on the way, only"
            " signatures and passwords are protected; --tls-certificate and --tls-key encrypt both servers.",
            err=True,
        )

    def ready(addresses: ListenAddresses, held: Statistics) -> None:
        endpoint = addresses.endpoint
        click.echo(f"The embedded WORM store in {folder} listens on {endpoint}; stop it with Ctrl-C.\n")
        click.echo(
            f"  holds         {held.objects} objects, {format_bytes(held.bytes)};"
            f" {format_bytes(held.free_bytes)} of its device are free, {format_bytes(held.reserve_bytes)} of that"
            " kept in reserve"
        )
        click.echo(f"  credentials   {folder / credentials.FILE_NAME}")
        if (catalogue := catalogue_folder(folder)) != folder:
            click.echo(f"  catalogue     {catalogue}")
        click.echo(f"  statistics    {endpoint}/-/statistics; as Prometheus text {endpoint}{METRICS_PATH}")
        click.echo(f"  use it        export AWS_ENDPOINT_URL={endpoint} AWS_DEFAULT_REGION=us-east-1")
        click.echo("                and AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY from the credentials file")
        click.echo(
            f"  TSM sessions  {addresses.tsm_host} port {addresses.tsm_port}, nodes in {folder / nodes_file.FILE_NAME}"
        )
        sys.stdout.flush()

    classes = [policy.parse_request(each) for each in management_classes]
    settings = Settings(
        data=folder,
        host=host,
        port=port,
        tsm_port=tsm_port,
        credentials=requests,
        nodes=nodes,
        node_passwords=passwords,
        password_seconds_max=password_expires,
        objects_per_transaction_max=txn_group_max,
        management_classes=classes,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        catalogue_dir=catalogue_dir,
    )
    run_store(settings, ready)

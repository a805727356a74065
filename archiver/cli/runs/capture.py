"""`archiver capture`: record the S3 traffic of any client as a trace."""

from __future__ import annotations

import sys
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path

import click
import uvloop

from archiver.traces.capture import proxy
from archiver.traces.capture.journal import LeftJournal, journal_path
from archiver.values.errors import RunFailed, UsageError
from backends.s3.endpoints import tls_context


@click.command()
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--listen", metavar="ADDRESS:PORT", default="127.0.0.1:0", show_default=True,
              help="Address for clients; port 0 takes a free port.")  # fmt: skip
@click.option("--upstream", metavar="URL", help="URL of the store that gets the requests.")
@click.option(
    "--ca-bundle", metavar="PATH", help="PEM file of certificate authorities for the upstream  [default: the system's]"
)
@click.option("--insecure", is_flag=True, help="Do not verify the upstream's certificate.")
@click.option("--beyond-loopback", is_flag=True, help="Allow --listen on an address that other machines can reach.")
@click.option("--recover", is_flag=True, help="Make OUT from the journal of a killed capture, and capture nothing.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
def capture(
    out: Path,
    listen: str,
    upstream: str | None,
    ca_bundle: str | None,
    insecure: bool,
    beyond_loopback: bool,
    recover: bool,
    overwrite: bool,
) -> None:
    """Record S3 traffic in a trace until Ctrl-C, as a proxy.

    Passes requests on to --upstream unchanged, and writes them to the trace OUT.

    \b
    Example:
        archiver capture --listen 127.0.0.1:9100 --upstream http://127.0.0.1:9000 application.parquet

    Clients only need another endpoint. Signatures stay valid, because nothing is changed. This includes the Host
    header, which is signed: the upstream sees the address that the client used. MinIO, versitygw, the embedded store
    and most other stores accept that. If a store requires its own name as Host (Amazon, virtual hosts), its clients can
    use the capture as HTTP_PROXY, with an endpoint of http://, for example HTTP_PROXY=http://127.0.0.1:9100 and
    --endpoint-url http://s3.eu-central-1.amazonaws.com. The capture itself uses TLS to the upstream if --upstream is
    https://.

    The capture does not store bodies and never writes signatures or tokens. It writes object names; `archiver trace
    anonymise` replaces them. If it is killed, OUT.journal has everything except the last quarter of a second, and
    --recover makes the trace from it.
    """
    if out.exists() and not overwrite:
        raise UsageError(f"{out} exists already; name another file, or use --overwrite")
    if recover:
        _make_trace(out, overwrite=overwrite)
        return
    if upstream is None:
        raise UsageError("--upstream is missing: give the URL of the store, for example http://127.0.0.1:9000")
    host, port = _address(listen, beyond_loopback=beyond_loopback)
    store = proxy.upstream_of(upstream, tls_context(ca_bundle, insecure))

    def ready(taken: int) -> None:
        at = f"[{host}]:{taken}" if ":" in host else f"{host}:{taken}"
        click.echo(f"listens on http://{at}, forwards everything to {store.url}; stop it with Ctrl-C.")
        sys.stdout.flush()

    outcome = uvloop.run(proxy.capture(host, port, store, journal_path(out), ready))
    _make_trace(out, overwrite=overwrite)
    _tell(outcome)
    if outcome.fault is not None:
        raise RunFailed(f"{out} ends before the traffic did: {outcome.fault}")


def _address(listen: str, *, beyond_loopback: bool) -> tuple[str, int]:
    """Return host and port to listen on. Raises UsageError."""
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen {listen}: not an address; write it like 127.0.0.1:9100")
    if not beyond_loopback and not _is_loopback(host):
        raise UsageError(
            f"--listen {listen}: other machines could use this address, and what they send to the proxy is not "
            "encrypted; add --beyond-loopback to allow that"
        )
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _make_trace(out: Path, *, overwrite: bool) -> None:
    with closing(LeftJournal(journal_path(out))) as journal:
        info = journal.make_trace(out, overwrite=overwrite)
        click.echo(f"{out}: {info.operations:,} operations of {info.streams:,} clients")
        if journal.half_lines:
            click.echo("warning: the journal ended in half a line, which is left out", err=True)


def _tell(outcome: proxy.CaptureResult) -> None:
    """Print the facts that the trace's numbers do not show."""
    if outcome.cut_off:
        click.echo(
            f"warning: {outcome.cut_off:,} operations had not ended when the capture ended, and are cut off", err=True
        )
    if outcome.refused:
        click.echo(f"warning: for {outcome.refused:,} connections the upstream could not be reached", err=True)
    if outcome.unreadable:
        click.echo(
            f"warning: {outcome.unreadable:,} connections carried something else than HTTP/1.1; it was passed on, and "
            "the trace has one operation `other` for each",
            err=True,
        )

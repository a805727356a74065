"""``archiver bundle``: one file for confirming a published result independently."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from archiver.cli.completion import run_names
from archiver.machine.home import find_run
from archiver.values.errors import ResultsError, UsageError
from archiver.values.sizes import format_bytes
from results.bundle import audit, evidence
from results.bundle.attestations import Attestations, Trusted, attest, check_attestations
from results.document.files import json_text
from results.recorded.run import RecordedRun, opened


@click.group()
def bundle() -> None:
    """Make and verify files that confirm a published result.

    \b
    Example:
        archiver bundle --help
    """


@bundle.command("make")
@click.argument("run", shell_complete=run_names)
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--worm",
    metavar="RUN|FILE",
    help="ZIP: add the conformance evidence of the same platform: a run of archiver worm, or a file made from one.",
)
@click.option(
    "--prices",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="ZIP: add the price. TOML file of the platform's priced parts; see docs/planning.md.",
)
@click.option(
    "--trace",
    "traces",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="ZIP: add this trace, which the run replayed; repeat for several. Other traces are identified "
    "by their SHA-256.",
)
@click.option(
    "--sign",
    "key",
    metavar="KEY",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Sign the manifest with this OpenSSH key. ssh-keygen asks for its passphrase or uses the agent.",
)
@click.option(
    "--timestamp",
    "authority_url",
    metavar="URL",
    help="Get a timestamp of the manifest's hash from the RFC 3161 authority at this URL.",
)
def make_command(
    run: str,
    out: Path,
    worm: str | None,
    prices: Path | None,
    traces: Sequence[Path],
    key: Path | None,
    authority_url: str | None,
) -> None:
    """Write a file with which others can confirm RUN.

    An OUT that ends in .zip gets the run's database, results, report, environment and traces, and a manifest of their
    hashes; docs/audit-bundles.md describes it. An OUT that ends in .json gets every request and answer of the checks of
    a conformance run (`archiver worm`). RUN is a run's id, its folder, its database, or `latest`.

    \b
    Example:
        archiver bundle make latest audit.zip
    """
    if out.exists():
        raise ResultsError(f"{out} already exists; name another file")
    if out.suffix not in (".zip", ".json"):
        raise UsageError(f"{out}: name it .zip for an audit bundle, or .json for the evidence of a conformance run")
    attesting = partial(attest, key=key, authority_url=authority_url)
    with opened(find_run(run)) as recorded:
        if out.suffix == ".zip":
            _make_audit_bundle(recorded, out, worm, prices, traces, attesting)
        elif worm is not None or prices is not None or traces:
            raise UsageError(f"{out}: --worm, --prices and --trace go into a bundle; name it .zip")
        else:
            made = evidence.attested(evidence.make_evidence(recorded), attesting)
            evidence.write_evidence(made, out)
            click.echo(f"{out}: {len(made['manifest'])} parts, sha256 {made['sha256']}")


@bundle.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--signer",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Require a signature by a key in this file of OpenSSH public keys or allowed signers.",
)
@click.option(
    "--timestamp-certificate",
    "authority",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Require a timestamp by an authority with this root certificate (PEM).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON document.")
def verify(file: Path, signer: Path | None, authority: Path | None, as_json: bool) -> None:
    """Verify that a bundle is unchanged and consistent.

    Checks that nothing in FILE was changed, and that its results follow from its database. A signature proves who
    vouches for FILE. A timestamp proves that FILE existed at that time. Neither proves that the measurement was honest.

    \b
    Example:
        archiver bundle verify audit.zip

    Exit status: 0 confirmed; 1 FILE was changed, or lacks what an option requires, and each problem is named; 2 FILE is
    not a bundle.
    """
    try:
        with file.open("rb") as opened:
            begins = opened.read(2)
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    if begins == audit.BEGINS_WITH:
        _verify_audit_bundle(file, Trusted(signer, authority), as_json)
    elif begins[:1] == b"{":
        _verify_evidence(file, Trusted(signer, authority), as_json)
    else:
        raise UsageError(f"{file}: is not a bundle: neither a ZIP file nor the JSON of archiver bundle make")


def _make_audit_bundle(
    recorded: RecordedRun,
    out: Path,
    worm: str | None,
    prices: Path | None,
    traces: Sequence[Path],
    attesting: Callable[[bytes], Attestations],
) -> None:
    from archiver.cli.answers.audit_bundle import make_audit_bundle

    content = _evidence_of(worm) if worm is not None else None
    if content is not None:
        evidence.check_same_platform(recorded.run.platform, evidence.whole_evidence(content, str(worm)))
    made = make_audit_bundle(recorded, out, evidence=content, prices=prices, traces=traces, attest=attesting)
    click.echo(
        f"{out}: {made.files} files, {format_bytes(out.stat().st_size)}; confirmed as archiver bundle verify does"
    )
    if made.left_out:
        click.echo(f"not computed again: {made.left_out}")
    held = {audit.sha256_of(trace) for trace in traces}
    replayed = [result.replayed for result in recorded.results if result.replayed is not None]
    for name in sorted({each.trace for each in replayed if each.sha256 in held and not each.anonymised}):
        click.echo(f"{name} is in it and not anonymised: it has the names of objects")
    click.echo(f"publish this with the report: sha256 {made.sha256}")


def _evidence_of(run_or_file: str) -> bytes:
    """Return the evidence in a file, or of a run."""
    path = Path(run_or_file)
    if path.is_file() and path.suffix == ".json":
        return path.read_bytes()
    with opened(find_run(run_or_file)) as recorded:
        return evidence.evidence_text(evidence.make_evidence(recorded)).encode()


def _verify_audit_bundle(file: Path, trusted: Trusted, as_json: bool) -> None:
    from archiver.cli.answers.audit_bundle import NEVER_CONFIRMED, verify_audit_bundle

    found = verify_audit_bundle(file, trusted)
    if as_json:
        _print_json(
            format=audit.FORMAT,
            sha256=found.sha256,
            run=found.run,
            wrong=list(found.wrong),
            confirmed=list(found.confirmed),
            not_checked=list(found.not_checked),
            left_out=found.left_out,
            never_confirmed=list(NEVER_CONFIRMED),
        )
        sys.exit(1 if found.wrong else 0)
    if found.wrong:
        raise ResultsError("\n  ".join((f"{file}: is not confirmed:", *found.wrong)))
    click.echo(f"{file}: {found.files} files of run {found.run}, sha256 {found.sha256}")
    _print_lists(found.confirmed, found.not_checked)
    if found.left_out:
        click.echo(f"  not computed again, so only the hashes are confirmed: {found.left_out}")
    for each in NEVER_CONFIRMED:
        click.echo(f"  cannot be confirmed: {each}")


def _verify_evidence(file: Path, trusted: Trusted, as_json: bool) -> None:
    try:
        checked = evidence.verify_evidence(file)
        attested = evidence.attestations_of(checked)
    except ResultsError as error:
        if not as_json:
            raise
        _print_json(format=evidence.FORMAT, sha256="", run="", wrong=[str(error)], confirmed=[], not_checked=[])
        sys.exit(error.exit_status)
    found = check_attestations(evidence.manifest_text(checked), attested, trusted)
    summary = checked["parts"]["summary"]
    if as_json:
        parts = "every part is as the manifest names it, and there is no other"
        _print_json(
            format=evidence.FORMAT, sha256=checked["sha256"], run=summary["run"], wrong=list(found.wrong),
            confirmed=[parts, *found.confirmed], not_checked=list(found.not_checked),
        )  # fmt: skip
        sys.exit(1 if found.wrong else 0)
    if found.wrong:
        raise ResultsError("\n  ".join((f"{file}: is not confirmed:", *found.wrong)))
    click.echo(
        f"{file}: whole; {len(checked['manifest'])} parts, sha256 {checked['sha256']}; "
        f"{len(summary['checks'])} checks of {summary['platform']['name']}, {summary['violations']} violations"
    )
    _print_lists(found.confirmed, found.not_checked)


def _print_lists(confirmed: Sequence[str], not_checked: Sequence[str]) -> None:
    for each in confirmed:
        click.echo(f"  confirmed: {each}")
    for each in not_checked:
        click.echo(f"  not checked: {each}")


def _print_json(**found: Any) -> None:
    click.echo(json_text(found), nl=False)

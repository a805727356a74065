"""The watch source ``prometheus:URL``: any server with Prometheus metrics, and a file that maps their names.

One idea: a names file maps Archiver's quantities to metrics of the endpoint, so that a new kind of endpoint needs a
TOML file and no code. node_exporter.toml next to this module is the default and an example.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from math import inf

import msgspec

from archiver.values.errors import UsageError
from archiver.values.typed import typed
from archiver.watch.source import Source, WatchError
from backends.exposition import Labels, MetricsAddress, ScrapeError, Series
from results.recorded.resources import QUANTITIES, Reading

_LOOKED_FOR_SHOWN = 3
# The keys of a rule, and their formats.
_WRITTEN = {
    "metric": 'write metric = "name", or metric = ["name", "other"] for their sum',
    "where": 'write where = { label = "value" }, or a list of values for any of them',
    "item": 'write item = "label"',
    "minus": 'write minus = "name"',
    "factor": "write a number above 0",
}


class MetricRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Rule to compute one quantity from the series of a page."""

    metric: str | tuple[str, ...]  # several are added
    where: dict[str, str | tuple[str, ...]] = {}  # label -> required value, or several allowed values
    item: str | tuple[str, ...] = ()  # the label whose value is the item; several are joined with a space
    minus: str = ""  # a metric to subtract, with the same labels
    factor: float = 1.0

    def metrics(self) -> tuple[str, ...]:
        """Return every metric that the rule uses."""
        return (*_several(self.metric), *((self.minus,) if self.minus else ()))

    def values(self, series: Series) -> dict[str, float]:
        """Return the value of each item, without incomplete items and impossible values."""
        parts = [self._sums(series, metric) for metric in _several(self.metric)]
        less = self._sums(series, self.minus) if self.minus else {}
        values = {
            item: (sum(part[item] for part in parts) - less.get(item, 0.0)) * self.factor
            for item in parts[0]
            if all(item in part for part in parts) and (not self.minus or item in less)
        }
        return {item: value for item, value in values.items() if 0 <= value < inf}  # the comparison is False for NaN

    def _sums(self, series: Series, metric: str) -> dict[str, float]:
        sums: dict[str, float] = {}
        names = _several(self.item)
        for labels, value in series.get(metric, ()):
            if self._matches(labels) and all(name in labels for name in names):
                item = " ".join(labels[name] for name in names)
                sums[item] = sums.get(item, 0.0) + value
        return sums

    def _matches(self, labels: Labels) -> bool:
        return all(labels.get(label) in _several(wanted) for label, wanted in self.where.items())


Names = Mapping[str, MetricRule]  # by quantity


class PrometheusSource(Source):
    """One page of metrics, read by the rules of a names file."""

    def __init__(
        self,
        url: str,
        names: Traversable | None = None,
        token: str | None = None,
        *,
        ca_bundle: str | None = None,
        insecure: bool = False,
        direct: bool = False,
    ) -> None:
        """``names`` is a names file; None: node_exporter's. Raises UsageError for an invalid file or URL."""
        self.name = f"prometheus:{url}"
        self._names = read_names(names if names is not None else builtin("node_exporter"))
        self._address = MetricsAddress(url, token, ca_bundle=ca_bundle, insecure=insecure, direct=direct)

    def read(self) -> Reading:
        try:
            series = self._address.scrape(metrics_of(self._names))
        except ScrapeError as error:
            raise WatchError(f"{self.name}: {error.reason}") from error
        reading = read_by(self._names, series)
        if not reading:
            raise WatchError(f"{self.name}: {_nothing_found(self._names, series)}")
        return reading


def builtin(name: str) -> Traversable:
    """Return a names file that is part of Archiver."""
    return files("archiver.watch").joinpath(f"{name}.toml")


def read_names(path: Traversable) -> Names:
    """Read the rules of a names file. Raises UsageError with file, key and remedy."""
    try:
        return _names(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error


def metrics_of(names: Names) -> frozenset[str]:
    """Return every metric that the rules use."""
    return frozenset(metric for rule in names.values() for metric in rule.metrics())


def read_by(names: Names, series: Series) -> dict[str, dict[str, float]]:
    """Return the quantities that these series have."""
    reading = {quantity: rule.values(series) for quantity, rule in names.items()}
    return {quantity: values for quantity, values in reading.items() if values}


def _names(text: str, where: str) -> Names:
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number may be too long, a list too deep
        raise UsageError(f"{where}: not TOML: {error}") from error
    if not document:
        raise UsageError(f'{where}: is empty; write a table for each quantity: [cpu_user_seconds] with metric = "..."')
    for quantity in document:
        if quantity not in QUANTITIES:
            raise UsageError(f"{where}: {quantity}: there is no such quantity{_suggest(quantity, QUANTITIES)}")
    return {quantity: _rule(table, f"{where}: {quantity}") for quantity, table in document.items()}


def _rule(table: object, where: str) -> MetricRule:
    try:
        rule = typed(table, MetricRule)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {_explained(str(error))}") from error
    if not all(rule.metrics()) or not _several(rule.metric):
        raise UsageError(f"{where}: metric: is empty; {_WRITTEN['metric']}")
    if not 0 < rule.factor < inf:
        raise UsageError(f"{where}: factor: {rule.factor} is not possible; {_WRITTEN['factor']}")
    return rule


def _explained(message: str) -> str:
    """Reorder msgspec's message about a table: the key first, the remedy last."""
    unknown = re.search(r"unknown field `(.*?)`", message)
    if unknown:
        return f"unknown key {unknown[1]!r}{_suggest(unknown[1], _WRITTEN)}"
    what, _, place = message.partition(" - at `$")
    key = re.split(r"[.\[`]", place.lstrip("."))[0]
    if key in _WRITTEN:
        return f"{key}: {what}; {_WRITTEN[key]}"
    return f"{what}; {_WRITTEN['metric']} in a table of that quantity"


def _several(one_or_more: str | tuple[str, ...]) -> tuple[str, ...]:
    return (one_or_more,) if isinstance(one_or_more, str) else one_or_more


def _suggest(given: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(given, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known here: {', '.join(sorted(known))}"


def _nothing_found(names: Names, series: Series) -> str:
    if series:
        metric = sorted(series)[0]
        quantity, rule = next((quantity, rule) for quantity, rule in names.items() if metric in rule.metrics())
        labels = sorted({*rule.where, *_several(rule.item)})
        return (
            f"{metric} exists, but no series of it gives {quantity} (labels "
            f"{', '.join(labels) or 'none'}{'; minus ' + rule.minus if rule.minus else ''}); correct the names file"
        )
    wanted = list(dict.fromkeys(metric for rule in names.values() for metric in rule.metrics()))
    more = ", ..." if len(wanted) > _LOOKED_FOR_SHOWN else ""
    return (
        f"the page has none of the required metrics ({', '.join(wanted[:_LOOKED_FOR_SHOWN])}{more}); check the "
        "endpoint; if its metrics have other names, map these in a names file"
    )

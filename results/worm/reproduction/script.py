"""Generation of a reproduction as a standalone script, which needs only Python and botocore."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from textwrap import fill
from urllib.parse import quote

from results.worm.reproduction.evidence import Reproduction, Request

_DATE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)?")
_DAY = re.compile(r"(?<![\w/-])\d{4}-\d\d-\d\d\b(?!T)")
_YEARS_MAX = 150  # a date further away is a constant, not relative to the run
_KEY_ENDING = re.compile(r"((?:/|%2F)\d{3}-)[0-9a-f]{8}")  # random suffix of a check's key
_WAIT_SECONDS_MIN = 1.0  # shorter pauses are no deliberate waits of the check
_RACE_ATTEMPTS = 2000
_RACE_SECONDS_MAX = 300
_LINE_CHARACTERS = 110
_CANNOT_TELL = """import os
import sys


def cannot_tell(_kind: object, error: BaseException, _trace: object) -> None:
    print(f"CANNOT TELL: {error!r}", flush=True)
    os._exit(125)


sys.excepthook = cannot_tell
"""
_MARK = "\ue000"  # around a name inside a text


def script_text(reproduction: Reproduction, title: str, harm: str = "") -> str:
    """Return the script; ``harm`` is that of its finding in plain words.

    It exits with 1 if the finding was seen again, 0 if not, 125 if that cannot be decided.
    """
    writer = _Writer(reproduction)
    is_race = len(reproduction.attempt) > 1
    race = f"any(attempt() for _ in range({_RACE_ATTEMPTS}) if time.monotonic() < end)"
    body = [
        *(['LIMITED = botocore.session.Session(profile=os.environ["LIMITED_PROFILE"])'] if writer.senders else []),
        *writer.lines(),
        "",
        "",
        *([f"end = time.monotonic() + {_RACE_SECONDS_MAX}"] if is_race else []),
        f"found = {race if is_race else 'attempt()'}",
        'print("SEEN AGAIN" if found else "NOT SEEN")',
        "sys.exit(1 if found else 0)",
    ]
    head = [
        "#!/usr/bin/env python3",
        f'"""{_in_docstring(title)}',
        "",
        *([*fill(_in_docstring(harm), _LINE_CHARACTERS).split("\n"), ""] if harm else []),
        "Needs Python 3.11 and botocore, AWS_ENDPOINT_URL, and credentials in AWS's variables or profile.",
        *(
            [
                f"LIMITED_PROFILE names a profile {' and '.join(writer.senders)}. It has all other rights to objects.",
                "BUCKET may name a bucket with Object Lock in which that profile has these rights.",
            ]
            if writer.senders
            else []
        ),
        "Exit status: 1 seen again; 0 not seen; 125 cannot tell (the values that git bisect run expects).",
        "The script creates a bucket and does not delete it.",
        '"""',
        "",
        _CANNOT_TELL,
    ]
    return "\n".join(head) + _with_prelude("\n".join(body)) + "\n"


def _in_docstring(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', "'")


def _with_prelude(body: str) -> str:
    """Return the script's body, preceded by the functions that it calls and the necessary imports."""
    prelude = files(__package__).joinpath("prelude.py").read_text(encoding="utf-8").partition('"""\n')[2]
    top, *functions = prelude.rstrip().split("\n\n\ndef ")
    imports, _, constants = top.rpartition("\n\n")
    used: list[str] = []
    for function in reversed(functions):  # a function calls only functions before it
        if f"{function.partition('(')[0]}(" in "\n".join([body, *used]):
            used.insert(0, f"def {function}")
    text = "\n\n\n".join([constants, *used, body])
    lines = [_import_of(line, text) if line else "" for line in imports.split("\n")]
    return "\n".join(line for line in lines if line is not None) + f"\n\n{text}"


def _import_of(line: str, text: str) -> str | None:
    """Return an import of the names that the text uses, or None if it uses none.

    The head of a script already imports os and sys.
    """
    start, names = line.rsplit("import ", 1)
    used = [name for name in names.split(", ") if re.search(rf"\b{re.escape(name)}\b", text)]
    return f"{start}import {', '.join(used)}" if used and names not in ("os", "sys") else None


class _Writer:
    """Writer of the requests as Python. Values that differ in each run become variables."""

    def __init__(self, reproduction: Reproduction) -> None:
        self._of = reproduction
        limited = {each.bucket for each in reproduction.requests if each.sender and each.signature == "header"}
        # The second profile may need rights in its bucket, so that the user can name one.
        self._requests = [each for each in reproduction.requests if not (each.makes_bucket and each.bucket in limited)]
        self._before = [each for each in reproduction.before if each in self._requests]
        self._start = datetime.fromtimestamp(int(self._requests[0].at), UTC)
        self._buckets = {name: f"bucket{number}" for number, name in enumerate(_buckets(self._requests), 1)}
        self._made = {each.bucket for each in self._requests if each.makes_bucket}
        self._values: dict[str, str] = {}  # server-generated value -> variable
        self._bodies: dict[str, str] = {}  # hash of a body -> variable
        self._dates: dict[str, str] = {}  # expression of a date -> variable
        sent = [text for each in self._requests for text in (*dict(each.headers).values(), each.body.decode("latin-1"))]
        self._days = {day for text in sent for day in _DAY.findall(text)}  # dates without a time

    @property
    def senders(self) -> list[str]:
        """The rights that the second profile must lack."""
        return list(dict.fromkeys(each.sender for each in self._requests if each.sender and each.signature == "header"))

    def lines(self) -> list[str]:
        """Return the lines that create shared buckets, and the function that sends every request."""
        steps = self._steps()
        outside: list[str] = []
        inside = [
            '"""Return whether the finding was seen."""',
            "start, n = now(), secrets.token_hex(4)",
        ]
        for name, variable in self._buckets.items():
            if name in self._made:
                inside.append(f'{variable} = f"reproduction-{{n}}-{variable}"')
                continue
            lock = '(("x-amz-bucket-object-lock-enabled", "true"),)'
            if self.senders:
                outside.append(f'{variable} = os.environ.get("BUCKET", "")')
                outside.append(f"if not {variable}:")
            indent = "    " if self.senders else ""
            outside.append(f'{indent}{variable} = f"reproduction-{{secrets.token_hex(8)}}"')
            outside.append(f'{indent}needed("200", send("PUT", f"/{{{variable}}}", {lock}))')
            if self.senders:
                outside.append(f"if not stores({variable}, LIMITED):")
                outside.append(
                    '    print("CANNOT TELL: LIMITED_PROFILE may not PUT here; let BUCKET name a bucket where it may")'
                )
                outside.append("    sys.exit(125)")
        inside += [f"{variable} = {expression}" for expression, variable in self._dates.items()]
        return [*outside, "", "", "def attempt() -> bool:", *(f"    {line}" for line in [*inside, *steps])]

    def _steps(self) -> list[str]:
        lines: list[str] = []
        decisive: list[str] = []
        together: list[list[str]] = []
        is_race = len(self._of.attempt) > 1
        for number, request in enumerate(self._requests, 1):
            prepares, attempts = number <= len(self._before), request in self._of.attempt
            lines += self._wait(number)
            call = self._call(request, self._body(request, number, lines), need=prepares)
            if is_race and attempts:
                together.append([f"lambda: {call[0]}", *call[1:]])
                if len(together) < len(self._of.attempt):
                    continue
                numbers = range(number - len(together) + 1, number + 1)
                names = ", ".join(f"a{each}" for each in numbers)
                calls = [f"    {line}" for each in together for line in [*each[:-1], f"{each[-1]},"]]
                lines += [f"{names} = together(", *calls, ")"]
                if not self._of.state_changed:
                    decisive += [f'a{each}["status"] == "{request.status}"'
                                 for each, request in zip(numbers, self._of.attempt, strict=True)]  # fmt: skip
                continue
            lines += [f"a{number} = {call[0]}", *call[1:], *self._saved(request, number)]
            only_finds = request.finds_versions and request is not self._requests[-1]
            if not prepares and not only_finds and not (attempts and self._of.state_changed):
                exactly = ", 0" if self._shows_sent_dates(number) else ""
                decisive.append(f"shows(a{number}, {self._shown(request)}{exactly})")
        if (altered := self._of.altered) is not None:
            earlier, later = (self._requests.index(each) + 1 for each in (altered.earlier, altered.later))
            decisive.append(f'a{earlier}.get("{altered.header}") != a{later}.get("{altered.header}")')
        return [*lines, "return (", *(f"    {each} and" for each in decisive[:-1]), f"    {decisive[-1]}", ")"]

    def _wait(self, number: int) -> list[str]:
        """Return the line that waits as long as the check waited before this request; empty if it did not wait.

        In a race the check waited for other pairs, except before the date of a lock.
        """
        request = self._requests[number - 1]
        if len(self._of.attempt) > 1 and (
            request.position > self._of.attempt[-1].position
            or not any(_instants(value) for each in self._before for _, value in each.headers)
        ):
            return []
        previous = self._requests[number - 2] if number > 1 else request
        if request.at - previous.at - previous.seconds < _WAIT_SECONDS_MIN:
            return []
        after = request.at - self._start.timestamp()
        return [f"time.sleep(max(0.0, start.timestamp() + {after:.3f} - time.time()))"]

    def _body(self, request: Request, number: int, lines: list[str]) -> str:
        """Assign the body to a variable and return the variable's name; empty without a body."""
        if not request.body_bytes:
            return ""
        # Binary bodies are random bytes. Other bytes of the same length replace them.
        text = self._text(request.body.decode("latin-1")) if request.body_is_text else f'"x" * {request.body_bytes}'
        lines.append(f"body{number} = {text}")
        self._bodies[request.body_sha256] = f"body{number}"
        return f"body{number}"

    def _call(self, request: Request, body: str, *, need: bool) -> list[str]:
        """Return the lines of one call."""
        headers, unsigned = (
            [f"({self._text(name)}, {self._header(name, value, request, body)}),"
             for name, value in request.headers if (name in request.unsigned_headers) == is_unsigned]
            for is_unsigned in (False, True)
        )  # fmt: skip
        words = [self._text(request.method), self._target(request)]
        words += [f"({' '.join(headers)})"] if headers or body else []
        words += [body] if body else []
        words += ["by=None"] if request.signature != "header" else ["by=LIMITED"] if request.sender else []
        words += [f"unsigned=({' '.join(unsigned)})"] if unsigned else []
        opened, closed = (f'needed("{request.status}", send(', "))") if need else ("send(", ")")
        line = f"{opened}{', '.join(words)}{closed}"
        if len(line) < _LINE_CHARACTERS or not headers:
            return [line]
        rest = f", {', '.join(words[3:])}" if words[3:] else ""
        return [f"{opened}{', '.join(words[:2])}, (", *(f"    {header}" for header in headers), f"){rest}{closed}"]

    def _target(self, request: Request) -> str:
        """Return the expression of path and query. The script signs a presigned URL again."""
        if request.signature != "url":
            return self._text(request.target, in_target=True)
        path, _, query = request.target.partition("?")
        signed, _, added = query.partition("&X-Amz-Signature=")
        words = [word for word in signed.split("&") if not word.startswith("X-Amz-")]
        headers = "".join(f"({self._text(name)}, {self._text(value)})," for name, value in request.signed_headers)
        target = self._text(f"{path}{'?' if words else ''}{'&'.join(words)}", in_target=True)
        url = f"presigned({self._text(request.method)}, {target}, ({headers}))"
        more = added.partition("&")[2]
        return url + (f" + {self._text('&' + more)}" if more else "")

    def _header(self, name: str, value: str, request: Request, body: str) -> str:
        """Return the expression of a header. The script recomputes a body's MD5 unless the check sent a wrong one."""
        right = base64.b64encode(hashlib.md5(request.body, usedforsecurity=False).digest()).decode()
        if name.lower() == "content-md5" and body and (value == right or not request.body_is_text):
            return f"md5({body})"
        return self._text(value, in_target=name.lower() == "x-amz-copy-source")

    def _saved(self, request: Request, number: int) -> list[str]:
        """Return assignments of the server-generated values that a later request needs."""
        lines = []
        later = self._requests[number:]
        for value, (name, which) in request.values.items():
            if value in self._values or not any(each.names([value]) for each in later):
                continue
            kind = {"x-amz-version-id": "version", "VersionId": "version", "UploadId": "upload"}.get(name, "etag")
            variable = f"{kind}{sum(each.startswith(kind) for each in self._values.values()) + 1}"
            self._values[value] = variable
            found = f'a{number}.get("{name}", "none")'
            lines.append(f"{variable} = {found}" + (f'.split(",")[{which}]' if which else ""))
        return lines

    def _shown(self, request: Request) -> str:
        """Return the expression of the values that the response must have for the finding to be seen."""
        shown = request.shown
        if self._of.check.verdict == "FAIL" and request.reads:  # only the state matters, not its error code
            shown.pop("Code", None)
        if request.method == "GET" and request.position not in self._of.finding.attempt:  # HEAD shows the lock
            shown = {name: value for name, value in shown.items() if not name.startswith("x-amz-object-lock-")}
        words = [f'"{name}": {self._text(value) if value is not None else None}' for name, value in shown.items()]
        body = self._bodies.get(request.answer_sha256)
        if body is not None and request.method == "GET":
            words.append(f'"body": {body}')
        return "{" + ", ".join(words) + "}"

    def _shows_sent_dates(self, number: int) -> bool:
        """Return whether the response shows dates that earlier requests sent, so that they recur exactly."""
        sent = [
            instant
            for request in self._requests[:number]
            for text in (*(value for _, value in request.headers), request.body.decode("latin-1"))
            for instant in _instants(text)
        ]
        shown = [instant for value in self._requests[number - 1].shown.values() for instant in _instants(value or "")]
        return (
            all(any(abs((each - other).total_seconds()) < 1.0 for other in sent) for each in shown) if shown else False
        )

    def _text(self, text: str, *, in_target: bool = False) -> str:
        """Return the expression of a text, with variables for values that differ in each run."""
        for value, variable in sorted({**self._buckets, **self._values}.items(), key=lambda each: -len(each[0])):
            name = f"{_MARK}{{q({variable})}}{_MARK}" if in_target and value in self._values else None
            for form in {value, quote(value, safe="-_.~")}:
                text = text.replace(form, name or f"{_MARK}{{{variable}}}{_MARK}")
        text = _KEY_ENDING.sub(rf"\1{_MARK}{{n}}{_MARK}", text)
        text = _DAY.sub(lambda match: self._day(match[0]), _DATE.sub(self._date, text))
        if _MARK not in text:
            return _quoted(text)
        pieces = text.split(_MARK)
        pieces[::2] = [piece.replace("{", "{{").replace("}", "}}") for piece in pieces[::2]]
        return "f" + _quoted("".join(pieces))

    def _date(self, match: re.Match[str]) -> str:
        if match[0][:10] in self._days:
            return self._day(match[0][:10]) + match[0][10:]
        instant = datetime.fromisoformat(match[1] + "Z")
        is_past_day = instant < self._start and match[1].endswith("T00:00:00")  # of a rule for whole days
        if abs(instant.year - self._start.year) > _YEARS_MAX or is_past_day:
            return match[0]
        fraction = match[2] or ""
        seconds = (instant - self._start).total_seconds()
        digits = min(len(fraction) - 1, 6) if fraction else 0
        expression = f"date(start, {seconds:.0f}{fraction or ''}"
        if fraction and seconds < 0:
            expression = f"date(start, {seconds + float(fraction):.6f}"
        expression += f", {digits})" if digits != 3 else ")"
        variable = self._dates.setdefault(expression, f"date{len(self._dates) + 1}")
        return f"{_MARK}{{{variable}}}{_MARK}{match[3] or ''}"

    def _day(self, text: str) -> str:
        """Return the expression of a date without a time."""
        days = (datetime.fromisoformat(text).date() - self._start.date()).days
        variable = self._dates.setdefault(f"date(start, {days * 86_400})[:10]", f"date{len(self._dates) + 1}")
        return f"{_MARK}{{{variable}}}{_MARK}"


def _instants(text: str) -> list[datetime]:
    return [datetime.fromisoformat(match[1] + "Z") + timedelta(seconds=float(match[2] or 0))
            for match in _DATE.finditer(text)]  # fmt: skip


def _quoted(text: str) -> str:
    """Return the text as a Python literal in double quotes if that needs no escapes."""
    return f'"{text}"' if text.isprintable() and '"' not in text and "\\" not in text else repr(text)


def _buckets(requests: Sequence[Request]) -> list[str]:
    return list(dict.fromkeys(request.bucket for request in requests))

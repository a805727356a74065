"""A proxy on loopback that injects the faults of networks and of broken servers.

One idea: it reads whole messages (an HTTP reply, a frame of the TSM server) and passes each of them to a fault, which
decides what the client receives. ``asks`` chooses a fault by the request, before the server gets it; ``answers``
chooses by the reply, ``frames`` by the frame. Without them it is a plain TCP proxy for any protocol, which can delay
the bytes of both directions:

    with FaultProxy(server_port, delay_seconds=0.05) as proxy:
        connect_to(proxy.port)
"""

from __future__ import annotations

import re
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from types import TracebackType

HANG_SECONDS = 60.0  # reached only if a test hangs
FRAME_HEAD_BYTES = 8
_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*(\d+)")
_CHUNKED = re.compile(rb"(?im)^transfer-encoding:[ \t]*chunked")
_EXPECTS = re.compile(rb"(?im)^expect:[ \t]*100-continue")


@dataclass(frozen=True, slots=True)
class Message:
    """A message in transit: the head of an HTTP request, an HTTP reply, or a frame of the TSM server."""

    connection: int  # from 0, in the order in which the proxy accepted them
    data: bytes  # head and body
    head_bytes: int  # length of the head within ``data``
    asked: bytes = b""  # HTTP only: the first line of the request, "PUT /bucket/key HTTP/1.1"

    @property
    def kind(self) -> int:
        """The type of a TSM frame."""
        return self.data[4]


class Side:
    """The client's end of a connection, as faults use it."""

    def __init__(self, sock: socket.socket, over: threading.Event) -> None:
        self._sock = sock
        self._over = over  # the proxy is being stopped
        self.is_gone = False

    def send(self, data: bytes) -> None:
        """Send these bytes. Set ``is_gone`` if the client has closed the connection."""
        try:
            self._sock.sendall(data)
        except OSError:
            self.is_gone = True

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the proxy is stopped."""
        if self._over.wait(seconds):
            self.is_gone = True

    def finish(self) -> None:
        """Close with a FIN: the client reads everything that was sent, then the end of the stream."""
        self.is_gone = True
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)
        self.outlast()

    def reset(self) -> None:
        """Close with a TCP reset."""
        self.is_gone = True
        with suppress(OSError):
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()

    def outlast(self) -> None:
        """Send nothing more until the client closes the connection."""
        self.is_gone = True
        with suppress(OSError):
            while self._sock.recv(1 << 16):
                pass

    def sip(self, seconds: float) -> None:
        """Read one byte of what the client sends every ``seconds``, and send nothing."""
        with suppress(OSError):
            while not self.is_gone and self._sock.recv(1):
                self.wait(seconds)
        self.is_gone = True


Fault = Callable[[Side, Message], None]
Chooser = Callable[[Message], Fault | None]
Place = Callable[[Message], int]  # how many bytes of a message pass before the fault


def nothing_of(message: Message) -> int:
    return 0


def half_the_head(message: Message) -> int:
    return message.head_bytes // 2


def half_the_body(message: Message) -> int:
    return message.head_bytes + (len(message.data) - message.head_bytes) // 2


def all_but_the_last_byte(message: Message) -> int:
    return len(message.data) - 1


def all_of(message: Message) -> int:
    return len(message.data)


def reset(place: Place) -> Fault:
    """Reset the connection after ``place`` of the message."""

    def fault(side: Side, message: Message) -> None:
        side.send(message.data[: place(message)])
        side.reset()

    return fault


def truncate(place: Place) -> Fault:
    """Close the connection with a FIN after ``place`` of the message."""

    def fault(side: Side, message: Message) -> None:
        side.send(message.data[: place(message)])
        side.finish()

    return fault


def end_politely(side: Side, message: Message) -> None:
    """Send the whole HTTP reply with ``Connection: close``, and close the connection with a FIN."""
    head, body = message.data[: message.head_bytes], message.data[message.head_bytes :]
    side.send(head.removesuffix(b"\r\n") + b"Connection: close\r\n\r\n" + body)
    side.finish()


def every(count: int, fault: Fault) -> Chooser:
    """Choose this fault for every ``count``-th message of each connection."""
    seen: dict[int, int] = {}

    def choose(message: Message) -> Fault | None:
        seen[message.connection] = seen.get(message.connection, 0) + 1
        return None if seen[message.connection] % count else fault

    return choose


def silence(place: Place) -> Fault:
    """Send nothing after ``place`` of the message and keep the connection open, as where packets are lost."""

    def fault(side: Side, message: Message) -> None:
        side.send(message.data[: place(message)])
        side.outlast()

    return fault


def drip(place: Place, every_seconds: float) -> Fault:
    """After ``place`` of the message, send one byte every ``every_seconds``."""

    def fault(side: Side, message: Message) -> None:
        at = place(message)
        side.send(message.data[:at])
        while at < len(message.data) and not side.is_gone:
            side.wait(every_seconds)
            side.send(message.data[at : at + 1])
            at += 1

    return fault


def sip(every_seconds: float) -> Fault:
    """Read the rest of the request one byte every ``every_seconds``.

    For ``asks``, with a request that is larger than the socket buffers on its way.
    """
    return lambda side, _: side.sip(every_seconds)


def delay(seconds: float) -> Fault:
    """Send the whole message ``seconds`` later."""

    def fault(side: Side, message: Message) -> None:
        side.wait(seconds)
        side.send(message.data)

    return fault


def changed(change: Callable[[Message], bytes]) -> Fault:
    """Send what ``change`` returns instead of the message."""
    return lambda side, message: side.send(change(message))


def flip(place: Place, bit: int = 1) -> Fault:
    """Flip one bit of the byte at ``place``."""

    def change(message: Message) -> bytes:
        data, at = bytearray(message.data), place(message)
        data[at] ^= bit
        return bytes(data)

    return changed(change)


def header(name: bytes, value: Callable[[bytes], bytes]) -> Callable[[Message], bytes]:
    """Change the value of a header that the message has exactly once."""

    def change(message: Message) -> bytes:
        pattern = re.compile(rb"(?im)^(" + re.escape(name) + rb":[ \t]*)([^\r\n]*)")
        head, count = pattern.subn(lambda found: found[1] + value(found[2]), message.data[: message.head_bytes])
        assert count == 1, message.data[: message.head_bytes]
        return head + message.data[message.head_bytes :]

    return change


def twice_at_once() -> Fault:
    """Send the whole message twice in one write."""
    return changed(lambda message: message.data * 2)


def twice(after_seconds: float) -> Fault:
    """Send the whole message, and again ``after_seconds`` later."""

    def fault(side: Side, message: Message) -> None:
        side.send(message.data)
        side.wait(after_seconds)
        side.send(message.data)

    return fault


def followed_by(data: bytes) -> Fault:
    """Send the whole message, followed by bytes that no request asked for."""
    return changed(lambda message: message.data + data)


def preceded_by(data: bytes) -> Fault:
    """Send bytes that no request asked for, followed by the whole message."""
    return changed(lambda message: data + message.data)


def without_end(begin: bytes, piece: bytes) -> Fault:
    """Send ``begin``, then ``piece`` again and again until the client closes the connection."""

    def fault(side: Side, message: Message) -> None:
        side.send(begin)
        while not side.is_gone:
            side.send(piece)

    return fault


class Nth:
    """Choose a fault for the ``first`` matching message, counted from 1 over all connections.

    With ``every`` also for each ``every``-th matching message after it.
    """

    def __init__(self, fault: Fault, matches: Callable[[Message], object], first: int = 1, every: int = 0) -> None:
        self._fault = fault
        self._matches = matches
        self._first = first
        self._every = every
        self._lock = threading.Lock()
        self._seen = 0
        self.played = 0  # how often the fault was chosen

    def __call__(self, message: Message) -> Fault | None:
        if not self._matches(message):
            return None
        with self._lock:
            self._seen += 1
            beyond = self._seen - self._first
            chosen = beyond == 0 or (beyond > 0 and self._every > 0 and beyond % self._every == 0)
            self.played += chosen
        return self._fault if chosen else None


class Shifted:
    """After the ``first`` matching message, replace each one by its predecessor, as if an answer had come twice."""

    def __init__(self, matches: Callable[[Message], object], first: int) -> None:
        self._matches = matches
        self._first = first
        self._lock = threading.Lock()
        self._seen = 0
        self._before = b""

    def __call__(self, message: Message) -> Fault | None:
        if not self._matches(message):
            return None
        with self._lock:
            self._seen += 1
            before, self._before = self._before, message.data
            return changed(lambda _: before) if self._seen > self._first else None


class Swapped:
    """Exchange the first two matching replies: each is sent on the connection of the other. Later replies pass."""

    def __init__(self, matches: Callable[[Message], object]) -> None:
        self._matches = matches
        self._lock = threading.Lock()
        self._seen = 0
        self._came = [threading.Event(), threading.Event()]
        self._data = [b"", b""]

    def __call__(self, message: Message) -> Fault | None:
        with self._lock:
            if self._seen == 2 or not self._matches(message):
                return None
            mine = self._seen
            self._seen += 1
        return lambda side, message: self._exchange(mine, side, message)

    def _exchange(self, mine: int, side: Side, message: Message) -> None:
        self._data[mine] = message.data
        self._came[mine].set()
        assert self._came[1 - mine].wait(HANG_SECONDS), "the second of the replies that are to be swapped never came"
        side.send(self._data[1 - mine])


class _Stream:
    """A buffered reader of a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._received = b""

    def _more(self) -> None:
        chunk = self._sock.recv(1 << 18)
        if not chunk:
            raise ConnectionError("ended")
        self._received += chunk

    def take(self, count: int) -> bytes:
        while len(self._received) < count:
            self._more()
        taken, self._received = self._received[:count], self._received[count:]
        return taken

    def take_through(self, mark: bytes) -> bytes:
        while mark not in self._received:
            self._more()
        return self.take(self._received.index(mark) + len(mark))

    def take_all(self) -> bytes:
        with suppress(ConnectionError):
            while True:
                self._more()
        return self.take(len(self._received))

    def body(self, head: bytes) -> bytes:
        """Read the body that follows this head of an HTTP message; empty if it has none."""
        if _CHUNKED.search(head):
            body = b""
            while True:
                size = self.take_through(b"\r\n")
                count = int(size.split(b";")[0], 16)
                body += size + self.take(count + 2)
                if not count:
                    return body
        length = _LENGTH.search(head)
        return self.take(int(length[1])) if length else b""


@dataclass(slots=True)
class FaultProxy:
    """A context manager that runs the proxy. Clients connect to ``port``, S3 clients to ``url``."""

    upstream_port: int
    asks: Chooser | None = None  # chooses by an HTTP request; the server never gets a request that has a fault
    answers: Chooser | None = None  # chooses by an HTTP reply
    frames: Chooser | None = None  # chooses by a frame that the TSM server sends
    delay_seconds: float = 0.0  # of plain TCP, in each direction
    upstream_host: str = "127.0.0.1"
    connections: int = 0
    failures: list[BaseException] = field(default_factory=list)  # exceptions in the proxy's threads
    _listening: socket.socket = field(init=False)
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _open: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FaultProxy:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for sock in (self._listening, *self._open):
            with suppress(OSError):  # gone already
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(HANG_SECONDS)
            assert not thread.is_alive()
        for sock in (self._listening, *self._open):
            sock.close()
        if kind is None:
            assert self.failures == []

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=self._guarded, args=(target, *arguments), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _guarded(self, target: Callable[..., None], *arguments: object) -> None:
        try:
            target(*arguments)
        except (OSError, ValueError):
            pass  # the client or the server has closed the connection
        except BaseException as error:  # noqa: BLE001 - ``__exit__`` reports it
            self.failures.append(error)

    def _accept(self) -> None:
        while True:
            client, _ = self._listening.accept()
            self._open.append(client)
            server = socket.create_connection((self.upstream_host, self.upstream_port), HANG_SECONDS)
            self._open.append(server)
            for sock in (client, server):
                sock.settimeout(HANG_SECONDS)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start(self._relay, self.connections, client, server)
            self.connections += 1

    def _relay(self, connection: int, client: socket.socket, server: socket.socket) -> None:
        try:
            if self.asks or self.answers:
                self._http(connection, client, server)
            elif self.frames:
                self._start(self._pump, client, server)
                self._frames(connection, client, server)
            else:
                self._start(self._pump, client, server)
                self._pump(server, client)
        finally:
            for sock in (client, server):
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _http(self, connection: int, client: socket.socket, server: socket.socket) -> None:
        side, requests, replies = Side(client, self._over), _Stream(client), _Stream(server)
        while not side.is_gone:
            head = requests.take_through(b"\r\n\r\n")
            asked = head.partition(b"\r\n")[0]
            fault = self.asks(Message(connection, head, len(head), asked)) if self.asks else None
            if fault is not None:
                fault(side, Message(connection, head, len(head), asked))
                return
            server.sendall(head)
            if _EXPECTS.search(head):
                client.sendall(replies.take_through(b"\r\n\r\n"))
            server.sendall(requests.body(head))
            reply_head = replies.take_through(b"\r\n\r\n")
            status = int(reply_head.split(b" ", 2)[1])
            bodyless = asked.startswith(b"HEAD ") or status in (204, 304)
            reply = Message(
                connection, reply_head + (b"" if bodyless else replies.body(reply_head)), len(reply_head), asked
            )
            fault = self.answers(reply) if self.answers else None
            if fault is not None:
                fault(side, reply)
            else:
                side.send(reply.data)

    def _frames(self, connection: int, client: socket.socket, server: socket.socket) -> None:
        assert self.frames is not None
        side, stream = Side(client, self._over), _Stream(server)
        while not side.is_gone:
            head = stream.take(FRAME_HEAD_BYTES)
            frame = Message(connection, head + stream.take(int.from_bytes(head[:4], "little")), FRAME_HEAD_BYTES)
            fault = self.frames(frame)
            if fault is not None:
                fault(side, frame)
            else:
                side.send(frame.data)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        """Forward all data, each piece ``delay_seconds`` after it was received. Delays of later pieces overlap."""
        if not self.delay_seconds:
            self._forward(source, sink.sendall)
            with suppress(OSError):
                sink.shutdown(socket.SHUT_WR)
            return
        pieces: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
        self._start(self._deliver, pieces, sink)
        try:
            self._forward(source, lambda data: pieces.put((time.monotonic() + self.delay_seconds, data)))
        finally:
            pieces.put((0.0, b""))

    def _forward(self, source: socket.socket, take: Callable[[bytes], object]) -> None:
        # A blocked recv() would keep the socket open after a fault has closed it, and no reset would be sent.
        waiting = select.poll()  # select() accepts no descriptor above 1023, and a run may open more sessions
        waiting.register(source, select.POLLIN)
        while source.fileno() >= 0 and not self._over.is_set():
            if waiting.poll(20):
                chunk = source.recv(1 << 16)
                if not chunk:
                    return
                take(chunk)

    def _deliver(self, pieces: SimpleQueue[tuple[float, bytes]], sink: socket.socket) -> None:
        while True:
            due, data = pieces.get()
            if not data or self._over.wait(max(0.0, due - time.monotonic())):
                break
            sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def asks_for(*methods: str, keys: Sequence[str] = ("/000000",)) -> Callable[[Message], object]:
    """Match HTTP messages with one of these methods whose request line contains one of these parts of a key."""
    names = tuple(method.encode() + b" " for method in methods)
    return lambda message: message.asked.startswith(names) and any(key.encode() in message.asked for key in keys)

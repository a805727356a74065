"""A server that plays a script: one list of steps per connection, on a real loopback socket.

One idea: a step is a function of the conversation, so a script lists what happens on the wire:
``[read, send(head), wait_for(event), send(rest), close]``. The server reads each request completely, head and body,
and records it. After the last step it still reads and records requests, but answers none.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

HANG_SECONDS = 60.0  # reached only if a test hangs
CORK_SECONDS = 0.2  # TCP_CORK sends what it holds back after this time


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the server received it."""

    connection: int  # from 0, in the order in which the server accepted them
    head: bytes  # up to the blank line, exclusive
    body: bytes
    received_ns: int  # CLOCK_MONOTONIC, when its last byte was received

    @property
    def method(self) -> str:
        return self.head.split(b" ", 1)[0].decode()

    @property
    def target(self) -> str:
        return self.head.split(b" ", 2)[1].decode()

    @property
    def headers(self) -> dict[str, str]:
        """The headers by lower-case name. Fails if a header occurs twice."""
        pairs = [line.split(": ", 1) for line in self.head.decode("latin-1").split("\r\n")[1:]]
        assert len({name.lower() for name, _ in pairs}) == len(pairs), self.head
        return {name.lower(): value for name, value in pairs}


@dataclass(slots=True)
class Conversation:
    """One connection as the steps of its script see it."""

    server: ScriptedServer
    index: int
    sock: socket.socket
    received: bytes = b""
    last_request: Request | None = None

    def read_request(self) -> Request | None:
        """Return the next complete request. None if the client has closed the connection."""
        while b"\r\n\r\n" not in self.received:
            if not self._receive():
                return None
        head, self.received = self.received.split(b"\r\n\r\n", 1)
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        while len(self.received) < length:
            if not self._receive():
                return None
        body, self.received = self.received[:length], self.received[length:]
        self.last_request = Request(self.index, head, body, time.monotonic_ns())
        self.server.requests.append(self.last_request)
        return self.last_request

    def _receive(self) -> bool:
        try:
            chunk = self.sock.recv(1 << 20)
        except ConnectionError:
            return False
        self.received += chunk
        return bool(chunk)


Step = Callable[[Conversation], None]
Answer = Callable[[Request], bytes]


def read(conversation: Conversation) -> None:
    """Read one request, head and body."""
    assert conversation.read_request() is not None, "the client closed where the script expects a request"


def send(data: bytes) -> Step:
    """Send these bytes at once."""
    return lambda conversation: conversation.sock.sendall(data)


def send_byte_by_byte(data: bytes) -> Step:
    """Send each of these bytes in a write of its own."""

    def step(conversation: Conversation) -> None:
        for index in range(len(data)):
            conversation.sock.sendall(data[index : index + 1])

    return step


def wait_for(event: threading.Event) -> Step:
    """Wait until the test sets the event, and record the time in ``went_on_ns``."""

    def step(conversation: Conversation) -> None:
        assert event.wait(HANG_SECONDS)
        conversation.server.went_on_ns.append(time.monotonic_ns())

    return step


def close(conversation: Conversation) -> None:
    """Close with a FIN: the client reads everything that was sent, then the end of the stream."""
    conversation.sock.close()


def close_with(data: bytes) -> Step:
    """Send these bytes together with the FIN, so that the client can send no request between the two.

    The kernel holds the bytes back for 200 ms. If this thread does not reach the close by then, it counts in
    ``late_closes``.
    """

    def step(conversation: Conversation) -> None:
        sock = conversation.sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        began = time.monotonic()
        sock.sendall(data)
        if isinstance(sock, ssl.SSLSocket):
            sock.setblocking(False)
            with suppress(ssl.SSLError):  # do not wait for the client's close_notify, nor read what it sent
                sock.unwrap()
        sock.close()
        conversation.server.late_closes += time.monotonic() - began >= CORK_SECONDS

    return step


def reset(conversation: Conversation) -> None:
    """Close with a TCP reset."""
    conversation.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    conversation.sock.close()


def serve(answer: Answer) -> Step:
    """Answer every request until the client closes."""

    def step(conversation: Conversation) -> None:
        while (request := conversation.read_request()) is not None:
            conversation.sock.sendall(answer(request))

    return step


def serve_and_close(answer: Answer, count: int, *, announces: bool) -> list[Step]:
    """Answer ``count`` requests and close the connection with the last answer.

    If it ``announces`` the end, the last answer has the header ``Connection: close``.
    """

    def last(conversation: Conversation) -> None:
        request = conversation.read_request()
        if request is not None:
            head, blank, body = answer(request).partition(b"\r\n\r\n")
            close_with((head + b"\r\nConnection: close" if announces else head) + blank + body)(conversation)

    def one(conversation: Conversation) -> None:
        request = conversation.read_request()
        if request is not None:
            conversation.sock.sendall(answer(request))

    return [*[one] * (count - 1), last]


def replies(*data: bytes) -> list[Step]:
    """Read a request and send a reply, for each of these replies."""
    return [step for reply in data for step in (read, send(reply))]


@dataclass(slots=True)
class ScriptedServer:
    """A server that plays ``scripts``, one for each connection in turn, and ``then`` for all later connections."""

    scripts: Sequence[Sequence[Step]]
    then: Sequence[Step] = ()
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    went_on_ns: list[int] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)  # exceptions in the scripts
    late_closes: int = 0  # last answers that the client may have read without the FIN
    _listening: socket.socket = field(init=False)
    _threads: list[threading.Thread] = field(default_factory=list)
    _open: list[socket.socket] = field(default_factory=list)
    _is_last: bool = False

    def __post_init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._start_thread(self._accept)

    def refuse_others(self) -> None:
        """Accept the next connection and refuse all later ones."""
        self._is_last = True

    def stop(self) -> None:
        """End every conversation and every thread."""
        for sock in (self._listening, *self._open):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # its script or the client has closed it
        for thread in self._threads:
            thread.join(HANG_SECONDS)
            assert not thread.is_alive()
        self._listening.close()

    def _start_thread(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return  # stopped
            sock.settimeout(HANG_SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.append(sock)
            self.connections += 1
            if self._is_last:
                self._listening.close()
            self._start_thread(self._play, Conversation(self, self.connections - 1, sock))

    def _play(self, conversation: Conversation) -> None:
        if self.tls is not None:
            try:
                conversation.sock = self.tls.wrap_socket(conversation.sock, server_side=True)
            except OSError:
                return  # the client closed the connection first
        with conversation.sock as sock:
            try:
                script = self.scripts[conversation.index] if conversation.index < len(self.scripts) else self.then
                for step in script:
                    step(conversation)
                while sock.fileno() >= 0 and conversation.read_request() is not None:
                    pass
            except ConnectionError:
                pass  # the client closed the connection first, as some scripts intend
            except BaseException as error:  # noqa: BLE001 - the test looks at ``failures``
                self.failures.append(error)

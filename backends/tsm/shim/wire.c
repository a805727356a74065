#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "include/archiver_tsm_rc.h"

#define OUT_SIZE (256u << 10)
#define IN_SIZE (256u << 10)
#define DIRECT_MIN (64u << 10) /* from this size on a copy costs more than a system call */
#define PROGRESS_MIN (64u << 10) /* bytes that must pass within a timeout to count as progress */
#define KEPT_MS_MAX 5000       /* far below the silence that a server tolerates in a transaction */

/* Connecting */

static int64_t monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits for the end of a connect in progress. Returns 0 or an errno. */
static int finish_connect(int descriptor, int64_t deadline_ms)
{
    struct pollfd polled = {.fd = descriptor, .events = POLLOUT};
    for (;;) {
        int64_t left_ms = deadline_ms - monotonic_ms();
        int ready = poll(&polled, 1, left_ms > 0 ? (int)left_ms : 0);
        if (ready > 0) {
            break;
        }
        if (ready == 0) {
            return ETIMEDOUT;
        }
        if (errno != EINTR) {
            return errno;
        }
    }
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? errno : error;
}

static void set_options(int descriptor, const struct wire_setting *setting)
{
    int no_delay = setting->no_delay;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
    if (setting->window_kib > 0) {
        int window = (int)setting->window_kib * 1024;
        setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &window, sizeof window);
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &window, sizeof window);
    }
    struct timeval patience = {.tv_sec = (time_t)setting->timeout_seconds};
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

/* Connects. Returns 0 and the socket, or an errno. */
static int connect_to(const struct addrinfo *address, const struct wire_setting *setting, int64_t deadline_ms,
                      int *connected)
{
    int descriptor = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) {
        return errno;
    }
    set_options(descriptor, setting);
    int error = connect(descriptor, address->ai_addr, address->ai_addrlen) < 0 ? errno : 0;
    if (error == EINPROGRESS || error == EINTR) {
        error = finish_connect(descriptor, deadline_ms);
    }
    if (error == 0 && fcntl(descriptor, F_SETFL, 0) < 0) { /* from now on calls block, up to the timeout set above */
        error = errno;
    }
    if (error) {
        close(descriptor);
        return error;
    }
    *connected = descriptor;
    return 0;
}

static bool may_go_on(const struct wire *wire, int error, int64_t *deadline_ms);
static int16_t code_of(int error);

static int16_t secure(struct wire *wire, const struct wire_setting *setting)
{
    struct tls_setting wanted = {.host = setting->host, .authorities = setting->authorities};
    int16_t code = tls_begin(&wire->tls, wire->socket, &wanted);
    int64_t deadline_ms = 0;
    if (!code) {
        do {
            code = tls_handshake(wire->tls);
        } while (code == DSM_RC_TCPIP_FAILURE && may_go_on(wire, errno, &deadline_ms));
    }
    return code ? wire_fail(wire, code == DSM_RC_TCPIP_FAILURE ? code_of(errno) : code) : DSM_RC_OK;
}

int16_t wire_open(struct wire *wire, const struct wire_setting *setting)
{
    *wire = (struct wire){.socket = -1, .frame = NO_FRAME, .in_size = IN_SIZE};
    wire->timeout_ms = (int64_t)setting->timeout_seconds * 1000;
    wire->out = malloc(OUT_SIZE);
    wire->in = malloc(IN_SIZE);
    if (!wire->out || !wire->in) {
        return wire_fail(wire, DSM_RC_NO_MEMORY);
    }
    char port[16];
    snprintf(port, sizeof port, "%u", setting->port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *addresses;
    if (getaddrinfo(setting->host, port, &hints, &addresses)) {
        return wire_fail(wire, DSM_RC_BAD_HOST_NAME);
    }
    int error = EADDRNOTAVAIL;
    int64_t deadline_ms = monotonic_ms() + wire->timeout_ms;
    for (const struct addrinfo *address = addresses; address && error; address = address->ai_next) {
        error = connect_to(address, setting, deadline_ms, &wire->socket);
    }
    freeaddrinfo(addresses);
    if (error) {
        return wire_fail(wire, error == ETIMEDOUT ? DSM_RC_CONN_TIMEDOUT : DSM_RC_TCPIP_FAILURE);
    }
    return setting->has_tls ? secure(wire, setting) : DSM_RC_OK;
}

void wire_close(struct wire *wire)
{
    wire_fail(wire, DSM_RC_TCPIP_FAILURE);
    free(wire->out);
    free(wire->in);
    wire->out = wire->in = NULL;
}

int16_t wire_fail(struct wire *wire, int16_t code)
{
    if (!wire->lost) {
        wire->lost = code;
        tls_end(wire->tls);
        wire->tls = NULL;
        if (wire->socket >= 0) {
            close(wire->socket);
            wire->socket = -1;
        }
    }
    return wire->lost;
}

/* Returns whether a call must be repeated because a signal interrupted it. The system then starts the timeout again:
 * without a deadline of our own, a program with a fast timer would wait forever. *deadline_ms is 0 at first. */
static bool may_go_on(const struct wire *wire, int error, int64_t *deadline_ms)
{
    if (error != EINTR) {
        return false;
    }
    int64_t now_ms = monotonic_ms();
    if (*deadline_ms == 0) {
        *deadline_ms = now_ms + wire->timeout_ms;
    }
    return now_ms < *deadline_ms;
}

/* Writing */

/* The code of a call that is not repeated. After a signal that is only the case when the time is over. */
static int16_t code_of(int error)
{
    bool is_timeout = error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
    return is_timeout ? DSM_RC_CONN_TIMEDOUT : DSM_RC_TCPIP_FAILURE;
}

/* The server may have sent its reason before it closed the connection: that reason is better than the errno. */
static int16_t fail_with_last_words(struct wire *wire, int error)
{
    if (error == EPIPE || error == ECONNRESET) {
        while (wire_next(wire) == DSM_RC_OK) {
        }
    }
    return wire_fail(wire, code_of(error));
}

/* As sendmsg. */
static ssize_t send_parts(struct wire *wire, struct iovec parts[2])
{
    if (wire->tls) {
        const struct iovec *part = parts[0].iov_len > 0 ? &parts[0] : &parts[1];
        return tls_send(wire->tls, part->iov_base, part->iov_len);
    }
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    return sendmsg(wire->socket, &message, MSG_NOSIGNAL);
}

/* Sends the waiting bytes, and then these. */
static int16_t send_with(struct wire *wire, const void *bytes, size_t length)
{
    if (wire->lost) {
        return wire->lost;
    }
    struct iovec parts[2] = {{wire->out, wire->out_used}, {(void *)(uintptr_t)bytes, length}};
    int64_t deadline_ms = 0, began_ms = monotonic_ms();
    while (parts[0].iov_len + parts[1].iov_len > 0) {
        ssize_t sent = send_parts(wire, parts);
        if (sent < 0) {
            int error = errno;
            if (may_go_on(wire, error, &deadline_ms)) {
                continue;
            }
            return fail_with_last_words(wire, error);
        }
        deadline_ms = 0;
        int64_t now_ms = monotonic_ms();
        if ((size_t)sent < PROGRESS_MIN && now_ms - began_ms >= wire->timeout_ms) {
            return wire_fail(wire, DSM_RC_CONN_TIMEDOUT);
        }
        began_ms = now_ms;
        for (unsigned i = 0; i < 2; i++) {
            size_t gone = (size_t)sent < parts[i].iov_len ? (size_t)sent : parts[i].iov_len;
            parts[i].iov_base = (char *)parts[i].iov_base + gone;
            parts[i].iov_len -= gone;
            sent -= (ssize_t)gone;
        }
    }
    wire->out_used = 0;
    wire->frame = NO_FRAME;
    wire->sent_ms = monotonic_ms();
    return DSM_RC_OK;
}

int16_t wire_flush(struct wire *wire)
{
    return send_with(wire, wire->out, 0);
}

static void set_body_length(struct wire *wire, size_t length)
{
    uint32_t little = htole32((uint32_t)length);
    memcpy(wire->out + wire->frame, &little, sizeof little);
}

static size_t body_length(const struct wire *wire)
{
    uint32_t little;
    memcpy(&little, wire->out + wire->frame, sizeof little);
    return le32toh(little);
}

int16_t wire_begin_long(struct wire *wire, enum frame_type type, size_t length)
{
    if (wire->lost) {
        return wire->lost;
    }
    if (wire->out_used + FRAME_HEADER > OUT_SIZE && wire_flush(wire)) {
        return wire->lost;
    }
    wire->frame = wire->out_used;
    unsigned char *header = wire->out + wire->frame;
    memset(header, 0, FRAME_HEADER);
    header[4] = (unsigned char)type;
    set_body_length(wire, length);
    wire->out_used += FRAME_HEADER;
    return DSM_RC_OK;
}

int16_t wire_begin(struct wire *wire, enum frame_type type, size_t body_max)
{
    if (wire->out_used + FRAME_HEADER + body_max > OUT_SIZE && wire_flush(wire)) {
        return wire->lost;
    }
    return wire_begin_long(wire, type, 0);
}

void wire_put_bytes(struct wire *wire, const void *bytes, size_t length)
{
    if (length > 0) {
        memcpy(wire->out + wire->out_used, bytes, length);
        wire->out_used += length;
        set_body_length(wire, body_length(wire) + length);
    }
}

void wire_put_u8(struct wire *wire, uint8_t value)
{
    wire_put_bytes(wire, &value, sizeof value);
}

void wire_put_u16(struct wire *wire, uint16_t value)
{
    uint16_t little = htole16(value);
    wire_put_bytes(wire, &little, sizeof little);
}

void wire_put_u32(struct wire *wire, uint32_t value)
{
    uint32_t little = htole32(value);
    wire_put_bytes(wire, &little, sizeof little);
}

void wire_put_u64(struct wire *wire, uint64_t value)
{
    uint64_t little = htole64(value);
    wire_put_bytes(wire, &little, sizeof little);
}

void wire_put_text(struct wire *wire, const char *text, size_t length)
{
    wire_put_u16(wire, (uint16_t)length);
    wire_put_bytes(wire, text, length);
}

int16_t wire_stream(struct wire *wire, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    while (length > 0) {
        if (wire->out_used == OUT_SIZE && wire_flush(wire)) {
            return wire->lost;
        }
        size_t piece = OUT_SIZE - wire->out_used < length ? OUT_SIZE - wire->out_used : length;
        memcpy(wire->out + wire->out_used, at, piece);
        wire->out_used += piece;
        at += piece;
        length -= piece;
    }
    return DSM_RC_OK;
}

static bool is_kept(const struct wire *wire, size_t length)
{
    return length < DIRECT_MIN && length <= OUT_SIZE - wire->out_used;
}

bool wire_would_send(const struct wire *wire, size_t length)
{
    return !is_kept(wire, length + FRAME_HEADER);
}

int16_t wire_data(struct wire *wire, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    while (length > 0) {
        size_t room = 0;
        if (wire->frame != NO_FRAME) {
            size_t longest = wire->out[wire->frame + 4] == FRAME_OBJECT ? FRAME_BODY_MAX : DATA_BODY_MAX;
            room = longest - body_length(wire);
        }
        if (room == 0) {
            if (wire_begin(wire, FRAME_DATA, 0)) {
                return wire->lost;
            }
            room = DATA_BODY_MAX;
        }
        size_t piece = length < room ? length : room;
        set_body_length(wire, body_length(wire) + piece);
        if (is_kept(wire, piece)) {
            memcpy(wire->out + wire->out_used, at, piece);
            wire->out_used += piece;
        } else if (send_with(wire, at, piece)) {
            return wire->lost;
        }
        at += piece;
        length -= piece;
    }
    return DSM_RC_OK;
}

bool wire_is_overdue(const struct wire *wire)
{
    return monotonic_ms() - wire->sent_ms >= KEPT_MS_MAX;
}

int16_t wire_last(struct wire *wire)
{
    if (wire->frame == NO_FRAME && wire_begin(wire, FRAME_DATA, 0)) {
        return wire->lost;
    }
    wire->out[wire->frame + 5] |= FRAME_LAST;
    wire->frame = NO_FRAME; /* the next frame belongs to another object */
    return DSM_RC_OK;
}

/* Reading */

/* Returns whether the frame arrives too slowly to wait for its end. */
static bool is_too_slow(struct wire *wire, size_t got, int64_t waited_ms)
{
    wire->came += got;
    if (wire->waited_ms < 0 || wire->came >= PROGRESS_MIN) {
        wire->waited_ms = 0;
        wire->came = 0;
        return false;
    }
    wire->waited_ms += waited_ms;
    return wire->waited_ms >= wire->timeout_ms;
}

/* Receives bytes after in_end; if `elsewhere` is given, the first ones go there. Returns the number of bytes, 0
 * after a failure. */
static size_t receive(struct wire *wire, void *elsewhere, size_t wanted)
{
    if (wire->lost) {
        return 0;
    }
    struct iovec parts[2] = {{elsewhere, wanted}, {wire->in + wire->in_end, wire->in_size - wire->in_end}};
    struct msghdr message = {.msg_iov = wanted ? parts : parts + 1, .msg_iovlen = wanted ? 2 : 1};
    int64_t deadline_ms = 0, began_ms = monotonic_ms();
    for (;;) {
        ssize_t got = wire->tls ? tls_receive(wire->tls, message.msg_iov->iov_base, message.msg_iov->iov_len)
                                : recvmsg(wire->socket, &message, 0);
        int error = got < 0 ? errno : 0;
        if (got > 0 && !is_too_slow(wire, (size_t)got, monotonic_ms() - began_ms)) {
            return (size_t)got;
        }
        if (got > 0 || got == 0 || !may_go_on(wire, error, &deadline_ms)) {
            wire_fail(wire, got > 0 ? DSM_RC_CONN_TIMEDOUT : code_of(error));
            return 0;
        }
    }
}

/* Ensures that `length` contiguous bytes are at in_start. */
static int16_t need(struct wire *wire, size_t length)
{
    if (wire->in_start == wire->in_end) {
        wire->in_start = wire->in_end = 0;
    }
    if (wire->in_start + length > wire->in_size) {
        memmove(wire->in, wire->in + wire->in_start, wire->in_end - wire->in_start);
        wire->in_end -= wire->in_start;
        wire->in_start = 0;
        if (length > wire->in_size) {
            unsigned char *larger = realloc(wire->in, length);
            if (!larger) {
                return wire_fail(wire, DSM_RC_NO_MEMORY);
            }
            wire->in = larger;
            wire->in_size = length;
        }
    }
    while (wire->in_end - wire->in_start < length) {
        size_t got = receive(wire, NULL, 0);
        if (got == 0) {
            return wire->lost;
        }
        wire->in_end += got;
    }
    return DSM_RC_OK;
}

static int16_t skip(struct wire *wire, size_t length)
{
    while (length > 0) {
        if (wire->in_start == wire->in_end && need(wire, 1)) {
            return wire->lost;
        }
        size_t here = wire->in_end - wire->in_start;
        size_t piece = here < length ? here : length;
        wire->in_start += piece;
        length -= piece;
    }
    return DSM_RC_OK;
}

/* Maps the code with which a server refuses a client. Any unexpected number is a protocol error. */
static int16_t refusal(int16_t code)
{
    bool is_error = code > 0 && code < 300 && code != DSM_RC_FINISHED;
    return is_error ? code : DSM_RC_COMM_PROTOCOL_ERROR;
}

int16_t wire_next(struct wire *wire)
{
    wire->waited_ms = -1;
    if (skip(wire, wire->left) || need(wire, FRAME_HEADER)) {
        return wire->lost;
    }
    struct reader header = {.at = wire->in + wire->in_start, .left = FRAME_HEADER};
    uint32_t length = read_u32(&header);
    wire->type = read_u8(&header);
    read_u8(&header); /* flags; none of them concerns clients */
    uint16_t zero = read_u16(&header);
    if (length > FRAME_BODY_MAX || zero) {
        return wire_fail(wire, DSM_RC_COMM_PROTOCOL_ERROR);
    }
    wire->in_start += FRAME_HEADER;
    wire->left = length;
    if (wire->type == FRAME_REFUSED) {
        struct reader body;
        if (wire_body(wire, &body)) {
            return wire->lost;
        }
        int16_t code = read_i16(&body);
        return wire_fail(wire, read_all(&body) ? refusal(code) : DSM_RC_COMM_PROTOCOL_ERROR);
    }
    return DSM_RC_OK;
}

int16_t wire_expect(struct wire *wire, enum frame_type type)
{
    if (wire_next(wire)) {
        return wire->lost;
    }
    return wire->type == type ? DSM_RC_OK : wire_fail(wire, DSM_RC_COMM_PROTOCOL_ERROR);
}

int16_t wire_body(struct wire *wire, struct reader *body)
{
    *body = (struct reader){.failed = true};
    if (need(wire, wire->left)) {
        return wire->lost;
    }
    *body = (struct reader){.at = wire->in + wire->in_start, .left = wire->left};
    wire->in_start += wire->left;
    wire->left = 0;
    return DSM_RC_OK;
}

int16_t wire_take(struct wire *wire, void *bytes, size_t length)
{
    unsigned char *at = bytes;
    wire->left -= (uint32_t)length;
    size_t here = wire->in_end - wire->in_start;
    size_t piece = here < length ? here : length;
    memcpy(at, wire->in + wire->in_start, piece);
    wire->in_start += piece;
    at += piece;
    length -= piece;
    while (length > 0) {
        wire->in_start = wire->in_end = 0;
        size_t got = receive(wire, at, length);
        if (got == 0) {
            return wire->lost;
        }
        piece = got < length ? got : length;
        at += piece;
        length -= piece;
        wire->in_end = got - piece;
    }
    return DSM_RC_OK;
}

int16_t wire_has_come(struct wire *wire, bool *has_come)
{
    *has_come = wire->in_start < wire->in_end;
    if (*has_come || wire->lost) {
        return wire->lost;
    }
    if (wire->tls) {
        int come = tls_has_come(wire->tls);
        *has_come = come > 0;
        return come < 0 ? wire_fail(wire, DSM_RC_TCPIP_FAILURE) : DSM_RC_OK;
    }
    char byte;
    ssize_t got = recv(wire->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        return wire_fail(wire, DSM_RC_TCPIP_FAILURE);
    }
    *has_come = got > 0;
    return DSM_RC_OK;
}

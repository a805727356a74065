/* The connection of one session: frames out, frames in.
 *
 * One idea: a connection fails once. The function that meets the failure returns its code and closes the socket; from
 * then on every function returns the same code and does nothing, so that callers pass codes on and repair nothing.
 */
#ifndef WIRE_H
#define WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"
#include "reader.h"
#include "tls.h"

struct wire {
    int socket;   /* -1: closed */
    struct tls *tls; /* NULL: what is sent can be read by everybody on the way */
    int16_t lost; /* the code that ended the connection, 0 while it lives */
    int64_t timeout_ms;
    int64_t waited_ms; /* for more of the frame that is read, since enough of it had come; -1: nothing of it has */
    size_t came;       /* since then */

    unsigned char *out; /* whole frames that have not been sent yet */
    size_t out_used;
    size_t frame; /* where in `out` the last frame begins, or NO_FRAME when it has been sent */
    int64_t sent_ms; /* when something was sent last */

    unsigned char *in; /* received bytes: from in_start to in_end not looked at yet */
    size_t in_size;
    size_t in_start;
    size_t in_end;

    uint8_t type;  /* the frame under way */
    uint32_t left; /* bytes of its body that have not been taken yet */
};

struct wire_setting {
    const char *host;
    unsigned port;
    unsigned timeout_seconds; /* for the connect, and for every wait for the server */
    unsigned window_kib;      /* socket buffers; 0: as the system likes */
    bool no_delay;
    bool has_tls;
    const char *authorities; /* as tls_setting has them */
};

#define NO_FRAME SIZE_MAX

int16_t wire_open(struct wire *wire, const struct wire_setting *setting);
void wire_close(struct wire *wire);

/* Ends the connection with `code`, unless another did before; returns the one that did. */
int16_t wire_fail(struct wire *wire, int16_t code);

/* Writing. wire_begin makes room for a body of `body_max` bytes, which the wire_put functions then fill without asking
 * again; it may send what is waiting. body_max is at most 128 KiB. */
int16_t wire_begin(struct wire *wire, enum frame_type type, size_t body_max);
void wire_put_u8(struct wire *wire, uint8_t value);
void wire_put_u16(struct wire *wire, uint16_t value);
void wire_put_u32(struct wire *wire, uint32_t value);
void wire_put_u64(struct wire *wire, uint64_t value);
void wire_put_bytes(struct wire *wire, const void *bytes, size_t length);
void wire_put_text(struct wire *wire, const char *text, size_t length); /* with its length before it */

/* Starts a frame whose body of `body_length` bytes follows through wire_stream; the body may be longer than `out`. */
int16_t wire_begin_long(struct wire *wire, enum frame_type type, size_t body_length);
int16_t wire_stream(struct wire *wire, const void *bytes, size_t length);

/* Object bytes, at most DATA_BODY_MAX at a time. They lengthen the last frame while it is still here, else they become
 * DATA frames. Few bytes are kept until there are more; many go out at once from where they lie, without a copy. */
int16_t wire_data(struct wire *wire, const void *bytes, size_t length);

/* Whether wire_data of so many bytes would send. */
bool wire_would_send(const struct wire *wire, size_t length);

/* Whether what is waiting has waited so long that the server might take the session for a silent one. */
bool wire_is_overdue(const struct wire *wire);

/* Says that the object ends with what was written last. */
int16_t wire_last(struct wire *wire);

int16_t wire_flush(struct wire *wire);

/* Reading. wire_next skips what is left of the frame before and waits for the header of the next; a REFUSED frame ends
 * the connection with its code. */
int16_t wire_next(struct wire *wire);

/* wire_next, and COMM_PROTOCOL_ERROR when another type comes. */
int16_t wire_expect(struct wire *wire, enum frame_type type);

/* The whole body that is left, in memory that stays until the next read. */
int16_t wire_body(struct wire *wire, struct reader *body);

/* The next `length` bytes of the body, at most `left`. Many go straight to `bytes`. */
int16_t wire_take(struct wire *wire, void *bytes, size_t length);

/* Whether anything has come that was not read yet. The end of the connection is a failure. */
int16_t wire_has_come(struct wire *wire, bool *has_come);

#endif

/* The connection of one session: frames out, frames in.
 *
 * One idea: a connection fails once. The function that meets the failure returns its code and closes the socket. From
 * then on every function returns the same code and does nothing. So callers pass codes on and repair nothing.
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
    struct tls *tls; /* NULL: not encrypted */
    int16_t lost; /* the code that ended the connection; 0 while it is open */
    int64_t timeout_ms;
    int64_t waited_ms; /* time waited for the current frame since the last progress; -1: no byte of it has arrived */
    size_t came;       /* bytes since then */

    unsigned char *out; /* whole frames that have not been sent yet */
    size_t out_used;
    size_t frame; /* start of the last frame in `out`; NO_FRAME if it was sent */
    int64_t sent_ms; /* time of the last send */

    unsigned char *in; /* received bytes; those from in_start to in_end are not parsed yet */
    size_t in_size;
    size_t in_start;
    size_t in_end;

    uint8_t type;  /* the current frame */
    uint32_t left; /* bytes of its body that are not read yet */
};

struct wire_setting {
    const char *host;
    unsigned port;
    unsigned timeout_seconds; /* for connecting, and for each wait for the server */
    unsigned window_kib;      /* socket buffers; 0: the system's default */
    bool no_delay;
    bool has_tls;
    const char *authorities; /* as in tls_setting */
};

#define NO_FRAME SIZE_MAX

int16_t wire_open(struct wire *wire, const struct wire_setting *setting);
void wire_close(struct wire *wire);

/* Ends the connection with `code` unless it has ended already. Returns the code with which it ended. */
int16_t wire_fail(struct wire *wire, int16_t code);

/* Writing. wire_begin makes space for a body of `body_max` bytes, at most 128 KiB; it may send waiting bytes. The
 * wire_put functions then fill the body without a check. */
int16_t wire_begin(struct wire *wire, enum frame_type type, size_t body_max);
void wire_put_u8(struct wire *wire, uint8_t value);
void wire_put_u16(struct wire *wire, uint16_t value);
void wire_put_u32(struct wire *wire, uint32_t value);
void wire_put_u64(struct wire *wire, uint64_t value);
void wire_put_bytes(struct wire *wire, const void *bytes, size_t length);
void wire_put_text(struct wire *wire, const char *text, size_t length); /* preceded by its length */

/* Starts a frame whose body of `body_length` bytes follows through wire_stream; the body may be longer than `out`. */
int16_t wire_begin_long(struct wire *wire, enum frame_type type, size_t body_length);
int16_t wire_stream(struct wire *wire, const void *bytes, size_t length);

/* Object bytes, at most DATA_BODY_MAX at a time. They extend the last frame if it was not sent yet, else they become
 * DATA frames. A few bytes wait for more; many are sent at once from the caller's memory, without a copy. */
int16_t wire_data(struct wire *wire, const void *bytes, size_t length);

/* Returns whether wire_data of `length` bytes would send. */
bool wire_would_send(const struct wire *wire, size_t length);

/* Returns whether the waiting bytes are so old that the server might take the session for a silent one. */
bool wire_is_overdue(const struct wire *wire);

/* Marks the end of the object after the bytes written last. */
int16_t wire_last(struct wire *wire);

int16_t wire_flush(struct wire *wire);

/* Reading. wire_next skips the rest of the previous frame and waits for the header of the next one. A REFUSED frame
 * ends the connection with its code. */
int16_t wire_next(struct wire *wire);

/* Like wire_next; a frame of another type is a COMM_PROTOCOL_ERROR. */
int16_t wire_expect(struct wire *wire, enum frame_type type);

/* Returns the rest of the body, in memory that is valid until the next read. */
int16_t wire_body(struct wire *wire, struct reader *body);

/* Reads the next `length` bytes of the body, at most `left`. Many bytes are received directly into `bytes`. */
int16_t wire_take(struct wire *wire, void *bytes, size_t length);

/* Returns whether bytes have arrived that are not read yet. The end of the connection is a failure. */
int16_t wire_has_come(struct wire *wire, bool *has_come);

#endif

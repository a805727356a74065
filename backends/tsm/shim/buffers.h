/* The buffers that a session lends to its program.
 *
 * One idea: a buffer is either the library's or lent, never both. Bytes of 64 KiB and more go from a lent buffer to the
 * network, and come from it, without being copied; fewer are gathered as all small objects are.
 */
#ifndef BUFFERS_H
#define BUFFERS_H

#include <pthread.h>
#include <stdbool.h>

#include "include/archiver_tsm.h"

#define BUFFER_SIZE (256u << 10)

struct session;

struct buffer {
    char *bytes; /* NULL: it has never been lent */
    bool is_lent;
};

struct buffers {
    struct buffer *all; /* the handle of the first is 1 */
    unsigned count;     /* 0: the session lends none */
    unsigned lent;
    pthread_cond_t given_back;
};

/* False where there is no memory. */
bool buffers_begin(struct buffers *buffers, unsigned count);
void buffers_end(struct buffers *buffers);

/* Lends one, and gives the session to other threads while it waits for one to come back. Codes: OK, NO_MEMORY,
 * BUFF_ARRAY_ERROR when none came back for as long as the session waits for its server, BAD_CALL_SEQUENCE where the
 * session has left its state meanwhile, TCPIP_FAILURE. */
dsInt16_t buffers_lend(struct session *session, dsUint8_t *handle);

/* The lent buffer of that handle, where `bytes` is its address; else NULL. */
struct buffer *buffers_find(struct buffers *buffers, dsUint8_t handle, const char *bytes);

void buffers_give_back(struct buffers *buffers, struct buffer *buffer);

#endif

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

/* Marks one of those that are not lent, of which there must be one. Codes: OK, NO_MEMORY. */
dsInt16_t buffers_take(struct buffers *buffers, dsUint8_t *handle);

/* The lent buffer of that handle, where `bytes` is its address; else NULL. */
struct buffer *buffers_find(struct buffers *buffers, dsUint8_t handle, const char *bytes);

void buffers_give_back(struct buffers *buffers, struct buffer *buffer);

#endif

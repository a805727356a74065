/* The buffers that a session lends to its program.
 *
 * One idea: a buffer is owned by the library or lent, never both. From 64 KiB on, bytes go between a lent buffer and
 * the network without a copy. Fewer bytes are collected like those of small objects.
 */
#ifndef BUFFERS_H
#define BUFFERS_H

#include <pthread.h>
#include <stdbool.h>

#include "include/archiver_tsm.h"

#define BUFFER_SIZE (256u << 10)

struct buffer {
    char *bytes; /* NULL: never lent */
    bool is_lent;
};

struct buffers {
    struct buffer *all; /* the handle of the first is 1 */
    unsigned count;     /* 0: the session lends none */
    unsigned lent;
    pthread_cond_t given_back;
};

/* Returns false if there is no memory. */
bool buffers_begin(struct buffers *buffers, unsigned count);
void buffers_end(struct buffers *buffers);

/* Lends a free buffer; there must be one. Codes: OK, NO_MEMORY. */
dsInt16_t buffers_take(struct buffers *buffers, dsUint8_t *handle);

/* Returns the lent buffer of that handle if `bytes` is its address, else NULL. */
struct buffer *buffers_find(struct buffers *buffers, dsUint8_t handle, const char *bytes);

void buffers_give_back(struct buffers *buffers, struct buffer *buffer);

#endif

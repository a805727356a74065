#include "buffers.h"

#include <stdlib.h>
#include <time.h>

bool buffers_begin(struct buffers *buffers, unsigned count)
{
    pthread_condattr_t attributes;
    buffers->all = calloc(count, sizeof *buffers->all);
    if (!buffers->all || pthread_condattr_init(&attributes)) {
        return false;
    }
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (!pthread_cond_init(&buffers->given_back, &attributes)) {
        buffers->count = count;
    }
    pthread_condattr_destroy(&attributes);
    return buffers->count > 0;
}

void buffers_end(struct buffers *buffers)
{
    if (buffers->count > 0) {
        pthread_cond_destroy(&buffers->given_back);
    }
    for (unsigned i = 0; i < buffers->count; i++) {
        free(buffers->all[i].bytes);
    }
    free(buffers->all);
}

dsInt16_t buffers_take(struct buffers *buffers, dsUint8_t *handle)
{
    unsigned at = 0;
    while (buffers->all[at].is_lent) {
        at++;
    }
    struct buffer *buffer = &buffers->all[at];
    if (!buffer->bytes) {
        buffer->bytes = malloc(BUFFER_SIZE);
    }
    if (!buffer->bytes) {
        return DSM_RC_NO_MEMORY;
    }
    buffer->is_lent = true;
    buffers->lent++;
    *handle = (dsUint8_t)(at + 1);
    return DSM_RC_OK;
}

struct buffer *buffers_find(struct buffers *buffers, dsUint8_t handle, const char *bytes)
{
    if (handle < 1 || handle > buffers->count) {
        return NULL;
    }
    struct buffer *buffer = &buffers->all[handle - 1];
    return buffer->is_lent && buffer->bytes == bytes ? buffer : NULL;
}

void buffers_give_back(struct buffers *buffers, struct buffer *buffer)
{
    buffer->is_lent = false;
    buffers->lent--;
    pthread_cond_signal(&buffers->given_back);
}

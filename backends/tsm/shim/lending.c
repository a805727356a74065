#include "lending.h"

#include <time.h>

/* Waits until a buffer is free. Returns OK or the code of the failure. */
static dsInt16_t wait_for_one(struct session *session)
{
    struct buffers *buffers = &session->buffers;
    enum state state = session->state;
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += (time_t)(session->wire.timeout_ms / 1000);
    int failure = 0;
    while (buffers->lent == buffers->count && !failure) {
        failure = pthread_cond_timedwait(&buffers->given_back, &session->mutex, &deadline);
        if (session->is_closed || session->wire.lost) {
            return DSM_RC_TCPIP_FAILURE;
        }
        if (session->state != state) {
            return DSM_RC_BAD_CALL_SEQUENCE;
        }
    }
    return failure ? DSM_RC_BUFF_ARRAY_ERROR : DSM_RC_OK;
}

dsInt16_t lend_buffer(struct session *session, dsUint8_t *handle)
{
    dsInt16_t code = wait_for_one(session);
    return code ? code : buffers_take(&session->buffers, handle);
}

static dsInt16_t request(struct session *session, const requestBufferIn_t *in, requestBufferOut_t *out)
{
    struct buffers *buffers = &session->buffers;
    if (buffers->count == 0) {
        return DSM_RC_BAD_CALL_SEQUENCE;
    }
    if (!out) {
        return DSM_RC_INVALID_PARM;
    }
    if (in->stVersion != requestBufferInVersion || out->stVersion != requestBufferOutVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    if (!session->transaction.takes_data) {
        return DSM_RC_SENDDATA_WITH_ZERO_SIZE;
    }
    dsUint8_t handle;
    dsInt16_t code = lend_buffer(session, &handle);
    if (!code) {
        *out = (requestBufferOut_t){.stVersion = out->stVersion,
                                    .tsmBufferHandle = handle,
                                    .dataPtr = buffers->all[handle - 1].bytes,
                                    .bufferLen = BUFFER_SIZE};
    }
    return code;
}

dsInt16_t dsmRequestBuffer(requestBufferIn_t *getBufferInP, requestBufferOut_t *getBufferOutP)
{
    struct session *session;
    if (!getBufferInP) {
        return DSM_RC_INVALID_PARM;
    }
    dsInt16_t code = session_enter(getBufferInP->dsmHandle, IN_SEND, &session);
    return code ? code : session_leave(session, request(session, getBufferInP, getBufferOutP));
}

static dsInt16_t release(struct session *session, const releaseBufferIn_t *in, const releaseBufferOut_t *out)
{
    struct buffers *buffers = &session->buffers;
    if (buffers->count == 0) {
        return DSM_RC_BAD_CALL_SEQUENCE;
    }
    if (!out) {
        return DSM_RC_INVALID_PARM;
    }
    if (in->stVersion != releaseBufferInVersion || out->stVersion != releaseBufferOutVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    struct buffer *buffer = buffers_find(buffers, in->tsmBufferHandle, in->dataPtr);
    if (!buffer) {
        return DSM_RC_INVALID_TSMBUFFER;
    }
    buffers_give_back(buffers, buffer);
    return DSM_RC_OK;
}

dsInt16_t dsmReleaseBuffer(releaseBufferIn_t *relBufferInP, releaseBufferOut_t *relBufferOutP)
{
    struct session *session;
    if (!relBufferInP) {
        return DSM_RC_INVALID_PARM;
    }
    dsInt16_t code = session_enter(relBufferInP->dsmHandle, IN_SESSION | IN_SEND | IN_OBJECT, &session);
    return code ? code : session_leave(session, release(session, relBufferInP, relBufferOutP));
}

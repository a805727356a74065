/* The calls that lend a session's buffers and take them back without sending them. */
#ifndef LENDING_H
#define LENDING_H

#include "session.h"

/* Lends a buffer. If none is free, it lets other threads use the session until one comes back. Codes: OK, NO_MEMORY;
 * BUFF_ARRAY_ERROR if none came back within the session's time limit for its server; BAD_CALL_SEQUENCE if the
 * session has changed its state meanwhile; TCPIP_FAILURE. */
dsInt16_t lend_buffer(struct session *session, dsUint8_t *handle);

#endif

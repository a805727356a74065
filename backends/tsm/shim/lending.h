/* The calls that lend a session's buffers without sending, and that take them back. */
#ifndef LENDING_H
#define LENDING_H

#include "session.h"

/* Lends one, and gives the session to other threads while it waits for one to come back. Codes: OK, NO_MEMORY,
 * BUFF_ARRAY_ERROR when none came back for as long as the session waits for its server, BAD_CALL_SEQUENCE where the
 * session has left its state meanwhile, TCPIP_FAILURE. */
dsInt16_t lend_buffer(struct session *session, dsUint8_t *handle);

#endif

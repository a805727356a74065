/* Reading what other nodes and owners have archived. */
#ifndef ACCESS_H
#define ACCESS_H

#include "session.h"

/* Has queries and gets of the session look at another node's or owner's objects from now on, where its options say so.
 * Codes: OK, those of the connection. */
dsInt16_t access_read_from(struct session *session);

/* As session_enter, between transactions, queries and gets, for calls that change something. Codes: besides those of
 * session_enter ABORT_NODE_NOT_AUTHORIZED, where the session reads from others. */
dsInt16_t access_enter_to_change(dsUint32_t handle, struct session **entered);

#endif

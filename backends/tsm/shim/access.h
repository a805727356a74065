/* Reading what other nodes and owners have archived. */
#ifndef ACCESS_H
#define ACCESS_H

#include "session.h"

/* From now on queries and gets read the objects of another node or owner, if the options of the session name one.
 * Codes: OK, the codes of the connection. */
dsInt16_t access_read_from(struct session *session);

/* Like session_enter, for calls that change something, outside transactions, queries and gets. Codes: also
 * ABORT_NODE_NOT_AUTHORIZED, if the session reads from another node or owner. */
dsInt16_t access_enter_to_change(dsUint32_t handle, struct session **entered);

#endif

/* The operations that a program requests of its server, recorded in the file that ARCHIVER_TSM_TRACE names.
 *
 * One idea: a row is written when its outcome is known. For everything in a transaction that is the vote; until then
 * the row is in the session's memory. Calls that the library refuses without a request to the server are not recorded.
 * All functions here do nothing for a session that is not recorded, and none of them fails. They are called with the
 * session locked, once the outcome of their arguments is known.
 *
 * The lines are JSON. A row is an array of the columns of docs/traces.md in their order. Times are since the epoch, the
 * client is the process, and the session is the number in the session's own line. The key of an object of which only
 * the id is known is #ID. Names that a query returned for ids have lines of their own.
 */
#ifndef TRACE_H
#define TRACE_H

#include "session.h"

struct trace; /* of one session */

/* Returns NULL if nothing is to be recorded, or there is no memory for it. The options are the session's and outlive
 * the trace. */
struct trace *trace_create(const struct options *options);
void trace_free(struct trace *trace);

/* A call has begun: its rows have this time as the time of their request. */
void trace_call(struct trace *trace);

void trace_open(const struct session *session, dsInt16_t code);
void trace_close(const struct session *session); /* also ends the operations in progress as failed */

void trace_transaction(const struct session *session);
void trace_archive(const struct session *session, const dsmObjName *name, const struct management_class *class);
void trace_delete(const struct session *session, uint64_t id);
void trace_event(const struct session *session, dsmEventType_t type, uint64_t id);
void trace_vote(const struct session *session, dsInt16_t code, dsUint16_t reason);

/* A get of the list in session->get was requested; then each object has its head, pieces and end. */
void trace_get(const struct session *session, const dsmGetList *list, dsInt16_t code);
void trace_head(const struct session *session, uint32_t index, dsInt16_t code);
void trace_piece(const struct session *session, const DataBlk *block, dsInt16_t code);
void trace_object_end(const struct session *session);

void trace_query(const struct session *session, const void *asked, dsInt16_t code);
void trace_answer(const struct session *session, dsInt16_t code);
void trace_name(const struct session *session, uint64_t id, uint64_t size_bytes, const dsmObjName *name);
void trace_query_end(const struct session *session, dsInt16_t code);

/* A call without an operation of its own. Each part of the name may be "". */
void trace_other(const struct session *session, const char *fs, const char *hl, const char *ll, dsInt16_t code);

#endif

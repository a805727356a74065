/* What a program asks of its server, recorded where ARCHIVER_TSM_TRACE names a file for it.
 *
 * One idea: a row is written when its outcome is known, which for everything in a transaction is the vote; until then it
 * is in the session's own memory. What the library refuses by itself, without asking the server, is not recorded. All
 * functions here do nothing for a session that is not recorded, and none of them fails. They are called with the
 * session locked, once the outcome of what they are told is known.
 *
 * The lines are JSON. A row is an array of the columns of docs/traces.md in their order, its times since the epoch, its
 * client the process, its session the number that the session's own line has; the key of an object of which only the id
 * is known is #ID, and names of ids that a query told have lines of their own.
 */
#ifndef TRACE_H
#define TRACE_H

#include "session.h"

struct trace; /* of one session */

/* NULL when nothing is to be recorded, or there is no memory for it. The options are the session's and outlive it. */
struct trace *trace_create(const struct options *options);
void trace_free(struct trace *trace);

/* A call has begun: this is when what comes of it was sent. */
void trace_call(struct trace *trace);

void trace_open(const struct session *session, dsInt16_t code);
void trace_close(const struct session *session); /* with whatever was under way, which is off */

void trace_transaction(const struct session *session);
void trace_archive(const struct session *session, const dsmObjName *name, const struct management_class *class);
void trace_delete(const struct session *session, uint64_t id);
void trace_event(const struct session *session, dsmEventType_t type, uint64_t id);
void trace_vote(const struct session *session, dsInt16_t code, dsUint16_t reason);

/* A get of the list in session->get has been asked for; then for each object its head, pieces and end. */
void trace_get(const struct session *session, const dsmGetList *list, dsInt16_t code);
void trace_head(const struct session *session, uint32_t index, dsInt16_t code);
void trace_piece(const struct session *session, const DataBlk *block, dsInt16_t code);
void trace_object_end(const struct session *session);

void trace_query(const struct session *session, const void *asked, dsInt16_t code);
void trace_answer(const struct session *session, dsInt16_t code);
void trace_name(const struct session *session, uint64_t id, uint64_t size_bytes, const dsmObjName *name);
void trace_query_end(const struct session *session, dsInt16_t code);

/* What has no operation of its own. Each part of the name may be "". */
void trace_other(const struct session *session, const char *fs, const char *hl, const char *ll, dsInt16_t code);

#endif

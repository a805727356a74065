/* One answer of a query, in the layout of the caller's stVersion.
 *
 * One idea: an answer is built in the newest layout and copied only up to the size of the caller's structure.
 */
#ifndef RESPONSES_H
#define RESPONSES_H

#include <stddef.h>

#include "session.h"

/* The size of a response to a query of this kind in the caller's version; 0 if the version is not accepted. */
size_t response_size(enum query_kind kind, dsUint16_t version);

/* Each of these writes response_size bytes to `out`. Returns false if the row is malformed. */
bool tell_archive(const struct session *session, struct reader *row, dsUint16_t version, void *out);
bool tell_space(const struct session *session, struct reader *row, dsUint16_t version, void *out);
/* A whole qryRespAccessData, which has one layout only. */
bool tell_access_rule(struct reader *row, qryRespAccessData *told);

void tell_class_name(const struct management_class *class, dsUint16_t version, void *out);
void tell_class_detail(const struct management_class *class, dsUint16_t version, void *out);

#endif

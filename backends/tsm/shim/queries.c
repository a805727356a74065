/* Queries.
 *
 * One idea: rows are streamed. A call takes one row from the frame in memory, and waits for the next frame only if no
 * row is left. So a query of a million rows needs the memory of one frame.
 */
#include <string.h>

#include "dates.h"
#include "names.h"
#include "responses.h"
#include "session.h"

/* Rounds a bound up to the end of its second: a caller may have copied it from a response, which has whole seconds. */
static uint64_t to_end_of_second(uint64_t instant_ms)
{
    return instant_ms == DATE_NONE || instant_ms == DATE_NEVER ? instant_ms : instant_ms + 999;
}

static dsInt16_t begin_archives(struct session *session, const qryArchiveData *asked)
{
    struct name_lengths lengths;
    size_t owner_length, description_length;
    int32_t offset = session->policy.offset_seconds;
    uint64_t dates[4];
    if (asked->stVersion != qryArchiveDataVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    dsInt16_t code = check_name_pattern(asked->objName, &lengths);
    if (code) {
        return code;
    }
    if (is_too_long(asked->owner, DSM_MAX_OWNER_LENGTH, &owner_length) ||
        !session_may_use_owner(session, asked->owner)) {
        return DSM_RC_INVALID_OBJOWNER;
    }
    if (is_too_long(asked->descr, DSM_MAX_DESCR_LENGTH, &description_length)) {
        return DSM_RC_DESC_TOOLONG;
    }
    if (!instant_of(&asked->insDateLowerBound, offset, &dates[0]) ||
        !instant_of(&asked->insDateUpperBound, offset, &dates[1]) ||
        !instant_of(&asked->expDateLowerBound, offset, &dates[2]) ||
        !instant_of(&asked->expDateUpperBound, offset, &dates[3])) {
        return DSM_RC_INVALID_PARM;
    }
    uint32_t space;
    code = session_space(session, asked->objName->fs, lengths.fs, &space);
    if (code) {
        return code == DSM_RC_FS_NOT_REGISTERED ? DSM_RC_FILE_SPACE_NOT_FOUND : code;
    }
    struct wire *wire = &session->wire;
    if (wire_begin(wire, FRAME_QUERY_ARCHIVES, 4096)) {
        return wire->lost;
    }
    wire_put_u32(wire, space);
    wire_put_u8(wire, asked->objName->objType);
    wire_put_u8(wire, 0);
    wire_put_u16(wire, 0);
    wire_put_u64(wire, dates[0]);
    wire_put_u64(wire, to_end_of_second(dates[1]));
    wire_put_u64(wire, dates[2]);
    wire_put_u64(wire, to_end_of_second(dates[3]));
    wire_put_text(wire, asked->objName->hl, lengths.hl);
    wire_put_text(wire, asked->objName->ll, lengths.ll);
    wire_put_text(wire, asked->owner ? asked->owner : "", owner_length);
    wire_put_text(wire, asked->descr ? asked->descr : "", description_length);
    session->query.kind = QUERY_ARCHIVES;
    memcpy(session->query.fs, asked->objName->fs, lengths.fs + 1);
    return wire_flush(wire);
}

static dsInt16_t begin_spaces(struct session *session, const qryFSData *asked)
{
    struct wire *wire = &session->wire;
    size_t length;
    if (asked->stVersion != qryFSDataVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    if (!asked->fsName) {
        return DSM_RC_NULL_FSNAME;
    }
    if (is_too_long(asked->fsName, DSM_MAX_FSNAME_LENGTH, &length)) {
        return DSM_RC_FILESPACE_TOOLONG;
    }
    if (length == 0) {
        return DSM_RC_INVALID_FSNAME;
    }
    if (wire_begin(wire, FRAME_QUERY_SPACES, 2 + length)) {
        return wire->lost;
    }
    wire_put_text(wire, asked->fsName, length);
    session->query.kind = QUERY_SPACES;
    return wire_flush(wire);
}

/* Answers from the policy that the server sent at sign-on. */
static dsInt16_t begin_classes(struct session *session, const qryMCData *asked)
{
    struct query *query = &session->query;
    size_t length;
    if (asked->stVersion != qryMCDataVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    if (is_too_long(asked->mcName, DSM_MAX_MC_NAME_LENGTH, &length)) {
        return DSM_RC_INVALID_MCNAME;
    }
    memcpy(query->class_name, asked->mcName ? asked->mcName : "", length);
    query->kind = asked->mcDetail ? QUERY_CLASS_DETAILS : QUERY_CLASSES;
    return DSM_RC_OK;
}

static dsInt16_t begin(struct session *session, dsmQueryType type, const void *buffer)
{
    if (type < qtArchive || type > qtReserved8 || !buffer) {
        return DSM_RC_INVALID_PARM;
    }
    session->query = (struct query){.end_code = DSM_RC_ABORT_NO_MATCH};
    switch (type) {
    case qtArchive:
        return begin_archives(session, buffer);
    case qtFilespace:
        return begin_spaces(session, buffer);
    case qtMC:
        return begin_classes(session, buffer);
    default: /* an archive store has no objects of the other kinds */
        session->query.is_over = true;
        return DSM_RC_OK;
    }
}

dsInt16_t dsmBeginQuery(dsUint32_t dsmHandle, dsmQueryType queryType, dsmQueryBuff *queryBuffer)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_SESSION, &session);
    if (code) {
        return code;
    }
    code = begin(session, queryType, queryBuffer);
    if (!code) {
        session->state = IN_QUERY;
    }
    return session_leave(session, code);
}

/* Puts the next row into query->body, or ends the query. */
static dsInt16_t next_row(struct session *session)
{
    struct wire *wire = &session->wire;
    struct query *query = &session->query;
    uint8_t rows_type = query->kind == QUERY_ARCHIVES ? FRAME_ARCHIVES : FRAME_SPACES;
    while (query->rows == 0 && !query->is_over) {
        if (!read_all(&query->body)) {
            return wire_fail(wire, DSM_RC_COMM_PROTOCOL_ERROR);
        }
        if (wire_next(wire) || wire_body(wire, &query->body)) {
            return wire->lost;
        }
        if (wire->type == rows_type) {
            query->rows = read_u16(&query->body);
        } else if (wire->type == FRAME_STREAM_END) {
            int16_t code = read_i16(&query->body);
            if (!read_all(&query->body)) {
                return wire_fail(wire, DSM_RC_COMM_PROTOCOL_ERROR);
            }
            query->is_over = true;
            query->end_code = code && code != DSM_RC_ABORT_NO_MATCH ? code : query->end_code;
        } else {
            return wire_fail(wire, DSM_RC_COMM_PROTOCOL_ERROR);
        }
    }
    return DSM_RC_OK;
}

static dsInt16_t give_row(struct session *session, dsUint16_t version, void *out)
{
    struct query *query = &session->query;
    if (next_row(session)) {
        return session->wire.lost;
    }
    if (query->is_over) {
        return query->end_code;
    }
    bool is_good = query->kind == QUERY_ARCHIVES ? tell_archive(session, &query->body, version, out)
                                                 : tell_space(session, &query->body, version, out);
    query->rows--;
    query->end_code = DSM_RC_FINISHED;
    return is_good ? DSM_RC_MORE_DATA : wire_fail(&session->wire, DSM_RC_COMM_PROTOCOL_ERROR);
}

static dsInt16_t give_class(struct session *session, dsUint16_t version, void *out)
{
    struct query *query = &session->query;
    const struct policy *policy = &session->policy;
    const struct management_class *class = NULL;
    if (*query->class_name) {
        class = policy_class(policy, query->class_name);
        if (!class) {
            return DSM_RC_INVALID_MCNAME;
        }
        class = query->next_class++ == 0 ? class : NULL;
    } else if (query->next_class < policy->class_count) {
        class = &policy->classes[query->next_class++];
    }
    if (!class) {
        query->next_class = policy->class_count;
        return DSM_RC_FINISHED;
    }
    (query->kind == QUERY_CLASSES ? tell_class_name : tell_class_detail)(class, version, out);
    return DSM_RC_MORE_DATA;
}

static dsInt16_t get_next(struct session *session, DataBlk *block)
{
    struct query *query = &session->query;
    if (!block) {
        return DSM_RC_NULL_DATABLKPTR;
    }
    if (block->stVersion < 1 || block->stVersion > DataBlkVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    block->numBytes = 0;
    if (!block->bufferPtr) {
        return DSM_RC_NULL_BUFPTR;
    }
    dsUint16_t version;
    if (block->bufferLen < sizeof version) {
        return DSM_RC_BUFF_TOO_SMALL;
    }
    memcpy(&version, block->bufferPtr, sizeof version);
    size_t size = response_size(query->kind, version);
    if (size == 0) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    if (block->bufferLen < size) {
        return DSM_RC_BUFF_TOO_SMALL;
    }
    bool is_policy = query->kind == QUERY_CLASSES || query->kind == QUERY_CLASS_DETAILS;
    dsInt16_t code = (is_policy ? give_class : give_row)(session, version, block->bufferPtr);
    if (code == DSM_RC_MORE_DATA) {
        block->numBytes = (dsUint32_t)size;
    }
    return code;
}

dsInt16_t dsmGetNextQObj(dsUint32_t dsmHandle, DataBlk *dataBlkPtr)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_QUERY, &session);
    if (code) {
        return code;
    }
    return session_leave(session, get_next(session, dataBlkPtr));
}

static dsInt16_t end_query(struct session *session)
{
    struct query *query = &session->query;
    struct wire *wire = &session->wire;
    bool is_streaming = (query->kind == QUERY_ARCHIVES || query->kind == QUERY_SPACES) && !query->is_over;
    if (is_streaming && (wire_begin(wire, FRAME_STOP, 0) || wire_flush(wire))) {
        return wire->lost;
    }
    while (is_streaming) {
        struct reader body;
        if (wire_next(wire) || wire_body(wire, &body)) {
            return wire->lost;
        }
        is_streaming = wire->type != FRAME_STREAM_END;
    }
    session->state = IN_SESSION;
    return DSM_RC_OK;
}

dsInt16_t dsmEndQuery(dsUint32_t dsmHandle)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_QUERY, &session);
    if (code) {
        return code;
    }
    return session_leave(session, end_query(session));
}

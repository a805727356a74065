/* Transactions: their beginning, the vote, and their operations without data.
 *
 * One idea: no operation is answered before the vote. If the server refuses a deletion because the object is retained
 * or held, dsmEndTxn returns that as the reason, and nothing of the transaction has happened.
 */
#include <string.h>

#include "access.h"
#include "names.h"
#include "session.h"

dsInt16_t dsmBeginTxn(dsUint32_t dsmHandle)
{
    struct session *session;
    dsInt16_t code = access_enter_to_change(dsmHandle, &session);
    if (code) {
        return code;
    }
    session->transaction = (struct transaction){0};
    session->state = IN_TRANSACTION;
    return session_leave(session, DSM_RC_OK);
}

/* Waits for the outcome of a transaction that the server knows. A frame that arrived before the vote was sent may be
 * a warning. An outcome before the vote would repeat that of an earlier transaction. */
static dsInt16_t hear_vote(struct session *session, bool came_unasked, uint16_t *reason)
{
    struct wire *wire = &session->wire;
    struct reader body;
    bool may_warn = !session->transaction.is_doomed;
    do {
        if (wire_next(wire) || wire_body(wire, &body)) {
            return wire->lost;
        }
        *reason = read_u16(&body);
        bool is_warning = wire->type == FRAME_WILL_ABORT && may_warn;
        if (!read_all(&body) || (wire->type != FRAME_VOTE && !is_warning) || (came_unasked && !is_warning)) {
            return wire_fail(wire, DSM_RC_COMM_PROTOCOL_ERROR);
        }
        may_warn = came_unasked = false;
        session->transaction.is_doomed |= is_warning;
    } while (wire->type != FRAME_VOTE);
    if (*reason == 0 && session->transaction.is_doomed) { /* data of this transaction was discarded */
        return wire_fail(wire, DSM_RC_COMM_PROTOCOL_ERROR);
    }
    return DSM_RC_OK;
}

static dsInt16_t vote_on(struct session *session, dsUint8_t vote, dsUint16_t *reason)
{
    *reason = 0;
    if (vote != DSM_VOTE_COMMIT && vote != DSM_VOTE_ABORT) {
        return DSM_RC_INVALID_VOTE;
    }
    if (session->state == IN_SEND && vote == DSM_VOTE_COMMIT) {
        /* After WILL_ABORT the vote may come at once: it rolls back, and returns the server's reason. */
        if (!session->transaction.is_doomed) {
            return DSM_RC_BAD_CALL_SEQUENCE;
        }
        wire_last(&session->wire);
    }
    if (session->transaction.is_on_wire) {
        struct wire *wire = &session->wire;
        bool came_unasked;
        if (wire_has_come(wire, &came_unasked) || wire_begin(wire, FRAME_END_TRANSACTION, 1)) {
            return wire->lost;
        }
        wire_put_u8(wire, vote);
        if (wire_flush(wire)) {
            return wire->lost;
        }
        dsUint16_t heard = 0;
        if (hear_vote(session, came_unasked, &heard)) {
            return wire->lost;
        }
        *reason = heard;
        if (heard == DSM_RS_ABORT_FS_NOT_DEFINED) { /* another session has deleted a known file space */
            session_forget_spaces(session);
        }
    } else if (vote == DSM_VOTE_ABORT) {
        *reason = DSM_RS_ABORT_BY_CLIENT;
    }
    session->state = IN_SESSION;
    return *reason ? DSM_RC_CHECK_REASON_CODE : DSM_RC_OK;
}

dsInt16_t dsmEndTxn(dsUint32_t dsmHandle, dsUint8_t vote, dsUint16_t *reason)
{
    struct session *session;
    dsUint16_t unread;
    dsInt16_t code = session_enter(dsmHandle, IN_TRANSACTION | IN_SEND, &session);
    if (code) {
        if (reason) {
            *reason = 0;
        }
        return code;
    }
    return session_leave(session, vote_on(session, vote, reason ? reason : &unread));
}

static dsInt16_t vote_ex(struct session *session, dsUint8_t vote, dsmEndTxnExOut_t *out)
{
    if (!out) {
        return DSM_RC_INVALID_PARM;
    }
    if (out->stVersion != dsmEndTxnExOutVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    dsUint16_t reason;
    dsInt16_t code = vote_on(session, vote, &reason);
    *out = (dsmEndTxnExOut_t){.stVersion = out->stVersion, .reason = reason};
    return code;
}

dsInt16_t dsmEndTxnEx(dsmEndTxnExIn_t *dsmEndTxnExInP, dsmEndTxnExOut_t *dsmEndTxnExOutP)
{
    struct session *session;
    if (!dsmEndTxnExInP) {
        return DSM_RC_INVALID_PARM;
    }
    dsInt16_t code = session_enter(dsmEndTxnExInP->dsmHandle, IN_TRANSACTION | IN_SEND, &session);
    if (code) {
        return code;
    }
    if (dsmEndTxnExInP->stVersion != dsmEndTxnExInVersion) {
        return session_leave(session, DSM_RC_WRONG_VERSION_PARM);
    }
    return session_leave(session, vote_ex(session, dsmEndTxnExInP->vote, dsmEndTxnExOutP));
}

static dsInt16_t ask_delete(struct session *session, dsmDelType type, const dsmDelInfo *info)
{
    if (type == dtBackup || type == dtBackupID) {
        return DSM_RC_ABORT_NO_MATCH; /* there are no backups */
    }
    if (type != dtArchive) {
        return DSM_RC_INVALID_PARAMETER;
    }
    if (info->archInfo.stVersion != delArchVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    if (session->transaction.is_doomed) {
        return DSM_RC_WILL_ABORT;
    }
    if (session->transaction.operations >= session->policy.objects_max) {
        return DSM_RC_ABORT_TXN_LIMIT_EXCEEDED;
    }
    if (wire_begin(&session->wire, FRAME_DELETE, sizeof(uint64_t))) {
        return session->wire.lost;
    }
    wire_put_u64(&session->wire, number_of(info->archInfo.objId));
    session->transaction.is_on_wire = true;
    session->transaction.operations++;
    return DSM_RC_OK;
}

dsInt16_t dsmDeleteObj(dsUint32_t dsmHandle, dsmDelType delType, dsmDelInfo delInfo)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_TRANSACTION, &session);
    return code ? code : session_leave(session, ask_delete(session, delType, &delInfo));
}

static dsInt16_t ask_event(struct session *session, const dsmRetentionEventIn_t *in, const dsmRetentionEventOut_t *out)
{
    const dsmObjList_t *list = &in->objList;
    struct transaction *transaction = &session->transaction;
    if (transaction->has_event) {
        return DSM_RC_BAD_CALL_SEQUENCE;
    }
    if (!out || in->eventType < eventRetentionActivate || in->eventType > eventReleaseObj) {
        return DSM_RC_INVALID_PARM;
    }
    if (in->stVersion != dsmRetentionEventInVersion || out->stVersion != dsmRetentionEventOutVersion ||
        list->stVersion != dsmObjlistVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    if (list->numObjId == 0 || !list->objId) {
        return DSM_RC_INVALID_PARM;
    }
    if (transaction->is_doomed) {
        return DSM_RC_WILL_ABORT;
    }
    if (list->numObjId > session->policy.objects_max - transaction->operations) {
        return DSM_RC_ABORT_TXN_LIMIT_EXCEEDED;
    }
    struct wire *wire = &session->wire;
    unsigned char head[8] = {(unsigned char)in->eventType};
    uint32_t count = htole32(list->numObjId);
    memcpy(head + 4, &count, sizeof count);
    if (wire_begin_long(wire, FRAME_EVENT, sizeof head + (size_t)list->numObjId * sizeof(uint64_t)) ||
        wire_stream(wire, head, sizeof head)) {
        return wire->lost;
    }
    for (dsUint32_t i = 0; i < list->numObjId; i++) {
        uint64_t id = htole64(number_of(list->objId[i]));
        if (wire_stream(wire, &id, sizeof id)) {
            return wire->lost;
        }
    }
    transaction->is_on_wire = true;
    transaction->has_event = true;
    transaction->operations += list->numObjId;
    return DSM_RC_OK;
}

dsInt16_t dsmRetentionEvent(dsmRetentionEventIn_t *dsmRetentionEventInP, dsmRetentionEventOut_t *dsmRetentionEventOutP)
{
    struct session *session;
    if (!dsmRetentionEventInP) {
        return DSM_RC_INVALID_PARM;
    }
    dsInt16_t code = session_enter(dsmRetentionEventInP->dsmHandle, IN_TRANSACTION, &session);
    return code ? code : session_leave(session, ask_event(session, dsmRetentionEventInP, dsmRetentionEventOutP));
}

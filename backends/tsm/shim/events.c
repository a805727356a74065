/* Events that a program reports, for the log of its server and the error log of this machine. */
#include <stdio.h>
#include <string.h>

#include "logging.h"
#include "names.h"
#include "session.h"

static dsInt16_t log_remotely(struct session *session, dsmLogSeverity severity, const char *message)
{
    struct wire *wire = &session->wire;
    size_t length = strlen(message);
    if (wire_begin(wire, FRAME_LOG, 3 + length)) {
        return wire->lost;
    }
    wire_put_u8(wire, (uint8_t)severity);
    wire_put_text(wire, message, length);
    uint64_t nothing;
    return session_ask(session, &nothing);
}

static dsInt16_t log_event(struct session *session, dsmLogType type, dsmLogSeverity severity, const char *message)
{
    if (type < logServer || type > logNone || severity < logSevInfo || severity > logSevTryBuy) {
        return DSM_RC_INVALID_PARM;
    }
    dsInt16_t code = DSM_RC_OK;
    if (type == logServer || type == logBoth) {
        code = log_remotely(session, severity, message);
    }
    if (!code && (type == logLocal || type == logBoth)) {
        code = log_line(&session->options, message);
    }
    return code;
}

dsInt16_t dsmLogEvent(dsUint32_t dsmHandle, logInfo *lopInfoP)
{
    struct session *session;
    size_t length;
    dsInt16_t code = session_enter(dsmHandle, IN_SESSION, &session);
    if (code) {
        return code;
    }
    if (!lopInfoP || !lopInfoP->message) {
        return session_leave(session, DSM_RC_INVALID_PARM);
    }
    if (is_too_long(lopInfoP->message, MESSAGE_MAX, &length)) {
        return session_leave(session, DSM_RC_STRING_TOO_LONG);
    }
    return session_leave(session, log_event(session, lopInfoP->logType, logSevInfo, lopInfoP->message));
}

static dsInt16_t log_event_ex(struct session *session, const dsmLogExIn_t *in, const dsmLogExOut_t *out)
{
    if (!in || !out) {
        return DSM_RC_INVALID_PARM;
    }
    if (in->stVersion < 1 || in->stVersion > dsmLogExInVersion || out->stVersion > dsmLogExOutVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    if (!in->message) {
        return DSM_RC_INVALID_PARM;
    }
    char message[MESSAGE_MAX + 1];
    size_t id_length = strnlen(in->appMsgID, sizeof in->appMsgID);
    int length = snprintf(message, sizeof message, "%.*s%s%s", (int)id_length, in->appMsgID, id_length ? " " : "",
                          in->message);
    if (length < 0 || length > MESSAGE_MAX) {
        return DSM_RC_STRING_TOO_LONG;
    }
    return log_event(session, in->logType, in->severity, message);
}

dsInt16_t dsmLogEventEx(dsUint32_t dsmHandle, dsmLogExIn_t *dsmLogExInP, dsmLogExOut_t *dsmLogExOutP)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_SESSION, &session);
    return code ? code : session_leave(session, log_event_ex(session, dsmLogExInP, dsmLogExOutP));
}

/* Access rules for what this node has archived, and reading by the rules of other nodes.
 *
 * One idea: the server keeps the rules and applies them to each call. The library knows only whether the session reads
 * from another node or owner, because such a session may not change anything.
 */
#include "access.h"

#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "responses.h"

#define ACCESS_BODY_MAX 2048
#define ANYBODY "*"

dsInt16_t access_read_from(struct session *session)
{
    const struct options *options = &session->options;
    struct wire *wire = &session->wire;
    uint64_t value;
    if (!*options->from_node && !*options->from_owner) {
        return DSM_RC_OK;
    }
    if (wire_begin(wire, FRAME_READ_FROM, ACCESS_BODY_MAX)) {
        return wire->lost;
    }
    wire_put_text(wire, options->from_node, strlen(options->from_node));
    wire_put_text(wire, options->from_owner, strlen(options->from_owner));
    session->only_reads = true;
    return session_ask(session, &value);
}

dsInt16_t access_enter_to_change(dsUint32_t handle, struct session **entered)
{
    dsInt16_t code = session_enter(handle, IN_SESSION, entered);
    if (code) {
        return code;
    }
    return (*entered)->only_reads ? session_leave(*entered, DSM_RC_ABORT_NODE_NOT_AUTHORIZED) : DSM_RC_OK;
}

static dsInt16_t set_access(struct session *session, dsmAccessType type, const dsmObjName *object, const char *node,
                            const char *owner)
{
    struct wire *wire = &session->wire;
    struct name_lengths lengths;
    size_t node_length, owner_length;
    if (type == atBackup) {
        return DSM_RC_NO_FILES_BACKUP;
    }
    if (type != atArchive) {
        return DSM_RC_INVALID_ACCESS_TYPE;
    }
    if (!object) {
        return DSM_RC_NULL_OBJNAME;
    }
    dsmObjName name = *object;
    name.objType = DSM_OBJ_ANY_TYPE; /* rules do not depend on the type */
    dsInt16_t code = check_name_pattern(&name, &lengths);
    if (code) {
        return code;
    }
    owner = owner && *owner ? owner : ANYBODY;
    bool is_long = is_too_long(node, DSM_MAX_NODE_LENGTH, &node_length);
    is_long |= is_too_long(owner, DSM_MAX_OWNER_LENGTH, &owner_length);
    if (is_long || node_length == 0 || lengths.hl + lengths.ll == 0) {
        return DSM_RC_INVALID_SETACCESS;
    }
    uint32_t space;
    code = session_space(session, name.fs, lengths.fs, &space);
    if (code) {
        return code == DSM_RC_FS_NOT_REGISTERED ? DSM_RC_FSNAME_NOTFOUND : code;
    }
    if (wire_begin(wire, FRAME_SET_ACCESS, ACCESS_BODY_MAX)) {
        return wire->lost;
    }
    wire_put_u32(wire, space);
    wire_put_text(wire, name.hl, lengths.hl);
    wire_put_text(wire, name.ll, lengths.ll);
    wire_put_text(wire, node, node_length);
    wire_put_text(wire, owner, owner_length);
    uint64_t number;
    code = session_ask(session, &number);
    if (code == DSM_RC_FSNAME_NOTFOUND) { /* another session has deleted the space */
        session_forget_space(session, name.fs);
    }
    return code;
}

dsInt16_t dsmSetAccess(dsUint32_t dsmHandle, dsmAccessType accessType, dsmObjName *objNameP, char *node, char *owner)
{
    struct session *session;
    dsInt16_t code = access_enter_to_change(dsmHandle, &session);
    return code ? code : session_leave(session, set_access(session, accessType, objNameP, node, owner));
}

static dsInt16_t delete_access(struct session *session, dsUint32_t number)
{
    struct wire *wire = &session->wire;
    uint64_t value;
    if (wire_begin(wire, FRAME_DELETE_ACCESS, sizeof number)) {
        return wire->lost;
    }
    wire_put_u32(wire, number);
    return session_ask(session, &value);
}

dsInt16_t dsmDeleteAccess(dsUint32_t dsmHandle, dsUint32_t ruleNumber)
{
    struct session *session;
    dsInt16_t code = access_enter_to_change(dsmHandle, &session);
    return code ? code : session_leave(session, delete_access(session, ruleNumber));
}

/* Adds the rules of a frame to those already received. Codes: OK, NO_MEMORY, COMM_PROTOCOL_ERROR. */
static dsInt16_t add_rules(struct session *session, struct reader *body, dsUint16_t *count)
{
    unsigned more = read_u16(body);
    if (more > ACCESS_RULES_MAX - *count) {
        return DSM_RC_COMM_PROTOCOL_ERROR;
    }
    qryRespAccessData *rules = realloc(session->access_rules, (*count + more + 1u) * sizeof *rules);
    if (!rules) {
        return DSM_RC_NO_MEMORY;
    }
    session->access_rules = rules;
    for (; more > 0; more--) {
        if (!tell_access_rule(body, &rules[*count])) {
            return DSM_RC_COMM_PROTOCOL_ERROR;
        }
        ++*count;
    }
    return read_all(body) ? DSM_RC_OK : DSM_RC_COMM_PROTOCOL_ERROR;
}

static dsInt16_t hear_rules(struct session *session, dsUint16_t *count)
{
    struct wire *wire = &session->wire;
    struct reader body;
    for (;;) {
        if (wire_next(wire) || wire_body(wire, &body)) {
            return wire->lost;
        }
        if (wire->type == FRAME_STREAM_END) {
            int16_t code = read_i16(&body);
            return read_all(&body) ? code : wire_fail(wire, DSM_RC_COMM_PROTOCOL_ERROR);
        }
        dsInt16_t code = wire->type == FRAME_RULES ? add_rules(session, &body, count) : DSM_RC_COMM_PROTOCOL_ERROR;
        if (code) {
            return wire_fail(wire, code);
        }
    }
}

static dsInt16_t query_access(struct session *session, qryRespAccessData **list, dsUint16_t *count)
{
    if (!list || !count) {
        return DSM_RC_INVALID_PARM;
    }
    *list = NULL;
    *count = 0;
    if (wire_begin(&session->wire, FRAME_QUERY_ACCESS, 0) || wire_flush(&session->wire)) {
        return session->wire.lost;
    }
    dsUint16_t heard = 0;
    dsInt16_t code = hear_rules(session, &heard);
    if (code) {
        return code;
    }
    *list = session->access_rules;
    *count = heard;
    return heard > 0 ? DSM_RC_OK : DSM_RC_ABORT_NO_MATCH;
}

dsInt16_t dsmQueryAccess(dsUint32_t dsmHandle, qryRespAccessData **accessListP, dsUint16_t *numberOfRules)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_SESSION, &session);
    return code ? code : session_leave(session, query_access(session, accessListP, numberOfRules));
}

/* Retrieving objects.
 *
 * One idea: the server sends the objects of the list one after another, and received bytes go directly into the
 * caller's buffer. A call with bytes returns MORE_DATA. The end is a call of its own, with FINISHED and no bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "lending.h"
#include "names.h"
#include "session.h"

#define HEAD_SIZE 16

static dsInt16_t check_list(const dsmGetList *list)
{
    if (!list) {
        return DSM_RC_OBJID_NOTFOUND;
    }
    bool is_partial = list->stVersion == dsmGetListPORVersion;
    if (list->stVersion != dsmGetListVersion && !is_partial) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    if (list->numObjId == 0 || !list->objId) {
        return DSM_RC_OBJID_NOTFOUND;
    }
    if (list->numObjId > (is_partial ? DSM_MAX_PARTIAL_GET_OBJ : DSM_MAX_GET_OBJ)) {
        return DSM_RC_NUMOBJ_EXCEED;
    }
    if (is_partial && !list->partialObjData) {
        return DSM_RC_INVALID_PARM;
    }
    for (dsUint32_t i = 0; is_partial && i < list->numObjId; i++) {
        if (list->partialObjData[i].stVersion != PartialObjDataVersion) {
            return DSM_RC_WRONG_VERSION_PARM;
        }
    }
    return DSM_RC_OK;
}

static dsInt16_t begin(struct session *session, dsmGetType type, const dsmGetList *list)
{
    struct wire *wire = &session->wire;
    dsInt16_t code = check_list(list);
    if (code) {
        return code;
    }
    if (list->stVersion == dsmGetListPORVersion && session->buffers.count > 0) {
        return DSM_RC_POR_NOT_ALLOWED;
    }
    if (type != gtArchive) {
        return type == gtBackup ? DSM_RC_ABORT_NO_MATCH : DSM_RC_INVALID_PARM; /* there are no backups */
    }
    uint64_t *ids = malloc(list->numObjId * sizeof *ids);
    if (!ids) {
        return DSM_RC_NO_MEMORY;
    }
    free(session->get.ids);
    session->get = (struct get){.ids = ids, .count = list->numObjId};
    if (wire_begin(wire, FRAME_GET, 4 + list->numObjId * 3 * sizeof(uint64_t))) {
        return wire->lost;
    }
    wire_put_u32(wire, list->numObjId);
    for (dsUint32_t i = 0; i < list->numObjId; i++) {
        const PartialObjData *part = list->stVersion == dsmGetListPORVersion ? &list->partialObjData[i] : NULL;
        ids[i] = number_of(list->objId[i]);
        wire_put_u64(wire, ids[i]);
        wire_put_u64(wire, part ? number_of(part->partialObjOffset) : 0);
        wire_put_u64(wire, part ? number_of(part->partialObjLength) : 0);
    }
    return wire_flush(wire);
}

dsInt16_t dsmBeginGetData(dsUint32_t dsmHandle, dsBool_t mountWait, dsmGetType getType, dsmGetList *dsmGetObjListP)
{
    struct session *session;
    (void)mountWait; /* everything is on disk */
    dsInt16_t code = session_enter(dsmHandle, IN_SESSION, &session);
    if (code) {
        return code;
    }
    code = begin(session, getType, dsmGetObjListP);
    if (!code) {
        session->state = IN_GET;
    }
    return session_leave(session, code);
}

static dsInt16_t fail(struct session *session)
{
    return wire_fail(&session->wire, DSM_RC_COMM_PROTOCOL_ERROR);
}

static dsInt16_t read_stream_end(struct session *session)
{
    struct get *get = &session->get;
    struct reader body;
    if (wire_body(&session->wire, &body)) {
        return session->wire.lost;
    }
    dsInt16_t code = read_i16(&body);
    if (!read_all(&body)) {
        return fail(session);
    }
    get->is_over = true;
    get->end_code = code ? code : DSM_RC_ABORT_NO_MATCH; /* for later calls that request an object */
    return DSM_RC_OK;
}

/* Skips to the head of the object at `index` in the list. Codes: OK, the server's code for this object or for the
 * whole get, the codes of the connection. */
static dsInt16_t find_head(struct session *session, uint32_t index)
{
    struct wire *wire = &session->wire;
    struct get *get = &session->get;
    unsigned char bytes[HEAD_SIZE];
    while (!get->is_over) {
        if (wire_next(wire)) {
            return wire->lost;
        }
        if (wire->type == FRAME_OBJECT_DATA || wire->type == FRAME_OBJECT_FAILED) {
            continue; /* data of a skipped object */
        }
        if (wire->type == FRAME_STREAM_END) {
            if (read_stream_end(session)) {
                return wire->lost;
            }
            break;
        }
        if (wire->type != FRAME_OBJECT_HEAD || wire->left < sizeof bytes) {
            return fail(session);
        }
        if (wire_take(wire, bytes, sizeof bytes)) {
            return wire->lost;
        }
        struct reader head = {.at = bytes, .left = sizeof bytes};
        uint32_t at = read_u32(&head);
        int16_t code = read_i16(&head);
        read_u16(&head);
        get->object_left = read_u64(&head);
        get->object_code = DSM_RC_OK;
        if (at < get->next || at > index || wire->left > get->object_left) {
            return fail(session);
        }
        get->next = at + 1;
        if (at == index) {
            get->object_left = code ? 0 : get->object_left;
            return code;
        }
    }
    return get->end_code;
}

/* Fills the block. Codes: MORE_DATA, FINISHED, the server's code if it cannot send the rest of the object, the codes
 * of the connection. */
static dsInt16_t fill(struct session *session, DataBlk *block)
{
    struct wire *wire = &session->wire;
    struct get *get = &session->get;
    while (block->numBytes < block->bufferLen && get->object_left > 0) {
        if (wire->left == 0) {
            if (wire_next(wire)) {
                return wire->lost;
            }
            if (wire->type == FRAME_OBJECT_FAILED) {
                struct reader body;
                if (wire_body(wire, &body)) {
                    return wire->lost;
                }
                int16_t code = read_i16(&body);
                get->object_code = code ? code : DSM_RC_ABORT_DATA_UNAVAILABLE;
                get->object_left = 0;
                break;
            }
            if (wire->type != FRAME_OBJECT_DATA || wire->left > get->object_left) {
                return fail(session);
            }
        }
        uint32_t room = block->bufferLen - block->numBytes;
        uint32_t piece = wire->left < room ? wire->left : room;
        if (wire_take(wire, block->bufferPtr + block->numBytes, piece)) {
            return wire->lost;
        }
        block->numBytes += piece;
        get->object_left -= piece;
    }
    if (get->object_code) {
        return get->object_code;
    }
    return block->numBytes > 0 ? DSM_RC_MORE_DATA : DSM_RC_FINISHED;
}

static dsInt16_t check_block(DataBlk *block)
{
    if (!block) {
        return DSM_RC_NULL_DATABLKPTR;
    }
    if (block->stVersion < 1 || block->stVersion > DataBlkVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    block->numBytes = 0;
    if (block->bufferLen == 0) {
        return DSM_RC_ZERO_BUFLEN;
    }
    return block->bufferPtr ? DSM_RC_OK : DSM_RC_NULL_BUFPTR;
}

static dsInt16_t get_object(struct session *session, const ObjID *id, DataBlk *block)
{
    struct get *get = &session->get;
    bool is_lent = session->buffers.count > 0; /* all bytes of the object then come with dsmGetBufferData */
    dsInt16_t code = !is_lent ? check_block(block) : block ? DSM_RC_INVALID_DATABLK : DSM_RC_OK;
    if (code) {
        return code;
    }
    if (!id) {
        return DSM_RC_INVALID_PARM;
    }
    uint32_t index = get->next;
    while (index < get->count && get->ids[index] != number_of(*id)) {
        index++;
    }
    if (index == get->count) {
        return DSM_RC_OBJID_NOTFOUND;
    }
    code = find_head(session, index);
    if (!code && is_lent) {
        code = get->object_left > 0 ? DSM_RC_MORE_DATA : DSM_RC_FINISHED;
    } else if (!code) {
        code = fill(session, block);
    }
    if (code == DSM_RC_MORE_DATA || code == DSM_RC_FINISHED) {
        session->state = IN_OBJECT;
    }
    return code;
}

dsInt16_t dsmGetObj(dsUint32_t dsmHandle, ObjID *objIdP, DataBlk *dataBlkPtr)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_GET, &session);
    return code ? code : session_leave(session, get_object(session, objIdP, dataBlkPtr));
}

dsInt16_t dsmGetData(dsUint32_t dsmHandle, DataBlk *dataBlkPtr)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_OBJECT, &session);
    if (code) {
        return code;
    }
    code = session->buffers.count > 0 ? DSM_RC_BAD_CALL_SEQUENCE : check_block(dataBlkPtr);
    if (!code) {
        code = fill(session, dataBlkPtr);
    }
    return session_leave(session, code);
}

/* Lends a buffer only if it has bytes. */
static dsInt16_t get_buffer(struct session *session, const getBufferDataIn_t *in, getBufferDataOut_t *out)
{
    struct buffers *buffers = &session->buffers;
    struct get *get = &session->get;
    if (buffers->count == 0) {
        return DSM_RC_BAD_CALL_SEQUENCE;
    }
    if (!out) {
        return DSM_RC_INVALID_PARM;
    }
    if (in->stVersion != getBufferDataInVersion || out->stVersion != getBufferDataOutVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    *out = (getBufferDataOut_t){.stVersion = out->stVersion};
    if (get->object_left == 0) {
        return get->object_code ? get->object_code : DSM_RC_FINISHED;
    }
    dsUint8_t handle;
    dsInt16_t code = lend_buffer(session, &handle);
    if (code) {
        return code;
    }
    struct buffer *buffer = &buffers->all[handle - 1];
    DataBlk block = {.stVersion = DataBlkVersion, .bufferLen = BUFFER_SIZE, .bufferPtr = buffer->bytes};
    code = fill(session, &block);
    if (code != DSM_RC_MORE_DATA) {
        buffers_give_back(buffers, buffer);
        return code;
    }
    out->tsmBufferHandle = handle;
    out->dataPtr = buffer->bytes;
    out->numBytes = block.numBytes;
    return code;
}

dsInt16_t dsmGetBufferData(getBufferDataIn_t *getBufferDataInP, getBufferDataOut_t *getBufferDataOutP)
{
    struct session *session;
    if (!getBufferDataInP) {
        return DSM_RC_INVALID_PARM;
    }
    dsInt16_t code = session_enter(getBufferDataInP->dsmHandle, IN_OBJECT, &session);
    return code ? code : session_leave(session, get_buffer(session, getBufferDataInP, getBufferDataOutP));
}

dsInt16_t dsmEndGetObj(dsUint32_t dsmHandle)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_OBJECT, &session);
    if (code) {
        return code;
    }
    session->state = IN_GET; /* the next call skips the remaining bytes */
    return session_leave(session, DSM_RC_OK);
}

static dsInt16_t end_get(struct session *session)
{
    struct wire *wire = &session->wire;
    struct get *get = &session->get;
    bool wants_no_more = get->next < get->count || get->object_left > 0;
    if (!get->is_over && wants_no_more && (wire_begin(wire, FRAME_STOP, 0) || wire_flush(wire))) {
        return wire->lost;
    }
    while (!get->is_over) {
        if (wire_next(wire) || (wire->type == FRAME_STREAM_END && read_stream_end(session))) {
            return wire->lost;
        }
    }
    free(get->ids);
    *get = (struct get){0};
    session->state = IN_SESSION;
    return DSM_RC_OK;
}

dsInt16_t dsmEndGetData(dsUint32_t dsmHandle)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_GET | IN_OBJECT, &session);
    return code ? code : session_leave(session, end_get(session));
}

static dsInt16_t end_get_ex(struct session *session, dsmEndGetDataExOut_t *out)
{
    if (!out) {
        return DSM_RC_INVALID_PARM;
    }
    if (out->stVersion != dsmEndGetDataExOutVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    dsInt16_t code = end_get(session);
    *out = (dsmEndGetDataExOut_t){.stVersion = out->stVersion};
    return code;
}

dsInt16_t dsmEndGetDataEx(dsmEndGetDataExIn_t *dsmEndGetDataExInP, dsmEndGetDataExOut_t *dsmEndGetDataExOutP)
{
    struct session *session;
    if (!dsmEndGetDataExInP) {
        return DSM_RC_INVALID_PARM;
    }
    dsInt16_t code = session_enter(dsmEndGetDataExInP->dsmHandle, IN_GET | IN_OBJECT, &session);
    if (code) {
        return code;
    }
    if (dsmEndGetDataExInP->stVersion != dsmEndGetDataExInVersion) {
        return session_leave(session, DSM_RC_WRONG_VERSION_PARM);
    }
    return session_leave(session, end_get_ex(session, dsmEndGetDataExOutP));
}

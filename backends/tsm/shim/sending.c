/* Sending objects.
 *
 * One idea: a small object costs no system call. Names and bytes of small objects are collected in the session's
 * buffer. The buffer is sent when it is full, when the oldest bytes have waited for long, or with the vote. The bytes
 * of large objects are sent from the caller's memory without a copy. Before anything is sent, the library checks
 * whether the server has given up the transaction.
 */
#include <stddef.h>
#include <string.h>

#include "attributes.h"
#include "session.h"

/* Reads the server's warning that it will not commit, if it has arrived. Codes: OK, WILL_ABORT, the codes of the
 * connection. */
static dsInt16_t look_for_warning(struct session *session)
{
    struct wire *wire = &session->wire;
    struct reader body;
    bool has_come;
    if (wire_has_come(wire, &has_come)) {
        return wire->lost;
    }
    if (!has_come) {
        return DSM_RC_OK;
    }
    if (wire_expect(wire, FRAME_WILL_ABORT) || wire_body(wire, &body)) {
        return wire->lost;
    }
    read_u16(&body); /* the reason comes with the vote */
    if (!read_all(&body)) {
        return wire_fail(wire, DSM_RC_COMM_PROTOCOL_ERROR);
    }
    session->transaction.is_doomed = true;
    return DSM_RC_WILL_ABORT;
}

/* Codes: OK, WILL_ABORT (the bytes are then discarded), the codes of the connection. */
static dsInt16_t send_bytes(struct session *session, const char *bytes, size_t length)
{
    while (length > 0) {
        size_t piece = length < DATA_BODY_MAX ? length : DATA_BODY_MAX;
        bool is_overdue = wire_is_overdue(&session->wire); /* the server must not take a slow sender for a silent one */
        if (is_overdue || wire_would_send(&session->wire, piece)) {
            dsInt16_t code = look_for_warning(session);
            if (code) {
                return code;
            }
        }
        if (wire_data(&session->wire, bytes, piece) || (is_overdue && wire_flush(&session->wire))) {
            return session->wire.lost;
        }
        session->transaction.object_bytes += piece;
        bytes += piece;
        length -= piece;
    }
    return DSM_RC_OK;
}

static bool is_version_known(const DataBlk *block)
{
    return block->stVersion >= 1 && block->stVersion <= DataBlkVersion;
}

static bool is_bound_to(const struct binding *binding, const dsmObjName *name, const struct name_lengths *lengths)
{
    return binding->is_made && memcmp(binding->name.ll, name->ll, lengths->ll + 1) == 0 &&
           memcmp(binding->name.hl, name->hl, lengths->hl + 1) == 0 &&
           memcmp(binding->name.fs, name->fs, lengths->fs + 1) == 0;
}

/* Chooses the class of the object. Codes: OK, NEEDTO_CALL_BINDMC, OBJ_EXCLUDED, INVALID_MCNAME, OBJ_NOACG. */
static dsInt16_t choose_class(const struct session *session, const dsmObjName *name,
                              const struct name_lengths *lengths, const char *class_name,
                              const struct management_class **class)
{
    if (!is_bound_to(&session->binding, name, lengths)) {
        return DSM_RC_NEEDTO_CALL_BINDMC;
    }
    if (session->binding.is_excluded) {
        return DSM_RC_OBJ_EXCLUDED;
    }
    *class = session->binding.class;
    if (class_name && *class_name) {
        *class = policy_class(&session->policy, class_name);
        if (!*class) {
            return DSM_RC_INVALID_MCNAME;
        }
    }
    return (*class)->has_archive_group ? DSM_RC_OK : DSM_RC_OBJ_NOACG;
}

/* Returns whether the transaction can take one more object, with or without data. */
static bool fits(const struct session *session, const struct management_class *class, bool has_data)
{
    const struct transaction *transaction = &session->transaction;
    return transaction->operations < session->policy.objects_max &&
           (!has_data || !transaction->destination || strcmp(transaction->destination, class->destination) == 0);
}

static dsInt16_t put_object(struct session *session, const dsmObjName *name, const struct object_attributes *checked,
                            const struct management_class *class, uint32_t space, bool is_compressed)
{
    struct wire *wire = &session->wire;
    if (wire_would_send(wire, OBJECT_BODY_MAX)) {
        dsInt16_t code = look_for_warning(session);
        if (code) {
            return code;
        }
    }
    if (wire_begin(wire, FRAME_OBJECT, OBJECT_BODY_MAX)) {
        return wire->lost;
    }
    wire_put_u32(wire, space);
    wire_put_u16(wire, (uint16_t)(class - session->policy.classes));
    wire_put_u8(wire, name->objType);
    wire_put_u8(wire, is_compressed);
    wire_put_u64(wire, checked->size_estimate);
    put_attributes(wire, name, checked);
    return DSM_RC_OK;
}

static dsInt16_t send_object(struct session *session, dsmSendType type, const void *send_buffer,
                             const dsmObjName *name, const ObjAttr *attributes, DataBlk *block)
{
    struct transaction *transaction = &session->transaction;
    struct object_attributes checked;
    const struct management_class *class;
    const char *description;
    uint32_t space;
    dsInt16_t code = check_send_type(type);
    if (!code) {
        code = description_of(send_buffer, &description);
    }
    if (!code) {
        code = check_attributes(session, name, attributes, description, &checked);
    }
    if (code) {
        return code;
    }
    if (block && session->buffers.count > 0) {
        return DSM_RC_INVALID_DATABLK;
    }
    if (block && !is_version_known(block)) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    if (block) {
        block->numBytes = 0;
    }
    size_t length = block && block->bufferPtr ? block->bufferLen : 0;
    if (length > 0 && checked.size_estimate == 0) {
        return DSM_RC_SENDDATA_WITH_ZERO_SIZE;
    }
    code = choose_class(session, name, &checked.lengths, attributes->mcNameP, &class);
    if (!code) {
        code = session_space(session, name->fs, checked.lengths.fs, &space);
    }
    if (code) {
        return code;
    }
    bool has_data = checked.size_estimate > 0;
    if (!fits(session, class, has_data)) {
        return DSM_RC_NEEDTO_ENDTXN;
    }
    if (transaction->is_doomed) {
        return DSM_RC_WILL_ABORT;
    }
    code = put_object(session, name, &checked, class, space, attributes->objCompressed);
    if (code) {
        return code;
    }
    transaction->is_on_wire = true;
    transaction->operations++;
    transaction->destination = has_data ? class->destination : transaction->destination;
    transaction->takes_data = has_data;
    transaction->object_bytes = 0;
    code = send_bytes(session, block ? block->bufferPtr : NULL, length);
    if (code) {
        wire_last(&session->wire); /* the call has failed, so no object is open */
        return code;
    }
    if (block) {
        block->numBytes = (dsUint32_t)length;
    }
    session->state = IN_SEND;
    return DSM_RC_OK;
}

dsInt16_t dsmSendObj(dsUint32_t dsmHandle, dsmSendType sendType, void *sendBuff, dsmObjName *objNameP,
                     ObjAttr *objAttrPtr, DataBlk *dataBlkPtr)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_TRANSACTION, &session);
    if (code) {
        return code;
    }
    return session_leave(session, send_object(session, sendType, sendBuff, objNameP, objAttrPtr, dataBlkPtr));
}

static dsInt16_t send_data(struct session *session, DataBlk *block)
{
    if (session->buffers.count > 0) {
        return DSM_RC_BAD_CALL_SEQUENCE;
    }
    if (!block) {
        return DSM_RC_NULL_DATABLKPTR;
    }
    if (!is_version_known(block)) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    block->numBytes = 0;
    if (block->bufferLen == 0) { /* some programs end an object with an empty piece */
        return DSM_RC_OK;
    }
    if (!block->bufferPtr) {
        return DSM_RC_NULL_BUFPTR;
    }
    if (!session->transaction.takes_data) {
        return DSM_RC_SENDDATA_WITH_ZERO_SIZE;
    }
    dsInt16_t code = session->transaction.is_doomed ? DSM_RC_WILL_ABORT
                                                    : send_bytes(session, block->bufferPtr, block->bufferLen);
    if (!code) {
        block->numBytes = block->bufferLen;
    }
    return code;
}

dsInt16_t dsmSendData(dsUint32_t dsmHandle, DataBlk *dataBlkPtr)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_SEND, &session);
    return code ? code : session_leave(session, send_data(session, dataBlkPtr));
}

/* A sent buffer belongs to the library again, also if sending its bytes failed. */
static dsInt16_t send_buffer(struct session *session, const sendBufferDataIn_t *in, const sendBufferDataOut_t *out)
{
    struct buffers *buffers = &session->buffers;
    if (buffers->count == 0) {
        return DSM_RC_BAD_CALL_SEQUENCE;
    }
    if (!out) {
        return DSM_RC_INVALID_PARM;
    }
    if (in->stVersion != sendBufferDataInVersion || out->stVersion != sendBufferDataOutVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    struct buffer *buffer = buffers_find(buffers, in->tsmBufferHandle, in->dataPtr);
    if (!buffer) {
        return DSM_RC_INVALID_TSMBUFFER;
    }
    if (in->numBytes > BUFFER_SIZE) {
        return DSM_RC_TOO_MANY_BYTES;
    }
    if (in->numBytes > 0 && !session->transaction.takes_data) {
        return DSM_RC_SENDDATA_WITH_ZERO_SIZE;
    }
    dsInt16_t code = session->transaction.is_doomed ? DSM_RC_WILL_ABORT
                                                    : send_bytes(session, buffer->bytes, in->numBytes);
    buffers_give_back(buffers, buffer);
    return code;
}

dsInt16_t dsmSendBufferData(sendBufferDataIn_t *sendBufferDataInP, sendBufferDataOut_t *sendBufferDataOutP)
{
    struct session *session;
    if (!sendBufferDataInP) {
        return DSM_RC_INVALID_PARM;
    }
    dsInt16_t code = session_enter(sendBufferDataInP->dsmHandle, IN_SEND, &session);
    return code ? code : session_leave(session, send_buffer(session, sendBufferDataInP, sendBufferDataOutP));
}

static dsInt16_t end_object(struct session *session)
{
    if (wire_last(&session->wire)) {
        return session->wire.lost;
    }
    session->state = IN_TRANSACTION;
    return DSM_RC_OK;
}

dsInt16_t dsmEndSendObj(dsUint32_t dsmHandle)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_SEND, &session);
    return code ? code : session_leave(session, end_object(session));
}

static dsInt16_t end_object_ex(struct session *session, dsmEndSendObjExOut_t *out)
{
    if (!out) {
        return DSM_RC_INVALID_PARM;
    }
    if (out->stVersion != 2 && out->stVersion != dsmEndSendObjExOutVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    dsInt16_t code = end_object(session);
    if (!code) {
        dsmEndSendObjExOut_t told = {
            .stVersion = out->stVersion,
            .totalBytesSent = halves_of(session->transaction.object_bytes),
            .encryptionType = DSM_ENCRYPT_NO,
        };
        memcpy(out, &told, out->stVersion == 2 ? offsetof(dsmEndSendObjExOut_t, objDeduplicated) : sizeof told);
    }
    return code;
}

dsInt16_t dsmEndSendObjEx(dsmEndSendObjExIn_t *dsmEndSendObjExInP, dsmEndSendObjExOut_t *dsmEndSendObjExOutP)
{
    struct session *session;
    if (!dsmEndSendObjExInP) {
        return DSM_RC_INVALID_PARM;
    }
    dsInt16_t code = session_enter(dsmEndSendObjExInP->dsmHandle, IN_SEND, &session);
    if (code) {
        return code;
    }
    if (dsmEndSendObjExInP->stVersion != dsmEndSendObjExInVersion) {
        return session_leave(session, DSM_RC_WRONG_VERSION_PARM);
    }
    return session_leave(session, end_object_ex(session, dsmEndSendObjExOutP));
}

/* Changes of the attributes of an archived object, each in a transaction of its own. */
#include "attributes.h"

#include <string.h>

#include "access.h"
#include "session.h"

#define UPDATE_BITS (DSM_ARCHUPD_OWNER | DSM_ARCHUPD_OBJINFO | DSM_ARCHUPD_DESCR)

/* The caller need not fill in fields that are not updated. */
static ObjAttr chosen(const ObjAttr *attributes, dsUint32_t mask)
{
    ObjAttr chosen = {.stVersion = attributes->stVersion};
    if (mask & DSM_ARCHUPD_OWNER) {
        memcpy(chosen.owner, attributes->owner, sizeof chosen.owner);
    }
    if (mask & DSM_ARCHUPD_OBJINFO) {
        chosen.sizeEstimate = attributes->sizeEstimate;
        chosen.objInfoLength = attributes->objInfoLength;
        chosen.objInfo = attributes->objInfo;
        chosen.useExtObjInfo = attributes->stVersion >= OBJATTR_EXTENDED_INFO ? attributes->useExtObjInfo : bFalse;
    }
    return chosen;
}

/* `id` 0: the object of that name that was archived last. */
static dsInt16_t update(struct session *session, dsmSendType type, const char *description, const dsmObjName *name,
                        const ObjAttr *attributes, dsUint32_t mask, uint64_t id)
{
    struct object_attributes checked;
    uint32_t space;
    dsInt16_t code = check_send_type(type);
    if (code == DSM_RC_ABORT_INSERT_NOT_ALLOWED) {
        return DSM_RC_ABORT_NO_MATCH; /* there are no backups to update */
    }
    if (code) {
        return code;
    }
    if (mask == 0 || (mask & ~(dsUint32_t)UPDATE_BITS)) {
        return DSM_RC_INVALID_ACTION;
    }
    ObjAttr used = attributes ? chosen(attributes, mask) : (ObjAttr){0};
    code = check_attributes(session, name, attributes ? &used : NULL, description, &checked);
    if (!code) {
        code = session_space(session, name->fs, checked.lengths.fs, &space);
    }
    if (code) {
        return code;
    }
    struct wire *wire = &session->wire;
    if (wire_begin(wire, FRAME_UPDATE_OBJECT, OBJECT_BODY_MAX)) {
        return wire->lost;
    }
    wire_put_u32(wire, space);
    wire_put_u32(wire, mask);
    wire_put_u64(wire, id);
    wire_put_u64(wire, checked.size_estimate);
    wire_put_u8(wire, name->objType);
    put_attributes(wire, name, &checked);
    uint64_t nothing;
    return session_ask(session, &nothing);
}

dsInt16_t dsmUpdateObj(dsUint32_t dsmHandle, dsmSendType sendType, void *sendBuff, dsmObjName *objNameP,
                       ObjAttr *objAttrPtr, dsUint32_t objUpdAct)
{
    struct session *session;
    const char *description = NULL;
    dsInt16_t code = access_enter_to_change(dsmHandle, &session);
    if (code) {
        return code;
    }
    if (objUpdAct & DSM_ARCHUPD_DESCR) {
        code = description_of(sendBuff, &description);
    }
    if (!code) {
        code = update(session, sendType, description, objNameP, objAttrPtr, objUpdAct, 0);
    }
    return session_leave(session, code);
}

static dsInt16_t update_ex(struct session *session, const dsmUpdateObjExIn_t *in, const dsmUpdateObjExOut_t *out)
{
    if (!out) {
        return DSM_RC_INVALID_PARM;
    }
    if (in->stVersion != dsmUpdateObjExInVersion || out->stVersion != dsmUpdateObjExOutVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    const char *description = in->objUpdAct & DSM_ARCHUPD_DESCR ? in->descrP : NULL;
    return update(session, in->sendType, description, in->objNameP, in->objAttrPtr, in->objUpdAct,
                  number_of(in->archObjId));
}

dsInt16_t dsmUpdateObjEx(dsmUpdateObjExIn_t *dsmUpdateObjExInP, dsmUpdateObjExOut_t *dsmUpdateObjExOutP)
{
    struct session *session;
    if (!dsmUpdateObjExInP) {
        return DSM_RC_INVALID_PARM;
    }
    dsInt16_t code = access_enter_to_change(dsmUpdateObjExInP->dsmHandle, &session);
    return code ? code : session_leave(session, update_ex(session, dsmUpdateObjExInP, dsmUpdateObjExOutP));
}

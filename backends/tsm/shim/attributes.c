#include "attributes.h"

#include <string.h>

#define OBJATTR_OLDEST 2

dsInt16_t check_attributes(const struct session *session, const dsmObjName *name, const ObjAttr *attributes,
                           const char *description, struct object_attributes *checked)
{
    dsInt16_t code = check_name(name, &checked->lengths);
    if (code) {
        return code;
    }
    if (!attributes) {
        return DSM_RC_NULL_OBJATTRPTR;
    }
    if (attributes->stVersion < OBJATTR_OLDEST || attributes->stVersion > ObjAttrVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    bool is_extended = attributes->stVersion >= OBJATTR_EXTENDED_INFO && attributes->useExtObjInfo;
    if (attributes->objInfoLength > (is_extended ? DSM_MAX_EXT_OBJINFO_LENGTH : DSM_MAX_OBJINFO_LENGTH)) {
        return DSM_RC_OBJINFO_TOOLONG;
    }
    if (attributes->objInfoLength > 0 && !attributes->objInfo) {
        return DSM_RC_INVALID_PARM;
    }
    if (is_too_long(attributes->owner, DSM_MAX_OWNER_LENGTH, &checked->owner_length) ||
        !session_may_use_owner(session, attributes->owner)) {
        return DSM_RC_INVALID_OBJOWNER;
    }
    if (is_too_long(description, DSM_MAX_DESCR_LENGTH, &checked->description_length)) {
        return DSM_RC_DESC_TOOLONG;
    }
    checked->owner = attributes->owner;
    if (checked->owner_length == 0) {
        checked->owner = session->owner;
        checked->owner_length = strlen(session->owner);
    }
    checked->description = description;
    checked->info = attributes->objInfo;
    checked->info_length = attributes->objInfoLength;
    checked->size_estimate = number_of(attributes->sizeEstimate);
    return DSM_RC_OK;
}

void put_attributes(struct wire *wire, const dsmObjName *name, const struct object_attributes *attributes)
{
    wire_put_text(wire, name->hl, attributes->lengths.hl);
    wire_put_text(wire, name->ll, attributes->lengths.ll);
    wire_put_text(wire, attributes->owner, attributes->owner_length);
    wire_put_text(wire, attributes->description, attributes->description_length);
    wire_put_text(wire, attributes->info, attributes->info_length);
}

dsInt16_t description_of(const void *send_buffer, const char **description)
{
    const sndArchiveData *data = send_buffer;
    *description = data ? data->descr : NULL;
    return data && data->stVersion != sndArchiveDataVersion ? DSM_RC_WRONG_VERSION_PARM : DSM_RC_OK;
}

dsInt16_t check_send_type(dsmSendType type)
{
    if (type == stArchive || type == stArchiveMountWait) {
        return DSM_RC_OK;
    }
    return type == stBackup || type == stBackupMountWait ? DSM_RC_ABORT_INSERT_NOT_ALLOWED : DSM_RC_INVALID_SENDTYPE;
}

/* The checked attributes of an object that a caller sends or updates. */
#ifndef ATTRIBUTES_H
#define ATTRIBUTES_H

#include "names.h"
#include "session.h"

/* The most bytes of an OBJECT or UPDATE_OBJECT frame's body that are not bytes of the object. */
#define OBJECT_BODY_MAX 8192

#define OBJATTR_EXTENDED_INFO 4 /* from this version of ObjAttr on the caller may allow a longer objInfo */

struct object_attributes {
    struct name_lengths lengths;
    const char *owner;
    size_t owner_length;
    const char *description;
    size_t description_length;
    const char *info;
    uint16_t info_length;
    uint64_t size_estimate;
};

/* Codes: OK, NULL_OBJATTRPTR, WRONG_VERSION_PARM, INVALID_PARM, INVALID_OBJOWNER, OBJINFO_TOOLONG, DESC_TOOLONG, and
 * those of check_name. `description` may be NULL. */
dsInt16_t check_attributes(const struct session *session, const dsmObjName *name, const ObjAttr *attributes,
                           const char *description, struct object_attributes *checked);

/* Writes the texts hl, ll, owner, description and info. */
void put_attributes(struct wire *wire, const dsmObjName *name, const struct object_attributes *attributes);

/* The description in a sndArchiveData; both may be NULL. Codes: OK, WRONG_VERSION_PARM. */
dsInt16_t description_of(const void *send_buffer, const char **description);

/* Checks that a send type is that of archives. Codes: OK; ABORT_INSERT_NOT_ALLOWED for backups, which a protected
 * server refuses; INVALID_SENDTYPE. */
dsInt16_t check_send_type(dsmSendType type);

#endif

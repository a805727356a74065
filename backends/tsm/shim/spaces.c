/* File spaces. */
#include <string.h>

#include "access.h"
#include "names.h"
#include "session.h"

#define SPACE_BODY_MAX 4096
#define UPDATE_BITS                                                                                                   \
    (DSM_FSUPD_FSTYPE | DSM_FSUPD_FSINFO | DSM_FSUPD_BACKSTARTDATE | DSM_FSUPD_BACKCOMPLETEDATE |                     \
     DSM_FSUPD_OCCUPANCY | DSM_FSUPD_CAPACITY)

/* The common input of dsmRegisterFS and dsmUpdateFS. */
struct space_data {
    const char *type;
    dsStruct64_t occupancy;
    dsStruct64_t capacity;
    const dsmUnixFSAttrib *attributes;
};

static void put_space(struct wire *wire, const char *name, const struct space_data *data, size_t type_length)
{
    wire_put_text(wire, name, strlen(name));
    wire_put_text(wire, data->type ? data->type : "", type_length);
    wire_put_u64(wire, number_of(data->occupancy));
    wire_put_u64(wire, number_of(data->capacity));
    wire_put_text(wire, data->attributes->fsInfo, data->attributes->fsInfoLength);
}

static dsInt16_t check_data(const struct space_data *data, size_t *type_length)
{
    if (is_too_long(data->type, DSM_MAX_FSTYPE_LENGTH, type_length)) {
        return DSM_RC_INVALID_PARM;
    }
    return data->attributes->fsInfoLength > DSM_MAX_USER_FSINFO_LENGTH ? DSM_RC_FSINFO_TOOLONG : DSM_RC_OK;
}

static dsInt16_t register_space(struct session *session, const regFSData *space)
{
    size_t name_length, type_length;
    if (!space) {
        return DSM_RC_INVALID_PARM;
    }
    if (space->stVersion > regFSDataVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    struct space_data data = {space->fsType, space->occupancy, space->capacity, &space->fsAttr.unixFSAttr};
    dsInt16_t code = check_space(space->fsName, &name_length);
    if (!code) {
        code = check_data(&data, &type_length);
    }
    if (code) {
        return code;
    }
    if (wire_begin(&session->wire, FRAME_REGISTER_SPACE, SPACE_BODY_MAX)) {
        return session->wire.lost;
    }
    put_space(&session->wire, space->fsName, &data, type_length);
    uint64_t number;
    code = session_ask(session, &number);
    if (code == DSM_RC_OK || code == DSM_RC_FS_ALREADY_REGED) {
        dsInt16_t failure = session_remember_space(session, space->fsName, (uint32_t)number);
        return failure ? failure : code;
    }
    return code;
}

dsInt16_t dsmRegisterFS(dsUint32_t dsmHandle, regFSData *regFilespaceP)
{
    struct session *session;
    dsInt16_t code = access_enter_to_change(dsmHandle, &session);
    return code ? code : session_leave(session, register_space(session, regFilespaceP));
}

static dsInt16_t update_space(struct session *session, const char *name, const dsmFSUpd *update, dsUint32_t mask)
{
    size_t name_length, type_length;
    if (!update) {
        return DSM_RC_INVALID_PARM;
    }
    if (update->stVersion != dsmFSUpdVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    if (mask == 0 || (mask & ~(dsUint32_t)UPDATE_BITS)) {
        return DSM_RC_INVALID_ACTION;
    }
    /* The caller need not fill in fields that are not updated. */
    static const dsmUnixFSAttrib NO_ATTRIBUTES = {0};
    struct space_data data = {
        .type = mask & DSM_FSUPD_FSTYPE ? update->fsType : NULL,
        .occupancy = update->occupancy,
        .capacity = update->capacity,
        .attributes = mask & DSM_FSUPD_FSINFO ? &update->fsAttr.unixFSAttr : &NO_ATTRIBUTES,
    };
    dsInt16_t code = check_space(name, &name_length);
    if (!code) {
        code = check_data(&data, &type_length);
    }
    if (code) {
        return code;
    }
    if (wire_begin(&session->wire, FRAME_UPDATE_SPACE, SPACE_BODY_MAX)) {
        return session->wire.lost;
    }
    wire_put_u32(&session->wire, mask);
    put_space(&session->wire, name, &data, type_length);
    uint64_t number;
    return session_ask(session, &number);
}

dsInt16_t dsmUpdateFS(dsUint32_t dsmHandle, char *fs, dsmFSUpd *fsUpdP, dsUint32_t fsUpdAct)
{
    struct session *session;
    dsInt16_t code = access_enter_to_change(dsmHandle, &session);
    return code ? code : session_leave(session, update_space(session, fs, fsUpdP, fsUpdAct));
}

/* The server removes what has expired. It keeps the rest, and then the file space too. That is no error: by IBM's
 * manual (8.2.2, dsmDeleteFS) the call "returns rc=0 even though the file space was not actually deleted". */
static dsInt16_t delete_space(struct session *session, const char *name, unsigned char repository)
{
    size_t length;
    if (repository != DSM_ARCHIVE_REP && repository != DSM_BACKUP_REP && repository != DSM_REPOS_ALL) {
        return DSM_RC_INVALID_REPOS;
    }
    dsInt16_t code = check_space(name, &length);
    if (code) {
        return code;
    }
    if (repository == DSM_BACKUP_REP) { /* there are no backups to delete, and the archives must stay */
        uint32_t number;
        code = session_space(session, name, length, &number);
        return code == DSM_RC_FS_NOT_REGISTERED ? DSM_RC_FSNAME_NOTFOUND : code;
    }
    if (wire_begin(&session->wire, FRAME_DELETE_SPACE, 2 + length)) {
        return session->wire.lost;
    }
    wire_put_text(&session->wire, name, length);
    uint64_t kept;
    code = session_ask(session, &kept);
    if (!code && kept == 0) {
        session_forget_space(session, name);
    }
    return code;
}

dsInt16_t dsmDeleteFS(dsUint32_t dsmHandle, char *fs, unsigned char repository)
{
    struct session *session;
    dsInt16_t code = access_enter_to_change(dsmHandle, &session);
    return code ? code : session_leave(session, delete_space(session, fs, repository));
}

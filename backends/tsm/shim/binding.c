/* Binding a name to a management class. */
#include <string.h>

#include "names.h"
#include "session.h"

static void tell_class(const struct management_class *class, mcBindKey *key)
{
    mcBindKey told = {
        .stVersion = key->stVersion,
        .backup_cg_exists = bFalse, /* the store accepts archives only */
        .archive_cg_exists = class->has_archive_group ? bTrue : bFalse,
    };
    strcpy(told.mcName, class->name);
    strcpy(told.archive_copy_dest, class->destination);
    *key = told;
}

static dsInt16_t bind(struct session *session, const dsmObjName *name, dsmSendType type, mcBindKey *key)
{
    struct name_lengths lengths;
    if (type < stBackup || type > stArchiveMountWait) {
        return DSM_RC_INVALID_SENDTYPE;
    }
    if (!key) {
        return DSM_RC_INVALID_PARM;
    }
    if (key->stVersion != mcBindKeyVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    dsInt16_t code = check_name(name, &lengths);
    if (code) {
        return code;
    }
    const struct management_class *class = &session->policy.classes[session->policy.default_class];
    const char *wanted = "";
    enum verdict verdict = rules_decide(&session->options.rules, name, &wanted);
    if (verdict == VERDICT_INCLUDED && *wanted) {
        class = policy_class(&session->policy, wanted);
        if (!class) {
            return DSM_RC_PS_INVALID_ARCHMC;
        }
    }
    tell_class(class, key);
    if (type == stBackup || type == stBackupMountWait) {
        return DSM_RC_TL_NOBCG;
    }
    if (!class->has_archive_group) {
        return DSM_RC_TL_NOACG;
    }
    struct binding *binding = &session->binding;
    binding->is_made = true;
    binding->is_excluded = verdict == VERDICT_EXCLUDED;
    binding->class = class;
    memcpy(binding->name.fs, name->fs, lengths.fs + 1);
    memcpy(binding->name.hl, name->hl, lengths.hl + 1);
    memcpy(binding->name.ll, name->ll, lengths.ll + 1);
    return binding->is_excluded ? DSM_RC_TL_EXCLUDED : DSM_RC_OK;
}

dsInt16_t dsmBindMC(dsUint32_t dsmHandle, dsmObjName *objNameP, dsmSendType sendType, mcBindKey *mcBindKeyP)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_SESSION | IN_TRANSACTION, &session);
    return code ? code : session_leave(session, bind(session, objNameP, sendType, mcBindKeyP));
}

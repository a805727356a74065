/* Functions that an archive store with retention protection does not support. They refuse and never pretend to
 * succeed. */
#include "session.h"

static dsInt16_t refuse(dsUint32_t handle, unsigned states, dsInt16_t refusal)
{
    struct session *session;
    dsInt16_t code = session_enter(handle, states, &session);
    return code ? code : session_leave(session, refusal);
}

dsInt16_t dsmRenameObj(dsmRenameIn_t *dsmRenameInP, dsmRenameOut_t *dsmRenameOutP)
{
    (void)dsmRenameOutP;
    return dsmRenameInP ? refuse(dsmRenameInP->dsmHandle, IN_TRANSACTION, DSM_RC_ABORT_INVALID_OPERATION)
                        : DSM_RC_INVALID_PARM;
}

dsInt16_t dsmGroupHandler(dsmGroupHandlerIn_t *dsmGroupHandlerInP, dsmGroupHandlerOut_t *dsmGroupHandlerOutP)
{
    (void)dsmGroupHandlerOutP;
    return dsmGroupHandlerInP ? refuse(dsmGroupHandlerInP->dsmHandle, IN_ANY, DSM_RC_BAD_CALL_SEQUENCE)
                              : DSM_RC_INVALID_PARM;
}

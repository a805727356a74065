/* Functions that an archive store with retention protection has no use for. They refuse, and never pretend. */
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

/* Other nodes: there are no rules, and none can be made. */

dsInt16_t dsmQueryAccess(dsUint32_t dsmHandle, qryRespAccessData **accessListP, dsUint16_t *numberOfRules)
{
    dsInt16_t code = refuse(dsmHandle, IN_SESSION, DSM_RC_ABORT_NO_MATCH);
    if (code == DSM_RC_ABORT_NO_MATCH && accessListP && numberOfRules) {
        *accessListP = NULL;
        *numberOfRules = 0;
    }
    return code;
}

dsInt16_t dsmSetAccess(dsUint32_t dsmHandle, dsmAccessType accessType, dsmObjName *objNameP, char *node, char *owner)
{
    (void)accessType;
    (void)objNameP;
    (void)node;
    (void)owner;
    return refuse(dsmHandle, IN_SESSION, DSM_RC_ABORT_NODE_NOT_AUTHORIZED);
}

dsInt16_t dsmDeleteAccess(dsUint32_t dsmHandle, dsUint32_t ruleNumber)
{
    (void)ruleNumber;
    return refuse(dsmHandle, IN_SESSION, DSM_RC_ABORT_NO_MATCH);
}

/* Library buffers: dsmInitEx opens no session that has them, so there is no state in which these are legal. */

dsInt16_t dsmRequestBuffer(requestBufferIn_t *getBufferInP, requestBufferOut_t *getBufferOutP)
{
    (void)getBufferOutP;
    return getBufferInP ? refuse(getBufferInP->dsmHandle, IN_ANY, DSM_RC_BAD_CALL_SEQUENCE) : DSM_RC_INVALID_PARM;
}

dsInt16_t dsmReleaseBuffer(releaseBufferIn_t *relBufferInP, releaseBufferOut_t *relBufferOutP)
{
    (void)relBufferOutP;
    return relBufferInP ? refuse(relBufferInP->dsmHandle, IN_ANY, DSM_RC_BAD_CALL_SEQUENCE) : DSM_RC_INVALID_PARM;
}

dsInt16_t dsmGetBufferData(getBufferDataIn_t *getBufferDataInP, getBufferDataOut_t *getBufferDataOutP)
{
    (void)getBufferDataOutP;
    return getBufferDataInP ? refuse(getBufferDataInP->dsmHandle, IN_ANY, DSM_RC_BAD_CALL_SEQUENCE)
                            : DSM_RC_INVALID_PARM;
}

dsInt16_t dsmSendBufferData(sendBufferDataIn_t *sendBufferDataInP, sendBufferDataOut_t *sendBufferDataExOutP)
{
    (void)sendBufferDataExOutP;
    return sendBufferDataInP ? refuse(sendBufferDataInP->dsmHandle, IN_ANY, DSM_RC_BAD_CALL_SEQUENCE)
                             : DSM_RC_INVALID_PARM;
}

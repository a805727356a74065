/* Deleting, holding, releasing, and events that start the retention. */
#include <string.h>

#include "calls.h"

static void test_deletes(void)
{
    dsUint32_t handle = open_session();
    archive(handle, "/deletes", "/kept", NULL, "kept", 4, 4);
    archive(handle, "/deletes", "/free", "NONE", "free", 4, 4);
    ObjID kept = find_one(handle, "/deletes", "/kept").objId, gone = find_one(handle, "/deletes", "/free").objId;
    /* One refusal is the whole transaction's */
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, ask_delete(handle, gone));
    EXPECT(DSM_RC_OK, ask_delete(handle, kept));
    expect_refused(handle, DSM_RS_ABORT_DELETE_NOT_ALLOWED);
    EXPECT(2, find(handle, "/deletes", "*", NULL, 0));
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, ask_delete(handle, gone));
    commit(handle);
    EXPECT(1, find(handle, "/deletes", "*", NULL, 0));
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, ask_delete(handle, gone));
    expect_refused(handle, DSM_RS_ABORT_NO_MATCH);
    expect_content(handle, kept, "kept", 4, 100);

    dsmDelInfo info = {.archInfo = {.stVersion = 2}};
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmDeleteObj(handle, dtArchive, info));
    EXPECT(DSM_RC_INVALID_PARAMETER, dsmDeleteObj(handle, 3, info));
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmDeleteObj(handle, dtBackup, info));
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmDeleteObj(handle, dtBackupID, info));
    commit(handle);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

static void test_holds(void)
{
    dsUint32_t handle = open_session();
    archive(handle, "/holds", "/x", "NONE", "x", 1, 1);
    ObjID id = find_one(handle, "/holds", "/x").objId;
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, ask_event(handle, eventHoldObj, &id, 1));
    EXPECT(DSM_RC_BAD_CALL_SEQUENCE, ask_event(handle, eventHoldObj, &id, 1)); /* once in a transaction */
    commit(handle);
    EXPECT(DSM_ARCH_HELD_TRUE, find_one(handle, "/holds", "/x").objHeld);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, ask_delete(handle, id));
    expect_refused(handle, DSM_RS_ABORT_DELETE_NOT_ALLOWED);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, ask_event(handle, eventHoldObj, &id, 1));
    expect_refused(handle, DSM_RS_ABORT_OBJECT_ALREADY_HELD);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, ask_event(handle, eventReleaseObj, &id, 1));
    commit(handle);
    EXPECT(DSM_ARCH_HELD_FALSE, find_one(handle, "/holds", "/x").objHeld);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, ask_delete(handle, id));
    commit(handle);
    EXPECT(0, find(handle, "/holds", "/x", NULL, 0));

    dsmRetentionEventIn_t in = {.stVersion = 1, .dsmHandle = handle, .eventType = 3,
                                .objList = {.stVersion = 1, .numObjId = 1, .objId = &id}};
    dsmRetentionEventOut_t out = {.stVersion = 1};
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_INVALID_PARM, dsmRetentionEvent(&in, &out));
    EXPECT(DSM_RC_INVALID_PARM, dsmRetentionEvent(NULL, &out));
    in.eventType = eventHoldObj;
    EXPECT(DSM_RC_INVALID_PARM, dsmRetentionEvent(&in, NULL));
    in.objList.stVersion = 0;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmRetentionEvent(&in, &out));
    in.objList.stVersion = 1;
    in.objList.objId = NULL;
    EXPECT(DSM_RC_INVALID_PARM, dsmRetentionEvent(&in, &out));
    commit(handle);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

static void test_events(void)
{
    dsUint32_t handle = open_session();
    archive(handle, "/events", "/x", "EVENT", "x", 1, 1);
    qryRespArchiveData row = find_one(handle, "/events", "/x");
    EXPECT(0, strcmp(row.mcName, "EVENT"));
    EXPECT(DSM_ARCH_RETINIT_PENDING, row.retentionInitiated);
    EXPECT(DATE_PLUS_INFINITE, row.expDate.year);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, ask_event(handle, eventRetentionActivate, &row.objId, 1));
    commit(handle);
    row = find_one(handle, "/events", "/x");
    EXPECT(DSM_ARCH_RETINIT_STARTED, row.retentionInitiated);
    CHECK(row.expDate.year < DATE_PLUS_INFINITE);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, ask_delete(handle, row.objId)); /* RETMIN has not passed */
    expect_refused(handle, DSM_RS_ABORT_DELETE_NOT_ALLOWED);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

void test_retention(void)
{
    test_deletes();
    test_holds();
    test_events();
}

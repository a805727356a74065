/* Calls out of sequence, in every state. */
#include <string.h>

#include "calls.h"

enum { SESSION = 1, TRANSACTION = 2, SEND = 4, QUERY = 8, GET = 16, OBJECT = 32 };

/* Calls everything that is not legal in `state` and expects to be told so, whatever else is wrong with the call. */
static void expect_bad_sequence(dsUint32_t handle, int state)
{
    dsmDelInfo info = {.archInfo = {.stVersion = 1}};
    dsUint16_t reason;
    qryRespAccessData *rules;
    dsUint16_t rule_count;
    dsmRetentionEventIn_t event = {.stVersion = 1, .dsmHandle = handle};
    dsmRenameIn_t rename_in = {.stVersion = 1, .dsmHandle = handle};
    dsmGroupHandlerIn_t group = {.stVersion = 1, .dsmHandle = handle};
    dsmEndSendObjExIn_t end_object = {.stVersion = 1, .dsmHandle = handle};
    dsmEndTxnExIn_t end_transaction = {.stVersion = 1, .dsmHandle = handle, .vote = 1};
    dsmEndGetDataExIn_t end_get = {.stVersion = 1, .dsmHandle = handle};
    dsmUpdateObjExIn_t update = {.stVersion = 1, .dsmHandle = handle};
    requestBufferIn_t request = {.stVersion = 1, .dsmHandle = handle};
    releaseBufferIn_t release = {.stVersion = 1, .dsmHandle = handle};
    getBufferDataIn_t get_buffer = {.stVersion = 1, .dsmHandle = handle};
    sendBufferDataIn_t send_buffer = {.stVersion = 1, .dsmHandle = handle};
#define ILLEGAL(legal, call)                                                                                          \
    do {                                                                                                              \
        if (!(state & (legal))) {                                                                                     \
            EXPECT(DSM_RC_BAD_CALL_SEQUENCE, call);                                                                   \
        }                                                                                                             \
    } while (0)
    ILLEGAL(SESSION, dsmQuerySessOptions(handle, NULL));
    ILLEGAL(SESSION, dsmChangePW(handle, NULL, NULL));
    ILLEGAL(SESSION, dsmRegisterFS(handle, NULL));
    ILLEGAL(SESSION, dsmUpdateFS(handle, NULL, NULL, 0));
    ILLEGAL(SESSION, dsmDeleteFS(handle, NULL, 0));
    ILLEGAL(SESSION, dsmQueryAccess(handle, &rules, &rule_count));
    ILLEGAL(SESSION, dsmSetAccess(handle, atArchive, NULL, NULL, NULL));
    ILLEGAL(SESSION, dsmDeleteAccess(handle, 0));
    ILLEGAL(SESSION, dsmLogEvent(handle, NULL));
    ILLEGAL(SESSION, dsmLogEventEx(handle, NULL, NULL));
    ILLEGAL(SESSION, dsmUpdateObj(handle, 9, NULL, NULL, NULL, 0));
    ILLEGAL(SESSION, dsmUpdateObjEx(&update, NULL));
    ILLEGAL(SESSION, dsmBeginTxn(handle));
    ILLEGAL(SESSION, dsmBeginQuery(handle, 99, NULL));
    ILLEGAL(SESSION, dsmBeginGetData(handle, bTrue, 9, NULL));
    ILLEGAL(SESSION | TRANSACTION, dsmBindMC(handle, NULL, 9, NULL));
    ILLEGAL(TRANSACTION, dsmDeleteObj(handle, 9, info));
    ILLEGAL(TRANSACTION, dsmRenameObj(&rename_in, NULL));
    ILLEGAL(TRANSACTION, dsmRetentionEvent(&event, NULL));
    ILLEGAL(TRANSACTION, dsmSendObj(handle, 9, NULL, NULL, NULL, NULL));
    ILLEGAL(TRANSACTION | SEND, dsmEndTxn(handle, 9, &reason));
    ILLEGAL(TRANSACTION | SEND, dsmEndTxnEx(&end_transaction, NULL));
    ILLEGAL(SEND, dsmSendData(handle, NULL));
    ILLEGAL(SEND, dsmEndSendObj(handle));
    ILLEGAL(SEND, dsmEndSendObjEx(&end_object, NULL));
    ILLEGAL(QUERY, dsmGetNextQObj(handle, NULL));
    ILLEGAL(QUERY, dsmEndQuery(handle));
    ILLEGAL(GET, dsmGetObj(handle, NULL, NULL));
    ILLEGAL(GET | OBJECT, dsmEndGetData(handle));
    ILLEGAL(GET | OBJECT, dsmEndGetDataEx(&end_get, NULL));
    ILLEGAL(OBJECT, dsmGetData(handle, NULL));
    ILLEGAL(OBJECT, dsmEndGetObj(handle));
    ILLEGAL(0, dsmGroupHandler(&group, NULL));
    ILLEGAL(0, dsmRequestBuffer(&request, NULL));
    ILLEGAL(0, dsmReleaseBuffer(&release, NULL));
    ILLEGAL(0, dsmGetBufferData(&get_buffer, NULL));
    ILLEGAL(0, dsmSendBufferData(&send_buffer, NULL));
    ApiSessInfo information = {.stVersion = ApiSessInfoVersion}; /* a sign of life in every state */
    EXPECT(DSM_RC_OK, dsmQuerySessInfo(handle, &information));
    CHECK(information.serverDate.year >= 2024);
}

void test_states(void)
{
    dsUint32_t handle = open_session();
    dsmObjName name = name_of("/states", "/x");
    ObjAttr attributes = {.stVersion = ObjAttrVersion, .sizeEstimate = {0, 3}};
    DataBlk block = block_of("abc", 3);
    expect_bad_sequence(handle, SESSION);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    expect_bad_sequence(handle, TRANSACTION);
    EXPECT(DSM_RC_OK, bind_name(handle, &name));
    EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchive, NULL, &name, &attributes, NULL));
    expect_bad_sequence(handle, SEND);
    EXPECT(DSM_RC_OK, dsmSendData(handle, &block));
    EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
    expect_bad_sequence(handle, TRANSACTION);
    dsmRenameIn_t rename_in = {.stVersion = 1, .dsmHandle = handle, .repository = DSM_ARCHIVE_REP, .objNameP = &name};
    dsmRenameOut_t rename_out = {.stVersion = 1};
    EXPECT(DSM_RC_ABORT_INVALID_OPERATION, dsmRenameObj(&rename_in, &rename_out));
    commit(handle);
    ObjID id = find_one(handle, "/states", "/x").objId;
    EXPECT(DSM_RC_OK, begin_query(handle, "/states", "*"));
    expect_bad_sequence(handle, QUERY);
    qryRespArchiveData row = {.stVersion = 7};
    DataBlk answer = block_of(&row, sizeof row);
    EXPECT(DSM_RC_MORE_DATA, dsmGetNextQObj(handle, &answer));
    expect_bad_sequence(handle, QUERY);
    EXPECT(DSM_RC_OK, dsmEndQuery(handle));
    expect_bad_sequence(handle, SESSION);
    char got[8];
    DataBlk room = block_of(got, sizeof got);
    EXPECT(DSM_RC_OK, begin_get(handle, &id, 1));
    expect_bad_sequence(handle, GET);
    EXPECT(DSM_RC_MORE_DATA, dsmGetObj(handle, &id, &room));
    EXPECT(3, room.numBytes);
    expect_bad_sequence(handle, OBJECT);
    EXPECT(DSM_RC_OK, dsmEndGetObj(handle));
    expect_bad_sequence(handle, GET);
    EXPECT(DSM_RC_OK, dsmEndGetData(handle));
    expect_bad_sequence(handle, SESSION);
    EXPECT(1, find(handle, "/states", "*", NULL, 0)); /* nothing of all that has done any harm */
    /* Terminate is legal everywhere */
    EXPECT(DSM_RC_OK, begin_get(handle, &id, 1));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    handle = open_session();
    EXPECT(DSM_RC_OK, begin_query(handle, "*", "*"));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

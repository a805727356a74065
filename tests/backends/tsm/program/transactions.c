/* Transactions: votes, their limits, and those that the server gives up. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"

static void test_votes(void)
{
    dsUint32_t handle = open_session();
    dsmObjName name = name_of("/transactions", "/x");
    char *bytes = noise(MEBIBYTE);
    dsUint16_t reason = 99;
    /* An empty one */
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    commit(handle);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_CHECK_REASON_CODE, dsmEndTxn(handle, DSM_VOTE_ABORT, &reason));
    EXPECT(DSM_RS_ABORT_BY_CLIENT, reason);
    /* One that is aborted, whole and in the middle of an object */
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    send_object(handle, &name, NULL, bytes, 10, 10);
    send_object(handle, &name, NULL, bytes, MEBIBYTE, MEBIBYTE);
    EXPECT(DSM_RC_INVALID_VOTE, dsmEndTxn(handle, 3, &reason));
    EXPECT(DSM_RC_CHECK_REASON_CODE, dsmEndTxn(handle, DSM_VOTE_ABORT, &reason));
    EXPECT(DSM_RS_ABORT_BY_CLIENT, reason);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    send_object(handle, &name, NULL, bytes, 10, 10);
    ObjAttr attributes = {.stVersion = ObjAttrVersion, .sizeEstimate = {0, 5}};
    DataBlk block = block_of(bytes, MEBIBYTE);
    EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchive, NULL, &name, &attributes, &block));
    EXPECT(DSM_RC_BAD_CALL_SEQUENCE, dsmEndTxn(handle, DSM_VOTE_COMMIT, &reason));
    dsmEndTxnExIn_t in = {.stVersion = 1, .dsmHandle = handle, .vote = DSM_VOTE_ABORT};
    dsmEndTxnExOut_t out = {.stVersion = 2};
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmEndTxnEx(&in, &out));
    EXPECT(DSM_RC_INVALID_PARM, dsmEndTxnEx(&in, NULL));
    out.stVersion = 1;
    EXPECT(DSM_RC_CHECK_REASON_CODE, dsmEndTxnEx(&in, &out));
    EXPECT(DSM_RS_ABORT_BY_CLIENT, out.reason);
    EXPECT(0, find(handle, "/transactions", "*", NULL, 0));
    /* One that is simply left */
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    send_object(handle, &name, NULL, bytes, MEBIBYTE, MEBIBYTE);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    handle = open_session();
    EXPECT(0, find(handle, "/transactions", "*", NULL, 0));
    /* Two objects of one name are two objects */
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    send_object(handle, &name, NULL, bytes, 10, 10);
    send_object(handle, &name, NULL, bytes, 20, 10);
    commit(handle);
    EXPECT(2, find(handle, "/transactions", "*", NULL, 0));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    free(bytes);
}

/* The server gives a transaction up in the middle: sends say so, and the vote says why. */
static void test_doomed_transactions(void)
{
    dsUint32_t handle = open_session(), other = open_session();
    regFSData space = {.stVersion = regFSDataVersion, .fsName = "/doomed"};
    EXPECT(DSM_RC_OK, dsmRegisterFS(handle, &space));
    EXPECT(DSM_RC_OK, dsmDeleteFS(other, "/doomed", DSM_ARCHIVE_REP));
    dsmObjName name = name_of("/x", "/x");
    strcpy(name.fs, "/doomed");
    char *bytes = noise(MEBIBYTE);
    /* So little that it is noticed with the vote only */
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    send_object(handle, &name, NULL, bytes, 100, 100);
    expect_refused(handle, DSM_RS_ABORT_FS_NOT_DEFINED);
    ObjAttr attributes = {.stVersion = ObjAttrVersion, .sizeEstimate = {1, 0}};
    DataBlk block = block_of(bytes, MEBIBYTE);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_FS_NOT_REGISTERED, dsmSendObj(handle, stArchive, NULL, &name, &attributes, &block));
    commit(handle);
    /* More */
    EXPECT(DSM_RC_OK, dsmRegisterFS(handle, &space));
    EXPECT(DSM_RC_OK, dsmDeleteFS(other, "/doomed", DSM_ARCHIVE_REP));
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchive, NULL, &name, &attributes, &block));
    dsInt16_t code = DSM_RC_OK;
    for (unsigned i = 0; i < 100000 && code == DSM_RC_OK; i++) {
        code = dsmSendData(handle, &block);
    }
    EXPECT(DSM_RC_WILL_ABORT, code);
    EXPECT(0, block.numBytes);
    EXPECT(DSM_RC_WILL_ABORT, dsmSendData(handle, &block));
    EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
    EXPECT(DSM_RC_WILL_ABORT, dsmSendObj(handle, stArchive, NULL, &name, &attributes, NULL));
    EXPECT(DSM_RC_WILL_ABORT, ask_delete(handle, (ObjID){0, 1}));
    expect_refused(handle, DSM_RS_ABORT_FS_NOT_DEFINED);
    /* The same without dsmEndSendObj */
    EXPECT(DSM_RC_OK, dsmRegisterFS(handle, &space));
    EXPECT(DSM_RC_OK, dsmDeleteFS(other, "/doomed", DSM_ARCHIVE_REP));
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchive, NULL, &name, &attributes, &block));
    dsUint16_t reason;
    EXPECT(DSM_RC_BAD_CALL_SEQUENCE, dsmEndTxn(handle, DSM_VOTE_COMMIT, &reason));
    code = DSM_RC_OK;
    for (unsigned i = 0; i < 100000 && code == DSM_RC_OK; i++) {
        code = dsmSendData(handle, &block);
    }
    EXPECT(DSM_RC_WILL_ABORT, code);
    expect_refused(handle, DSM_RS_ABORT_FS_NOT_DEFINED);
    EXPECT(DSM_RC_OK, dsmRegisterFS(handle, &space));
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle)); /* and the session is as good as new */
    name = name_of("/doomed", "/saved");
    send_object(handle, &name, NULL, bytes, 100, 100);
    commit(handle);
    EXPECT(1, find(handle, "/doomed", "*", NULL, 0));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    EXPECT(DSM_RC_OK, dsmTerminate(other));
    free(bytes);
}

static atomic_long seconds_ahead;

/* The clock that the library sees, which a test can put forward. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    now->tv_sec += seconds_ahead;
    return failed;
}

/* Few bytes wait for more, but not for so long that the server takes their sender for dead. That it has got them shows
 * in what it says of a transaction that is lost. */
static void test_slow_sender(void)
{
    dsUint32_t handle = open_session(), other = open_session();
    regFSData space = {.stVersion = regFSDataVersion, .fsName = "/slow"};
    EXPECT(DSM_RC_OK, dsmRegisterFS(handle, &space));
    EXPECT(DSM_RC_OK, dsmDeleteFS(other, "/slow", DSM_ARCHIVE_REP));
    dsmObjName name = name_of("/x", "/x");
    strcpy(name.fs, "/slow");
    ObjAttr attributes = {.stVersion = ObjAttrVersion, .sizeEstimate = {0, 1}};
    DataBlk block = block_of("x", 1);
    ApiSessInfo info = {.stVersion = ApiSessInfoVersion};
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, bind_name(handle, &name));
    EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchive, NULL, &name, &attributes, &block));
    dsInt16_t code = DSM_RC_OK;
    for (unsigned i = 0; i < 1000 && code == DSM_RC_OK; i++) {
        seconds_ahead += 10;
        code = dsmSendData(handle, &block);
        EXPECT(DSM_RC_OK, dsmQuerySessInfo(other, &info)); /* gives the server its turn */
    }
    EXPECT(DSM_RC_WILL_ABORT, code);
    EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
    expect_refused(handle, DSM_RS_ABORT_FS_NOT_DEFINED);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    EXPECT(DSM_RC_OK, dsmTerminate(other));
}

static void test_limits(void)
{
    dsUint32_t handle = open_session();
    dsmObjName name = name_of("/limits", "/x");
    ObjAttr attributes = {.stVersion = ObjAttrVersion};
    ApiSessInfo info = {.stVersion = ApiSessInfoVersion};
    EXPECT(DSM_RC_OK, dsmQuerySessInfo(handle, &info));
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, bind_name(handle, &name));
    for (unsigned i = 0; i < info.maxObjPerTxn; i++) {
        EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchive, NULL, &name, &attributes, NULL));
        EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
    }
    EXPECT(DSM_RC_NEEDTO_ENDTXN, dsmSendObj(handle, stArchive, NULL, &name, &attributes, NULL));
    commit(handle);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchive, NULL, &name, &attributes, NULL)); /* still bound */
    EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
    commit(handle);
    size_t count = info.maxObjPerTxn + 1u;
    qryRespArchiveData *rows = calloc(count, sizeof *rows);
    EXPECT(count, find(handle, "/limits", "/x", rows, count));

    ObjID *ids = calloc(count, sizeof *ids);
    for (size_t i = 0; i < count; i++) {
        ids[i] = rows[i].objId;
    }
    free(rows);
    EXPECT(DSM_RC_NUMOBJ_EXCEED, begin_get(handle, ids, DSM_MAX_GET_OBJ + 1));
    EXPECT(DSM_RC_OK, begin_get(handle, ids, DSM_MAX_GET_OBJ));
    char byte;
    DataBlk block = block_of(&byte, 1);
    EXPECT(DSM_RC_FINISHED, dsmGetObj(handle, &ids[DSM_MAX_GET_OBJ - 1], &block));
    EXPECT(DSM_RC_OK, dsmEndGetData(handle));
    PartialObjData *parts = calloc(DSM_MAX_PARTIAL_GET_OBJ + 1, sizeof *parts);
    for (size_t i = 0; i <= DSM_MAX_PARTIAL_GET_OBJ; i++) {
        parts[i].stVersion = PartialObjDataVersion;
    }
    dsmGetList list = {.stVersion = dsmGetListPORVersion, .numObjId = DSM_MAX_PARTIAL_GET_OBJ + 1, .objId = ids,
                       .partialObjData = parts};
    EXPECT(DSM_RC_NUMOBJ_EXCEED, dsmBeginGetData(handle, bTrue, gtArchive, &list));
    free(parts);

    dsmRetentionEventIn_t in = {
        .stVersion = dsmRetentionEventInVersion, .dsmHandle = handle, .eventType = eventHoldObj,
        .objList = {.stVersion = dsmObjlistVersion, .numObjId = (dsUint32_t)count, .objId = ids}};
    dsmRetentionEventOut_t out = {.stVersion = dsmRetentionEventOutVersion};
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_ABORT_TXN_LIMIT_EXCEEDED, dsmRetentionEvent(&in, &out));
    in.objList.numObjId = info.maxObjPerTxn;
    EXPECT(DSM_RC_OK, dsmRetentionEvent(&in, &out));
    dsmDelInfo deletion = {.archInfo = {.stVersion = delArchVersion, .objId = ids[0]}};
    EXPECT(DSM_RC_ABORT_TXN_LIMIT_EXCEEDED, dsmDeleteObj(handle, dtArchive, deletion));
    commit(handle);
    free(ids);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

static void test_destinations(void)
{
    /* A transaction goes to one storage pool. The test store has one, so every class may be mixed. */
    dsUint32_t handle = open_session();
    dsmObjName name = name_of("/destinations", "/x");
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    send_object(handle, &name, "SHORT", "x", 1, 1);
    send_object(handle, &name, "standard", "x", 1, 1);
    commit(handle);
    EXPECT(2, find(handle, "/destinations", "/x", NULL, 0));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

void test_transactions(void)
{
    test_votes();
    test_doomed_transactions();
    test_slow_sender();
    test_limits();
    test_destinations();
}

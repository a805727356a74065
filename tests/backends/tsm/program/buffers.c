/* Buffers that the library lends. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

static dsUint32_t open_with_buffers(unsigned count, const char *options)
{
    dsUint32_t handle = 0;
    dsmApiVersionEx version = {.stVersion = apiVersionExVer};
    dsmQueryApiVersionEx(&version);
    dsmInitExIn_t in = {.stVersion = dsmInitExInVersion,
                        .apiVersionExP = &version,
                        .clientNodeNameP = (char *)(size_t)node,
                        .clientPasswordP = (char *)(size_t)password,
                        .options = (char *)(size_t)options,
                        .useTsmBuffers = bTrue,
                        .numTsmBuffers = (dsUint8_t)count};
    dsmInitExOut_t out = {.stVersion = dsmInitExOutVersion};
    EXPECT(DSM_RC_OK, dsmInitEx(&handle, &in, &out));
    return handle;
}

static requestBufferOut_t request(dsUint32_t handle, dsInt16_t wanted)
{
    requestBufferIn_t in = {.stVersion = requestBufferInVersion, .dsmHandle = handle};
    requestBufferOut_t out = {.stVersion = requestBufferOutVersion};
    EXPECT(wanted, dsmRequestBuffer(&in, &out));
    return out;
}

static dsInt16_t send_lent(dsUint32_t handle, dsUint8_t buffer, char *bytes, size_t length)
{
    sendBufferDataIn_t in = {.stVersion = sendBufferDataInVersion, .dsmHandle = handle, .tsmBufferHandle = buffer,
                             .dataPtr = bytes, .numBytes = (dsUint32_t)length};
    sendBufferDataOut_t out = {.stVersion = sendBufferDataOutVersion};
    return dsmSendBufferData(&in, &out);
}

static dsInt16_t release(dsUint32_t handle, dsUint8_t buffer, char *bytes)
{
    releaseBufferIn_t in = {.stVersion = releaseBufferInVersion, .dsmHandle = handle, .tsmBufferHandle = buffer,
                            .dataPtr = bytes};
    releaseBufferOut_t out = {.stVersion = releaseBufferOutVersion};
    return dsmReleaseBuffer(&in, &out);
}

static getBufferDataOut_t get_lent(dsUint32_t handle, dsInt16_t wanted)
{
    getBufferDataIn_t in = {.stVersion = getBufferDataInVersion, .dsmHandle = handle};
    getBufferDataOut_t out = {.stVersion = getBufferDataOutVersion, .tsmBufferHandle = 99};
    EXPECT(wanted, dsmGetBufferData(&in, &out));
    return out;
}

static void begin_object(dsUint32_t handle, dsmObjName *name, size_t length)
{
    ObjAttr attributes = {.stVersion = ObjAttrVersion, .sizeEstimate = halves(length)};
    EXPECT(DSM_RC_OK, bind_name(handle, name));
    EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchive, NULL, name, &attributes, NULL));
}

/* In a transaction: one object, each buffer filled in place. */
static void send_in_buffers(dsUint32_t handle, const char *ll, const char *bytes, size_t length)
{
    dsmObjName name = name_of("/buffers", ll);
    begin_object(handle, &name, length);
    for (size_t at = 0; at < length;) {
        requestBufferOut_t lent = request(handle, DSM_RC_OK);
        size_t piece = length - at < lent.bufferLen ? length - at : lent.bufferLen;
        CHECK(lent.dataPtr != NULL && lent.tsmBufferHandle > 0);
        memcpy(lent.dataPtr, bytes + at, piece);
        EXPECT(DSM_RC_OK, send_lent(handle, lent.tsmBufferHandle, lent.dataPtr, piece));
        at += piece;
    }
    EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
}

/* In a get: one object, compared where it lies. */
static void expect_in_buffers(dsUint32_t handle, ObjID *id, const char *bytes, size_t length)
{
    size_t at = 0;
    EXPECT(length > 0 ? DSM_RC_MORE_DATA : DSM_RC_FINISHED, dsmGetObj(handle, id, NULL));
    while (at < length) {
        getBufferDataOut_t lent = get_lent(handle, DSM_RC_MORE_DATA);
        if (lent.numBytes == 0 || lent.numBytes > length - at) {
            CHECK(!"more or less than there is");
            break;
        }
        CHECK(memcmp(lent.dataPtr, bytes + at, lent.numBytes) == 0);
        at += lent.numBytes;
        EXPECT(DSM_RC_OK, release(handle, lent.tsmBufferHandle, lent.dataPtr));
    }
    getBufferDataOut_t end = get_lent(handle, DSM_RC_FINISHED);
    EXPECT(0, end.numBytes);
    CHECK(end.dataPtr == NULL && end.tsmBufferHandle == 0);
    EXPECT(DSM_RC_OK, dsmEndGetObj(handle));
}

static void test_objects(void)
{
    const size_t lengths[] = {0, 1, 8192, 65535, 65536, 262144, 262145, MEBIBYTE + 7};
    enum { COUNT = sizeof lengths / sizeof *lengths };
    const char *const names[COUNT] = {"/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7"};
    dsUint32_t plain = open_session(), handle = open_with_buffers(2, NULL);
    char *bytes = noise(MEBIBYTE + 7);
    ObjID ids[COUNT];
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    for (unsigned i = 0; i < COUNT; i++) {
        send_in_buffers(handle, names[i], bytes, lengths[i]);
    }
    commit(handle);
    for (unsigned i = 0; i < COUNT; i++) {
        ids[i] = find_one(plain, "/buffers", names[i]).objId;
        expect_content(plain, ids[i], bytes, lengths[i], 100000);
    }
    EXPECT(DSM_RC_OK, begin_get(handle, ids, COUNT));
    for (unsigned i = 0; i < COUNT; i++) {
        expect_in_buffers(handle, &ids[i], bytes, lengths[i]);
    }
    EXPECT(DSM_RC_OK, dsmEndGetData(handle));

    /* Left early, with a buffer that outlives its object and what comes after it */
    EXPECT(DSM_RC_OK, begin_get(handle, ids, COUNT));
    EXPECT(DSM_RC_MORE_DATA, dsmGetObj(handle, &ids[7], NULL));
    getBufferDataOut_t kept = get_lent(handle, DSM_RC_MORE_DATA);
    EXPECT(DSM_RC_OK, dsmEndGetObj(handle));
    EXPECT(DSM_RC_BAD_CALL_SEQUENCE, release(handle, kept.tsmBufferHandle, kept.dataPtr));
    EXPECT(DSM_RC_OK, dsmEndGetData(handle));
    EXPECT(DSM_RC_OK, begin_get(handle, &ids[6], 1));
    expect_in_buffers(handle, &ids[6], bytes, lengths[6]);
    EXPECT(DSM_RC_OK, dsmEndGetData(handle));
    CHECK(memcmp(kept.dataPtr, bytes, kept.numBytes) == 0);
    EXPECT(DSM_RC_MUST_RELEASE_BUFFER, dsmTerminate(handle));
    EXPECT(DSM_RC_OK, release(handle, kept.tsmBufferHandle, kept.dataPtr));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    EXPECT(DSM_RC_OK, dsmTerminate(plain));
    free(bytes);
}

static void test_order_is_that_of_sending(void)
{
    dsUint32_t plain = open_session(), handle = open_with_buffers(3, NULL);
    dsmObjName name = name_of("/order", "/x");
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    begin_object(handle, &name, 200010);
    requestBufferOut_t first = request(handle, DSM_RC_OK), second = request(handle, DSM_RC_OK),
                       unused = request(handle, DSM_RC_OK);
    CHECK(first.dataPtr != second.dataPtr && first.tsmBufferHandle != second.tsmBufferHandle);
    memset(first.dataPtr, 'a', 10);
    memset(second.dataPtr, 'b', 200000);
    EXPECT(DSM_RC_OK, send_lent(handle, second.tsmBufferHandle, second.dataPtr, 200000));
    EXPECT(DSM_RC_OK, send_lent(handle, first.tsmBufferHandle, first.dataPtr, 10));
    EXPECT(DSM_RC_OK, release(handle, unused.tsmBufferHandle, unused.dataPtr));
    EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
    commit(handle);
    char *wanted = malloc(200010);
    memset(wanted, 'b', 200000);
    memset(wanted + 200000, 'a', 10);
    expect_content(plain, find_one(plain, "/order", "/x").objId, wanted, 200010, 50000);
    free(wanted);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    EXPECT(DSM_RC_OK, dsmTerminate(plain));
}

static void test_what_is_refused_while_sending(void)
{
    dsUint32_t handle = open_with_buffers(2, NULL);
    dsmObjName name = name_of("/refused", "/x");
    ObjAttr attributes = {.stVersion = ObjAttrVersion, .sizeEstimate = {0, 100}};
    DataBlk block = block_of("abc", 3);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, bind_name(handle, &name));
    EXPECT(DSM_RC_INVALID_DATABLK, dsmSendObj(handle, stArchive, NULL, &name, &attributes, &block));
    begin_object(handle, &name, 0);
    request(handle, DSM_RC_SENDDATA_WITH_ZERO_SIZE);
    EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
    begin_object(handle, &name, 100);
    EXPECT(DSM_RC_BAD_CALL_SEQUENCE, dsmSendData(handle, &block));
    get_lent(handle, DSM_RC_BAD_CALL_SEQUENCE);
    requestBufferIn_t in = {.stVersion = requestBufferInVersion + 1, .dsmHandle = handle};
    requestBufferOut_t out = {.stVersion = requestBufferOutVersion};
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmRequestBuffer(&in, &out));
    in.stVersion = requestBufferInVersion;
    out.stVersion = 0;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmRequestBuffer(&in, &out));
    EXPECT(DSM_RC_INVALID_PARM, dsmRequestBuffer(&in, NULL));
    EXPECT(DSM_RC_INVALID_PARM, dsmRequestBuffer(NULL, &out));
    EXPECT(DSM_RC_INVALID_PARM, dsmReleaseBuffer(NULL, NULL));
    EXPECT(DSM_RC_INVALID_PARM, dsmSendBufferData(NULL, NULL));
    EXPECT(DSM_RC_INVALID_PARM, dsmGetBufferData(NULL, NULL));

    requestBufferOut_t lent = request(handle, DSM_RC_OK);
    EXPECT(DSM_RC_TOO_MANY_BYTES, send_lent(handle, lent.tsmBufferHandle, lent.dataPtr, lent.bufferLen + 1u));
    const dsUint8_t unknown[] = {0, 2, 3, 255};
    for (unsigned i = 0; i < sizeof unknown; i++) {
        EXPECT(DSM_RC_INVALID_TSMBUFFER, send_lent(handle, unknown[i], lent.dataPtr, 1));
        EXPECT(DSM_RC_INVALID_TSMBUFFER, release(handle, unknown[i], lent.dataPtr));
    }
    EXPECT(DSM_RC_INVALID_TSMBUFFER, send_lent(handle, lent.tsmBufferHandle, lent.dataPtr + 1, 1));
    EXPECT(DSM_RC_OK, send_lent(handle, lent.tsmBufferHandle, lent.dataPtr, 0)); /* an empty one is no harm */
    EXPECT(DSM_RC_INVALID_TSMBUFFER, send_lent(handle, lent.tsmBufferHandle, lent.dataPtr, 0));
    EXPECT(DSM_RC_INVALID_TSMBUFFER, release(handle, lent.tsmBufferHandle, lent.dataPtr));

    /* An abort takes no buffer back */
    lent = request(handle, DSM_RC_OK);
    dsUint16_t reason;
    EXPECT(DSM_RC_CHECK_REASON_CODE, dsmEndTxn(handle, DSM_VOTE_ABORT, &reason));
    EXPECT(DSM_RC_BAD_CALL_SEQUENCE, send_lent(handle, lent.tsmBufferHandle, lent.dataPtr, 1));
    EXPECT(DSM_RC_MUST_RELEASE_BUFFER, dsmTerminate(handle));
    EXPECT(DSM_RC_OK, release(handle, lent.tsmBufferHandle, lent.dataPtr));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

static void test_what_is_refused_while_getting(void)
{
    dsUint32_t plain = open_session(), handle = open_with_buffers(1, NULL);
    archive(plain, "/refused", "/y", NULL, "content", 7, 7);
    ObjID id = find_one(plain, "/refused", "/y").objId;
    char room[8];
    DataBlk block = block_of(room, sizeof room);
    PartialObjData part = {.stVersion = PartialObjDataVersion, .partialObjLength = {0, 2}};
    dsmGetList list = {.stVersion = dsmGetListPORVersion, .numObjId = 1, .objId = &id, .partialObjData = &part};
    EXPECT(DSM_RC_POR_NOT_ALLOWED, dsmBeginGetData(handle, bTrue, gtArchive, &list));
    EXPECT(DSM_RC_OK, begin_get(handle, &id, 1));
    EXPECT(DSM_RC_INVALID_DATABLK, dsmGetObj(handle, &id, &block));
    get_lent(handle, DSM_RC_BAD_CALL_SEQUENCE);
    EXPECT(DSM_RC_MORE_DATA, dsmGetObj(handle, &id, NULL));
    EXPECT(DSM_RC_BAD_CALL_SEQUENCE, dsmGetData(handle, &block));
    EXPECT(DSM_RC_BAD_CALL_SEQUENCE, send_lent(handle, 1, room, 1));
    getBufferDataOut_t lent = get_lent(handle, DSM_RC_MORE_DATA);
    EXPECT(7, lent.numBytes);
    CHECK(memcmp(lent.dataPtr, "content", 7) == 0);
    EXPECT(DSM_RC_OK, release(handle, lent.tsmBufferHandle, lent.dataPtr));
    EXPECT(DSM_RC_OK, dsmEndGetData(handle));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    EXPECT(DSM_RC_OK, dsmTerminate(plain));
}

struct lent {
    dsUint32_t handle;
    requestBufferOut_t buffer;
};

static void *give_back(void *argument)
{
    struct lent *lent = argument;
    EXPECT(DSM_RC_OK, release(lent->handle, lent->buffer.tsmBufferHandle, lent->buffer.dataPtr));
    return NULL;
}

static void test_waiting_for_a_buffer(void)
{
    dsUint32_t handle = open_with_buffers(1, "-commtimeout=1");
    dsmObjName name = name_of("/waiting", "/x");
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    begin_object(handle, &name, 10);
    struct lent lent = {handle, request(handle, DSM_RC_OK)};
    request(handle, DSM_RC_BUFF_ARRAY_ERROR); /* nobody gives one back */
    EXPECT(DSM_RC_OK, release(handle, lent.buffer.tsmBufferHandle, lent.buffer.dataPtr));
    EXPECT(DSM_RC_CHECK_REASON_CODE, dsmEndTxn(handle, DSM_VOTE_ABORT, &(dsUint16_t){0}));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));

    handle = open_with_buffers(1, NULL);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    begin_object(handle, &name, 10);
    lent = (struct lent){handle, request(handle, DSM_RC_OK)};
    pthread_t thread;
    EXPECT(0, pthread_create(&thread, NULL, give_back, &lent));
    requestBufferOut_t again = request(handle, DSM_RC_OK);
    EXPECT(0, pthread_join(thread, NULL));
    memset(again.dataPtr, 'x', 10);
    EXPECT(DSM_RC_OK, send_lent(handle, again.tsmBufferHandle, again.dataPtr, 10));
    EXPECT(DSM_RC_CHECK_REASON_CODE, dsmEndTxn(handle, DSM_VOTE_ABORT, &(dsUint16_t){0}));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

/* The server gives a transaction up while buffers are filled for it. */
static void test_a_lost_transaction(void)
{
    dsUint32_t other = open_session(), handle = open_with_buffers(2, NULL);
    regFSData space = {.stVersion = regFSDataVersion, .fsName = "/vanishing", .fsType = "program"};
    dsmObjName name = name_of("/lost", "/x");
    strcpy(name.fs, "/vanishing");
    EXPECT(DSM_RC_OK, dsmRegisterFS(handle, &space));
    EXPECT(DSM_RC_OK, dsmDeleteFS(other, "/vanishing", DSM_ARCHIVE_REP));
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    begin_object(handle, &name, 1 << 30);
    dsInt16_t code = DSM_RC_OK;
    for (unsigned i = 0; i < 4096 && code == DSM_RC_OK; i++) { /* 1 GiB: the warning has come long before */
        requestBufferOut_t lent = request(handle, DSM_RC_OK);
        memset(lent.dataPtr, 'x', lent.bufferLen);
        code = send_lent(handle, lent.tsmBufferHandle, lent.dataPtr, lent.bufferLen);
    }
    EXPECT(DSM_RC_WILL_ABORT, code);
    EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
    expect_refused(handle, DSM_RS_ABORT_FS_NOT_DEFINED);
    EXPECT(DSM_RC_OK, dsmTerminate(handle)); /* every buffer is back */
    EXPECT(DSM_RC_OK, dsmTerminate(other));
}

void test_buffers(void)
{
    test_objects();
    test_order_is_that_of_sending();
    test_what_is_refused_while_sending();
    test_what_is_refused_while_getting();
    test_waiting_for_a_buffer();
    test_a_lost_transaction();
}

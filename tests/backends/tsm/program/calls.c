#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

atomic_int failures;
const char *node;
const char *password;

void expect(int line, const char *file, const char *what, long wanted, long got)
{
    if (wanted != got) {
        const char *name = strrchr(file, '/');
        printf("%s line %d: %s is %ld, expected %ld\n", name ? name + 1 : file, line, what, got, wanted);
        failures++;
    }
}

dsInt16_t sign_on_as(dsUint32_t *handle, const char *as_node, const char *as_password, const char *owner,
                     const char *options)
{
    dsmApiVersionEx version = {.stVersion = apiVersionExVer};
    dsmQueryApiVersionEx(&version);
    dsmInitExIn_t in = {.stVersion = dsmInitExInVersion,
                        .apiVersionExP = &version,
                        .clientNodeNameP = (char *)(size_t)as_node,
                        .clientOwnerNameP = (char *)(size_t)owner,
                        .clientPasswordP = (char *)(size_t)as_password,
                        .applicationTypeP = "Program",
                        .options = (char *)(size_t)options};
    dsmInitExOut_t out = {.stVersion = dsmInitExOutVersion};
    return dsmInitEx(handle, &in, &out);
}

dsInt16_t sign_on_with(dsUint32_t *handle, const char *owner, const char *options)
{
    return sign_on_as(handle, node, password, owner, options);
}

dsUint32_t open_session(void)
{
    dsUint32_t handle = 0;
    EXPECT(DSM_RC_OK, sign_on_with(&handle, NULL, NULL));
    regFSData space = {.stVersion = regFSDataVersion, .fsName = SPACE, .fsType = "program"};
    dsInt16_t code = dsmRegisterFS(handle, &space);
    CHECK(code == DSM_RC_OK || code == DSM_RC_FS_ALREADY_REGED);
    return handle;
}

dsmObjName name_of(const char *hl, const char *ll)
{
    dsmObjName name = {.objType = DSM_OBJ_FILE};
    snprintf(name.fs, sizeof name.fs, "%s", SPACE);
    snprintf(name.hl, sizeof name.hl, "%s", hl);
    snprintf(name.ll, sizeof name.ll, "%s", ll);
    return name;
}

dsStruct64_t halves(unsigned long long number)
{
    return (dsStruct64_t){(dsUint32_t)(number >> 32), (dsUint32_t)number};
}

unsigned long long whole(dsStruct64_t number)
{
    return (unsigned long long)number.hi << 32 | number.lo;
}

DataBlk block_of(void *bytes, size_t length)
{
    return (DataBlk){.stVersion = DataBlkVersion, .bufferLen = (dsUint32_t)length, .numBytes = 99, .bufferPtr = bytes};
}

dsInt16_t bind_name(dsUint32_t handle, dsmObjName *name)
{
    mcBindKey key = {.stVersion = mcBindKeyVersion};
    return dsmBindMC(handle, name, stArchive, &key);
}

void send_object(dsUint32_t handle, dsmObjName *name, char *class, const char *bytes, size_t length,
                 size_t piece)
{
    ObjAttr attributes = {.stVersion = ObjAttrVersion, .sizeEstimate = halves(length), .mcNameP = class};
    EXPECT(DSM_RC_OK, bind_name(handle, name));
    EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchive, NULL, name, &attributes, NULL));
    for (size_t at = 0; at < length; at += piece) {
        DataBlk block = block_of((char *)(size_t)bytes + at, length - at < piece ? length - at : piece);
        EXPECT(DSM_RC_OK, dsmSendData(handle, &block));
        EXPECT(block.bufferLen, block.numBytes);
    }
    EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
}

void commit(dsUint32_t handle)
{
    dsUint16_t reason = 99;
    EXPECT(DSM_RC_OK, dsmEndTxn(handle, DSM_VOTE_COMMIT, &reason));
    EXPECT(0, reason);
}

void expect_refused(dsUint32_t handle, dsUint16_t wanted)
{
    dsUint16_t reason = 99;
    EXPECT(DSM_RC_CHECK_REASON_CODE, dsmEndTxn(handle, DSM_VOTE_COMMIT, &reason));
    EXPECT(wanted, reason);
}

void archive(dsUint32_t handle, const char *hl, const char *ll, char *class, const char *bytes, size_t length,
             size_t piece)
{
    dsmObjName name = name_of(hl, ll);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    send_object(handle, &name, class, bytes, length, piece);
    commit(handle);
}

dsInt16_t begin_query(dsUint32_t handle, const char *hl, const char *ll)
{
    dsmObjName name = name_of(hl, ll);
    name.objType = DSM_OBJ_ANY_TYPE;
    qryArchiveData asked = {.stVersion = qryArchiveDataVersion, .objName = &name, .owner = "", .descr = "*"};
    asked.insDateUpperBound.year = asked.expDateUpperBound.year = DATE_PLUS_INFINITE;
    return dsmBeginQuery(handle, qtArchive, &asked);
}

size_t find(dsUint32_t handle, const char *hl, const char *ll, qryRespArchiveData *found, size_t room)
{
    size_t count = 0;
    qryRespArchiveData row = {.stVersion = qryRespArchiveDataVersion};
    DataBlk block = block_of(&row, sizeof row);
    EXPECT(DSM_RC_OK, begin_query(handle, hl, ll));
    dsInt16_t code;
    while ((code = dsmGetNextQObj(handle, &block)) == DSM_RC_MORE_DATA) {
        EXPECT(sizeof row, block.numBytes);
        if (count < room) {
            found[count] = row;
        }
        count++;
    }
    EXPECT(count > 0 ? DSM_RC_FINISHED : DSM_RC_ABORT_NO_MATCH, code);
    EXPECT(0, block.numBytes);
    EXPECT(DSM_RC_OK, dsmEndQuery(handle));
    return count;
}

qryRespArchiveData find_one(dsUint32_t handle, const char *hl, const char *ll)
{
    qryRespArchiveData row = {0};
    EXPECT(1, find(handle, hl, ll, &row, 1));
    return row;
}

dsInt16_t begin_get(dsUint32_t handle, ObjID *ids, dsUint32_t count)
{
    dsmGetList list = {.stVersion = dsmGetListVersion, .numObjId = count, .objId = ids};
    return dsmBeginGetData(handle, bTrue, gtArchive, &list);
}

size_t receive_object(dsUint32_t handle, ObjID *id, char *bytes, size_t room, size_t piece)
{
    size_t used = 0;
    DataBlk block = block_of(bytes, piece);
    dsInt16_t code = dsmGetObj(handle, id, &block);
    while (code == DSM_RC_MORE_DATA) {
        CHECK(block.numBytes > 0);
        used += block.numBytes;
        if (used > room) {
            break;
        }
        block.bufferPtr = bytes + used;
        block.bufferLen = (dsUint32_t)(room + 1 - used < piece ? room + 1 - used : piece);
        code = dsmGetData(handle, &block);
    }
    EXPECT(DSM_RC_FINISHED, code);
    EXPECT(0, block.numBytes);
    EXPECT(DSM_RC_FINISHED, dsmGetData(handle, &block));
    EXPECT(0, block.numBytes);
    EXPECT(DSM_RC_OK, dsmEndGetObj(handle));
    return used;
}

void expect_content(dsUint32_t handle, ObjID id, const char *wanted, size_t length, size_t piece)
{
    char *bytes = malloc(length + 1 + piece);
    EXPECT(DSM_RC_OK, begin_get(handle, &id, 1));
    EXPECT(length, receive_object(handle, &id, bytes, length, piece));
    CHECK(memcmp(bytes, wanted, length) == 0);
    EXPECT(DSM_RC_OK, dsmEndGetData(handle));
    free(bytes);
}

dsInt16_t ask_delete(dsUint32_t handle, ObjID id)
{
    dsmDelInfo info = {.archInfo = {.stVersion = delArchVersion, .objId = id}};
    return dsmDeleteObj(handle, dtArchive, info);
}

dsInt16_t ask_event(dsUint32_t handle, dsmEventType_t type, ObjID *ids, dsUint32_t count)
{
    dsmRetentionEventIn_t in = {.stVersion = dsmRetentionEventInVersion, .dsmHandle = handle, .eventType = type,
                                .objList = {.stVersion = dsmObjlistVersion, .numObjId = count, .objId = ids}};
    dsmRetentionEventOut_t out = {.stVersion = dsmRetentionEventOutVersion};
    return dsmRetentionEvent(&in, &out);
}

char *noise(size_t length)
{
    char *bytes = malloc(length + 1);
    unsigned long long state = 88172645463325252ull + length;
    for (size_t i = 0; i < length; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes[i] = (char)state;
    }
    return bytes;
}

bool is_untouched(const void *structure, size_t from, size_t size)
{
    const unsigned char *bytes = structure;
    for (size_t i = from; i < size; i++) {
        if (bytes[i] != CANARY) {
            return false;
        }
    }
    return true;
}

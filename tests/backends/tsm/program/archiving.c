/* Sending objects: sizes, estimates, attributes, names, refusals. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

static void test_sizes(void)
{
    const struct {
        size_t length;
        size_t piece;
        size_t receive_piece;
    } cases[] = {
        {0, 1, 1},
        {1, 1, 1},
        {8192, 8192, 65536},
        {100000, 999, 777},
        {65536, 65536, 65536},
        {262144, 131072, 262144},
        {MEBIBYTE, MEBIBYTE, MEBIBYTE},
        {3 * MEBIBYTE + 17, MEBIBYTE, 300001},
        {3 * MEBIBYTE, 3 * MEBIBYTE, 4 * MEBIBYTE},
        {5 * MEBIBYTE + 3, 40000, 5 * MEBIBYTE},
    };
    dsUint32_t handle = open_session();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char ll[32], *bytes = noise(cases[i].length);
        snprintf(ll, sizeof ll, "/%zu", i);
        archive(handle, "/sizes", ll, NULL, bytes, cases[i].length, cases[i].piece);
        qryRespArchiveData row = find_one(handle, "/sizes", ll);
        EXPECT(cases[i].length, whole(row.sizeEstimate));
        expect_content(handle, row.objId, bytes, cases[i].length, cases[i].receive_piece);
        free(bytes);
    }
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

static void test_estimates(void)
{
    const unsigned long long estimates[] = {1, 99999, 1ull << 31, 1ull << 63};
    dsUint32_t handle = open_session();
    char *bytes = noise(70000);
    for (size_t i = 0; i < sizeof estimates / sizeof *estimates; i++) {
        char ll[32];
        snprintf(ll, sizeof ll, "/%zu", i);
        dsmObjName name = name_of("/estimates", ll);
        ObjAttr attributes = {.stVersion = ObjAttrVersion, .sizeEstimate = halves(estimates[i])};
        DataBlk first = block_of(bytes, 66000), none = block_of(bytes, 0), rest = block_of(bytes + 66000, 4000);
        dsmEndSendObjExIn_t in = {.stVersion = dsmEndSendObjExInVersion, .dsmHandle = handle};
        dsmEndSendObjExOut_t out;
        memset(&out, CANARY, sizeof out);
        out.stVersion = i % 2 ? 2 : 3;
        EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
        EXPECT(DSM_RC_OK, bind_name(handle, &name));
        EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchiveMountWait, NULL, &name, &attributes, &first));
        EXPECT(66000, first.numBytes);
        EXPECT(DSM_RC_OK, dsmSendData(handle, &none));
        EXPECT(0, none.numBytes);
        EXPECT(DSM_RC_OK, dsmSendData(handle, &rest));
        EXPECT(4000, rest.numBytes);
        EXPECT(DSM_RC_OK, dsmEndSendObjEx(&in, &out));
        EXPECT(70000, whole(out.totalBytesSent));
        EXPECT(bFalse, out.objCompressed);
        CHECK(is_untouched(&out, out.stVersion == 2 ? 36 : 48, sizeof out));
        commit(handle);
        qryRespArchiveData row = find_one(handle, "/estimates", ll);
        CHECK(whole(row.sizeEstimate) == estimates[i]);
        expect_content(handle, row.objId, bytes, 70000, 70000);
    }
    /* An object that was announced as empty takes no byte; the empty piece does no harm. */
    dsmObjName name = name_of("/estimates", "/empty");
    ObjAttr attributes = {.stVersion = ObjAttrVersion};
    DataBlk block = block_of(bytes, 10), none = block_of(NULL, 0);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, bind_name(handle, &name));
    EXPECT(DSM_RC_SENDDATA_WITH_ZERO_SIZE, dsmSendObj(handle, stArchive, NULL, &name, &attributes, &block));
    EXPECT(0, block.numBytes);
    EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchive, NULL, &name, &attributes, &none));
    EXPECT(DSM_RC_SENDDATA_WITH_ZERO_SIZE, dsmSendData(handle, &block));
    EXPECT(DSM_RC_OK, dsmSendData(handle, &none));
    EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
    commit(handle);
    free(bytes);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

static void test_attributes(void)
{
    dsUint32_t handle = open_session();
    dsmObjName name = name_of("/attributes", "/one");
    char info[DSM_MAX_EXT_OBJINFO_LENGTH + 1], description[DSM_MAX_DESCR_LENGTH + 2];
    for (size_t i = 0; i < sizeof info; i++) {
        info[i] = (char)(i % 7 ? i : 0);
    }
    memset(description, 'd', sizeof description);
    description[sizeof description - 1] = '\0';
    ObjAttr attributes = {.stVersion = ObjAttrVersion, .objInfo = info, .objInfoLength = DSM_MAX_OBJINFO_LENGTH,
                          .owner = "owner"};
    sndArchiveData data = {.stVersion = sndArchiveDataVersion, .descr = description};
    EXPECT(DSM_RC_OK, bind_name(handle, &name));
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_DESC_TOOLONG, dsmSendObj(handle, stArchive, &data, &name, &attributes, NULL));
    description[DSM_MAX_DESCR_LENGTH] = '\0';
    attributes.objInfoLength = DSM_MAX_OBJINFO_LENGTH + 1;
    EXPECT(DSM_RC_OBJINFO_TOOLONG, dsmSendObj(handle, stArchive, &data, &name, &attributes, NULL));
    attributes.useExtObjInfo = bTrue;
    attributes.stVersion = 3; /* to which useExtObjInfo is unknown */
    EXPECT(DSM_RC_OBJINFO_TOOLONG, dsmSendObj(handle, stArchive, &data, &name, &attributes, NULL));
    attributes.stVersion = ObjAttrVersion;
    attributes.objInfoLength = DSM_MAX_EXT_OBJINFO_LENGTH + 1;
    EXPECT(DSM_RC_OBJINFO_TOOLONG, dsmSendObj(handle, stArchive, &data, &name, &attributes, NULL));
    attributes.objInfoLength = DSM_MAX_EXT_OBJINFO_LENGTH;
    attributes.objCompressed = bTrue;
    EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchive, &data, &name, &attributes, NULL));
    EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
    commit(handle);
    qryRespArchiveData row = find_one(handle, "/attributes", "/one");
    EXPECT(DSM_MAX_EXT_OBJINFO_LENGTH, row.objInfolen);
    EXPECT(0, memcmp(row.objInfo, info, DSM_MAX_EXT_OBJINFO_LENGTH));
    EXPECT(0, strcmp(row.descr, description));
    EXPECT(0, strcmp(row.owner, "owner"));
    EXPECT(0, strcmp(row.objName.fs, SPACE));
    EXPECT(0, strcmp(row.objName.hl, "/attributes"));
    EXPECT(0, strcmp(row.objName.ll, "/one"));
    EXPECT(DSM_OBJ_FILE, row.objName.objType);
    EXPECT(0, strcmp(row.mcName, "STANDARD"));
    EXPECT(DSM_OBJ_COMPRESSED_YES, row.compressType);
    EXPECT(DSM_ARCH_HELD_FALSE, row.objHeld);
    EXPECT(DSM_ARCH_RETINIT_STARTED, row.retentionInitiated);
    CHECK(row.insDate.year >= 2024 && row.expDate.year >= row.insDate.year && row.expDate.year < DATE_PLUS_INFINITE);

    /* A structure that has no room for so much */
    row = (qryRespArchiveData){.stVersion = 6};
    DataBlk block = block_of(&row, sizeof row);
    EXPECT(DSM_RC_OK, begin_query(handle, "/attributes", "/one"));
    EXPECT(DSM_RC_MORE_DATA, dsmGetNextQObj(handle, &block));
    EXPECT(DSM_MAX_OBJINFO_LENGTH, row.objInfolen);
    EXPECT(0, memcmp(row.reservedObjInfo, info, DSM_MAX_OBJINFO_LENGTH));
    EXPECT(DSM_RC_OK, dsmEndQuery(handle));

    /* What changes afterwards */
    attributes = (ObjAttr){.stVersion = ObjAttrVersion, .objInfo = "new\0info", .objInfoLength = 8,
                           .sizeEstimate = {0, 4321}, .owner = "other"};
    data.descr = "changed";
    EXPECT(DSM_RC_OK, dsmUpdateObj(handle, stArchive, NULL, &name, &attributes, DSM_ARCHUPD_OBJINFO));
    row = find_one(handle, "/attributes", "/one");
    EXPECT(8, row.objInfolen);
    EXPECT(0, memcmp(row.objInfo, "new\0info", 8));
    EXPECT(0, memcmp(row.reservedObjInfo, "new\0info", 8));
    EXPECT(4321, whole(row.sizeEstimate));
    EXPECT(0, strcmp(row.owner, "owner"));
    EXPECT(DSM_RC_OK, dsmUpdateObj(handle, stArchive, &data, &name, &attributes,
                                   DSM_ARCHUPD_OWNER | DSM_ARCHUPD_DESCR));
    row = find_one(handle, "/attributes", "/one");
    EXPECT(0, strcmp(row.owner, "other"));
    EXPECT(0, strcmp(row.descr, "changed"));
    memset(&attributes, CANARY, sizeof attributes); /* what does not change is not looked at */
    attributes.stVersion = ObjAttrVersion;
    dsmUpdateObjExIn_t in = {.stVersion = dsmUpdateObjExInVersion, .dsmHandle = handle, .sendType = stArchive,
                             .descrP = "by id", .objNameP = &name, .objAttrPtr = &attributes,
                             .objUpdAct = DSM_ARCHUPD_DESCR, .archObjId = row.objId};
    dsmUpdateObjExOut_t out = {.stVersion = dsmUpdateObjExOutVersion};
    EXPECT(DSM_RC_OK, dsmUpdateObjEx(&in, &out));
    EXPECT(0, strcmp(find_one(handle, "/attributes", "/one").descr, "by id"));
    in.archObjId.hi = 0x7fffffff;
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmUpdateObjEx(&in, &out));
    out.stVersion = 2;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmUpdateObjEx(&in, &out));
    EXPECT(DSM_RC_INVALID_ACTION, dsmUpdateObj(handle, stArchive, &data, &name, &attributes, 0));
    EXPECT(DSM_RC_INVALID_ACTION, dsmUpdateObj(handle, stArchive, &data, &name, &attributes, 8));
    EXPECT(DSM_RC_NULL_OBJATTRPTR, dsmUpdateObj(handle, stArchive, &data, &name, NULL, DSM_ARCHUPD_DESCR));
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmUpdateObj(handle, stBackup, NULL, &name, &attributes, DSM_BACKUPD_OWNER));
    name = name_of("/attributes", "/none");
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmUpdateObj(handle, stArchive, &data, &name, &attributes, DSM_ARCHUPD_DESCR));
    strcpy(name.fs, "/unknown");
    EXPECT(DSM_RC_FS_NOT_REGISTERED, dsmUpdateObj(handle, stArchive, &data, &name, &attributes, DSM_ARCHUPD_DESCR));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

static void test_names(void)
{
    dsUint32_t handle = open_session();
    ObjAttr attributes = {.stVersion = ObjAttrVersion};
    dsmObjName name = name_of("/names", "/x");
    mcBindKey key = {.stVersion = mcBindKeyVersion};
    memset(name.hl, 'h', sizeof name.hl); /* no NUL at all: one byte too long */
    name.hl[0] = '/';
    EXPECT(DSM_RC_HL_TOOLONG, dsmBindMC(handle, &name, stArchive, &key));
    name.hl[DSM_MAX_HL_LENGTH] = '\0';
    memset(name.ll, 'l', sizeof name.ll);
    name.ll[0] = '/';
    EXPECT(DSM_RC_LL_TOOLONG, dsmBindMC(handle, &name, stArchive, &key));
    name.ll[DSM_MAX_LL_LENGTH] = '\0';
    EXPECT(DSM_RC_OK, dsmBindMC(handle, &name, stArchive, &key));
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchive, NULL, &name, &attributes, NULL));
    EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
    commit(handle);
    qryRespArchiveData row = find_one(handle, name.hl, "/*");
    EXPECT(0, strcmp(row.objName.hl, name.hl));
    EXPECT(0, strcmp(row.objName.ll, name.ll));

    const struct {
        const char *fs, *hl, *ll;
        dsUint8_t type;
        dsInt16_t code;
    } cases[] = {
        {"", "/h", "/l", 1, DSM_RC_INVALID_FSNAME},
        {"fs", "/h", "/l", 1, DSM_RC_INVALID_FSNAME},
        {SPACE, "h", "/l", 1, DSM_RC_INVALID_HLNAME},
        {SPACE, "/h", "l", 1, DSM_RC_INVALID_LLNAME},
        {SPACE, "", "", 1, DSM_RC_INVALID_OBJNAME},
        {SPACE, "/h*", "/l", 1, DSM_RC_WILDCHAR_NOTALLOWED},
        {SPACE, "/h", "/l?", 1, DSM_RC_WILDCHAR_NOTALLOWED},
        {SPACE, "/h", "/l", DSM_OBJ_ANY_TYPE, DSM_RC_INVALID_OBJTYPE},
        {SPACE, "/h", "/l", 7, DSM_RC_INVALID_OBJTYPE},
        {SPACE, "", "/l", 2, DSM_RC_OK},
        {SPACE, "/", "/l", 1, DSM_RC_OK},
    };
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        name = name_of(cases[i].hl, cases[i].ll);
        strcpy(name.fs, cases[i].fs);
        name.objType = cases[i].type;
        EXPECT(cases[i].code, dsmBindMC(handle, &name, stArchive, &key));
        EXPECT(cases[i].code, dsmSendObj(handle, stArchive, NULL, &name, &attributes, NULL));
        if (cases[i].code == DSM_RC_OK) {
            EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
        }
    }
    name = name_of("/h", "/l");
    memset(name.fs, 'f', sizeof name.fs);
    EXPECT(DSM_RC_FILESPACE_TOOLONG, dsmBindMC(handle, &name, stArchive, &key));
    name = name_of("/unregistered", "/l");
    strcpy(name.fs, "/unregistered");
    EXPECT(DSM_RC_OK, dsmBindMC(handle, &name, stArchive, &key));
    /* In the middle of a transaction the library cannot ask for another file space. */
    EXPECT(DSM_RC_NEEDTO_ENDTXN, dsmSendObj(handle, stArchive, NULL, &name, &attributes, NULL));
    commit(handle);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_FS_NOT_REGISTERED, dsmSendObj(handle, stArchive, NULL, &name, &attributes, NULL));
    commit(handle);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

static void test_send_refusals(void)
{
    dsUint32_t handle = open_session();
    dsmObjName name = name_of("/refusals", "/x"), other = name_of("/refusals", "/y");
    ObjAttr attributes = {.stVersion = ObjAttrVersion, .sizeEstimate = {0, 1}};
    sndArchiveData data = {.stVersion = sndArchiveDataVersion};
    DataBlk block = block_of("x", 1);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_NEEDTO_CALL_BINDMC, dsmSendObj(handle, stArchive, NULL, &name, &attributes, NULL));
    attributes.mcNameP = "SHORT";
    EXPECT(DSM_RC_NEEDTO_CALL_BINDMC, dsmSendObj(handle, stArchive, NULL, &name, &attributes, NULL));
    EXPECT(DSM_RC_OK, bind_name(handle, &name));
    EXPECT(DSM_RC_NEEDTO_CALL_BINDMC, dsmSendObj(handle, stArchive, NULL, &other, &attributes, NULL));
    attributes.mcNameP = "NOSUCH";
    EXPECT(DSM_RC_INVALID_MCNAME, dsmSendObj(handle, stArchive, NULL, &name, &attributes, NULL));
    attributes.mcNameP = "";
    EXPECT(DSM_RC_ABORT_INSERT_NOT_ALLOWED, dsmSendObj(handle, stBackup, NULL, &name, &attributes, NULL));
    EXPECT(DSM_RC_ABORT_INSERT_NOT_ALLOWED, dsmSendObj(handle, stBackupMountWait, NULL, &name, &attributes, NULL));
    EXPECT(DSM_RC_INVALID_SENDTYPE, dsmSendObj(handle, 4, NULL, &name, &attributes, NULL));
    EXPECT(DSM_RC_NULL_OBJNAME, dsmSendObj(handle, stArchive, NULL, NULL, &attributes, NULL));
    EXPECT(DSM_RC_NULL_OBJATTRPTR, dsmSendObj(handle, stArchive, NULL, &name, NULL, NULL));
    const dsUint16_t wrong[] = {0, 1, ObjAttrVersion + 1};
    for (unsigned i = 0; i < 3; i++) {
        attributes.stVersion = wrong[i];
        EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmSendObj(handle, stArchive, NULL, &name, &attributes, NULL));
    }
    attributes.stVersion = ObjAttrVersion;
    data.stVersion = 0;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmSendObj(handle, stArchive, &data, &name, &attributes, NULL));
    data.stVersion = 1;
    block.stVersion = 4;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmSendObj(handle, stArchive, &data, &name, &attributes, &block));
    attributes.objInfoLength = 3;
    EXPECT(DSM_RC_INVALID_PARM, dsmSendObj(handle, stArchive, &data, &name, &attributes, NULL));
    attributes.objInfoLength = 0;
    memset(attributes.owner, 'o', sizeof attributes.owner);
    EXPECT(DSM_RC_INVALID_OBJOWNER, dsmSendObj(handle, stArchive, &data, &name, &attributes, NULL));
    attributes.owner[0] = '\0';

    /* An old ObjAttr and an old DataBlk end before the fields that came later. */
    unsigned char *old = malloc(104);
    attributes.stVersion = 2;
    memcpy(old, &attributes, 104);
    EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchive, NULL, &name, (ObjAttr *)(void *)old, NULL));
    free(old);
    unsigned char *old_block = malloc(24);
    block.stVersion = 1;
    memcpy(old_block, &block, 24);
    EXPECT(DSM_RC_OK, dsmSendData(handle, (DataBlk *)(void *)old_block));
    memcpy(&block, old_block, 24);
    EXPECT(1, block.numBytes);
    free(old_block);
    EXPECT(DSM_RC_NULL_DATABLKPTR, dsmSendData(handle, NULL));
    block.stVersion = 0;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmSendData(handle, &block));
    block = block_of(NULL, 1);
    EXPECT(DSM_RC_NULL_BUFPTR, dsmSendData(handle, &block));
    dsmEndSendObjExIn_t in = {.stVersion = 1, .dsmHandle = handle};
    dsmEndSendObjExOut_t out = {.stVersion = 1};
    EXPECT(DSM_RC_INVALID_PARM, dsmEndSendObjEx(NULL, &out));
    EXPECT(DSM_RC_INVALID_PARM, dsmEndSendObjEx(&in, NULL));
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmEndSendObjEx(&in, &out));
    out.stVersion = 3;
    in.stVersion = 2;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmEndSendObjEx(&in, &out));
    in.stVersion = 1;
    EXPECT(DSM_RC_OK, dsmEndSendObjEx(&in, &out));
    EXPECT(1, whole(out.totalBytesSent));
    commit(handle);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

void test_archiving(void)
{
    test_sizes();
    test_estimates();
    test_attributes();
    test_names();
    test_send_refusals();
}

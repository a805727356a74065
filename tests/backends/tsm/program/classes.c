/* Management classes: what is told of them, and which one a name is bound to. */
#include <string.h>

#include "calls.h"

static void test_told_classes(void)
{
    dsUint32_t handle = open_session();
    qryMCData asked = {.stVersion = qryMCDataVersion, .mcName = ""};
    qryRespMCData row = {.stVersion = qryRespMCDataVersion};
    DataBlk block = block_of(&row, sizeof row);
    bool has_standard = false;
    EXPECT(DSM_RC_OK, dsmBeginQuery(handle, qtMC, &asked));
    dsInt16_t code;
    while ((code = dsmGetNextQObj(handle, &block)) == DSM_RC_MORE_DATA) {
        EXPECT(sizeof row, block.numBytes);
        has_standard |= strcmp(row.mcName, "STANDARD") == 0;
    }
    EXPECT(DSM_RC_FINISHED, code);
    EXPECT(0, block.numBytes);
    EXPECT(DSM_RC_FINISHED, dsmGetNextQObj(handle, &block));
    CHECK(has_standard);
    EXPECT(DSM_RC_OK, dsmEndQuery(handle));

    asked.mcName = "event";
    asked.mcDetail = bTrue;
    for (dsUint16_t version = 3; version <= qryRespMCDetailDataVersion; version++) {
        qryRespMCDetailData detail;
        size_t size = version == 3 ? 460 : 468;
        memset(&detail, CANARY, sizeof detail);
        detail.stVersion = version;
        block = block_of(&detail, sizeof detail);
        EXPECT(DSM_RC_OK, dsmBeginQuery(handle, qtMC, &asked));
        EXPECT(DSM_RC_MORE_DATA, dsmGetNextQObj(handle, &block));
        EXPECT(size, block.numBytes);
        CHECK(is_untouched(&detail, size, sizeof detail));
        EXPECT(0, strcmp(detail.mcName, "EVENT"));
        EXPECT(0, strcmp(detail.archDet.cgName, "STANDARD"));
        EXPECT(ARCH_RETINIT_EVENT, detail.archDet.retainInit);
        EXPECT(0, detail.archDet.retainVers);
        EXPECT(1, detail.archDet.retainMin);
        EXPECT(0, ((char *)&detail)[version == 3 ? 376 : 380]); /* no backup copy group */
        EXPECT(DSM_RC_FINISHED, dsmGetNextQObj(handle, &block));
        EXPECT(DSM_RC_OK, dsmEndQuery(handle));
    }
    asked.mcName = "NOSUCH";
    EXPECT(DSM_RC_OK, dsmBeginQuery(handle, qtMC, &asked));
    qryRespMCDetailData detail = {.stVersion = 2};
    block = block_of(&detail, sizeof detail);
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmGetNextQObj(handle, &block));
    detail.stVersion = 4;
    EXPECT(DSM_RC_INVALID_MCNAME, dsmGetNextQObj(handle, &block));
    EXPECT(DSM_RC_OK, dsmEndQuery(handle));

    dsmObjName name = name_of("/bind", "/one");
    mcBindKey key = {.stVersion = mcBindKeyVersion};
    EXPECT(DSM_RC_OK, dsmBindMC(handle, &name, stArchiveMountWait, &key));
    EXPECT(0, strcmp(key.mcName, "STANDARD"));
    EXPECT(bTrue, key.archive_cg_exists);
    EXPECT(bFalse, key.backup_cg_exists);
    CHECK(strlen(key.archive_copy_dest) > 0);
    EXPECT(DSM_RC_TL_NOBCG, dsmBindMC(handle, &name, stBackup, &key));
    EXPECT(DSM_RC_INVALID_SENDTYPE, dsmBindMC(handle, &name, 4, &key));
    EXPECT(DSM_RC_NULL_OBJNAME, dsmBindMC(handle, NULL, stArchive, &key));
    EXPECT(DSM_RC_INVALID_PARM, dsmBindMC(handle, &name, stArchive, NULL));
    key.stVersion = 2;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmBindMC(handle, &name, stArchive, &key));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

static void test_include_exclude(void)
{
    dsUint32_t handle;
    EXPECT(DSM_RC_NO_INCLEXCL_FILE, sign_on_with(&handle, NULL, "-inclexcl=/nowhere/list"));
    EXPECT(DSM_RC_INVALID_OPT, sign_on_with(&handle, NULL, "-se=BADLIST"));
    EXPECT(DSM_RC_OK, sign_on_with(&handle, NULL, "-se=LIST"));
    mcBindKey key = {.stVersion = mcBindKeyVersion};
    dsmObjName name = name_of("/a/b", "/c.tmp");
    EXPECT(DSM_RC_TL_EXCLUDED, dsmBindMC(handle, &name, stArchive, &key));
    EXPECT(0, strcmp(key.mcName, "STANDARD"));
    ObjAttr attributes = {.stVersion = ObjAttrVersion, .sizeEstimate = {0, 1}};
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    EXPECT(DSM_RC_OBJ_EXCLUDED, dsmSendObj(handle, stArchive, NULL, &name, &attributes, NULL));
    name = name_of("/a/short", "/c");
    EXPECT(DSM_RC_OK, dsmBindMC(handle, &name, stArchive, &key));
    EXPECT(0, strcmp(key.mcName, "SHORT"));
    name = name_of("/a/short", "/keep.tmp"); /* the rule below in the list comes first */
    EXPECT(DSM_RC_OK, dsmBindMC(handle, &name, stArchive, &key));
    EXPECT(0, strcmp(key.mcName, "STANDARD"));
    name = name_of("/vanished", "/c");
    EXPECT(DSM_RC_PS_INVALID_ARCHMC, dsmBindMC(handle, &name, stArchive, &key));
    name = name_of("/other", "/c");
    EXPECT(DSM_RC_OK, dsmBindMC(handle, &name, stArchive, &key));
    EXPECT(0, strcmp(key.mcName, "STANDARD"));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

void test_classes(void)
{
    test_told_classes();
    test_include_exclude();
}

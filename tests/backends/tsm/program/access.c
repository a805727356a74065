/* Rules that let other nodes and owners read, and reading by them. */
#include <stdlib.h>
#include <string.h>

#include "calls.h"

static dsUint32_t open_as(const char *as_node, const char *as_password, const char *owner, const char *options)
{
    dsUint32_t handle = 0;
    EXPECT(DSM_RC_OK, sign_on_as(&handle, as_node, as_password, owner, options));
    return handle;
}

static dsUint32_t open_owner(const char *owner, const char *options)
{
    return open_as(node, password, owner, options);
}

/* A session of the other node that reads from this one. */
static dsUint32_t open_reader(const char *owner, const char *options)
{
    return open_as(getenv("TSM_OTHER_NODE"), getenv("TSM_OTHER_PASSWORD"), owner, options);
}

static dsInt16_t give(dsUint32_t handle, const char *hl, const char *ll, char *to_node, char *to_owner)
{
    dsmObjName name = name_of(hl, ll);
    return dsmSetAccess(handle, atArchive, &name, to_node, to_owner);
}

/* The number of the only rule that the session sees. */
static dsUint32_t only_rule(dsUint32_t handle)
{
    qryRespAccessData *rules = NULL;
    dsUint16_t count = 9;
    EXPECT(DSM_RC_OK, dsmQueryAccess(handle, &rules, &count));
    EXPECT(1, count);
    return rules ? rules[0].ruleNumber : 0;
}

static void expect_no_rule(dsUint32_t handle)
{
    dsUint16_t count = 9;
    qryRespAccessData *rules = &(qryRespAccessData){0};
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmQueryAccess(handle, &rules, &count));
    EXPECT(0, count);
    CHECK(rules == NULL);
}

static void expect_no_object(dsUint32_t handle, ObjID id)
{
    char room[8];
    DataBlk block = block_of(room, sizeof room);
    EXPECT(DSM_RC_OK, begin_get(handle, &id, 1));
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmGetObj(handle, &id, &block));
    EXPECT(DSM_RC_OK, dsmEndGetData(handle));
}

static dsInt16_t first_space(dsUint32_t handle)
{
    qryFSData asked = {.stVersion = qryFSDataVersion, .fsName = "*"};
    qryRespFSData row = {.stVersion = qryRespFSDataVersion};
    DataBlk block = block_of(&row, sizeof row);
    EXPECT(DSM_RC_OK, dsmBeginQuery(handle, qtFilespace, &asked));
    dsInt16_t code = dsmGetNextQObj(handle, &block);
    if (code == DSM_RC_MORE_DATA) {
        EXPECT(0, strcmp(row.fsName, SPACE));
        EXPECT(DSM_RC_FINISHED, dsmGetNextQObj(handle, &block));
    }
    EXPECT(DSM_RC_OK, dsmEndQuery(handle));
    return code;
}

/* Whoever reads from others changes nothing, theirs or its own. */
static void expect_no_change(dsUint32_t handle, ObjID id)
{
    regFSData space = {.stVersion = regFSDataVersion, .fsName = "/mine", .fsType = "program"};
    dsmFSUpd update = {.stVersion = dsmFSUpdVersion, .fsType = "other"};
    dsmObjName name = name_of("/access/open", "/x");
    ObjAttr attributes = {.stVersion = ObjAttrVersion, .owner = "thief"};
    dsmUpdateObjExIn_t in = {.stVersion = dsmUpdateObjExInVersion, .dsmHandle = handle, .sendType = stArchive,
                             .objNameP = &name, .objAttrPtr = &attributes, .objUpdAct = DSM_ARCHUPD_OWNER,
                             .archObjId = id};
    dsmUpdateObjExOut_t out = {.stVersion = dsmUpdateObjExOutVersion};
    const dsInt16_t refused = DSM_RC_ABORT_NODE_NOT_AUTHORIZED;
    EXPECT(refused, dsmBeginTxn(handle));
    EXPECT(refused, dsmRegisterFS(handle, &space));
    EXPECT(refused, dsmUpdateFS(handle, SPACE, &update, DSM_FSUPD_FSTYPE));
    EXPECT(refused, dsmDeleteFS(handle, SPACE, DSM_ARCHIVE_REP));
    EXPECT(refused, dsmUpdateObj(handle, stArchive, NULL, &name, &attributes, DSM_ARCHUPD_OWNER));
    EXPECT(refused, dsmUpdateObjEx(&in, &out));
    EXPECT(refused, give(handle, "*", "*", "*", "*"));
    EXPECT(refused, dsmDeleteAccess(handle, 1));
}

static void test_what_is_no_rule(dsUint32_t handle)
{
    dsmObjName name = name_of("/access/*", "*");
    char *long_name = noise(65);
    memset(long_name, 'n', 65);
    long_name[65] = '\0';
    EXPECT(DSM_RC_NO_FILES_BACKUP, dsmSetAccess(handle, atBackup, &name, "OTHER", "*"));
    EXPECT(DSM_RC_INVALID_ACCESS_TYPE, dsmSetAccess(handle, 7, &name, "OTHER", "*"));
    EXPECT(DSM_RC_NULL_OBJNAME, dsmSetAccess(handle, atArchive, NULL, "OTHER", "*"));
    EXPECT(DSM_RC_INVALID_SETACCESS, dsmSetAccess(handle, atArchive, &name, NULL, "*"));
    EXPECT(DSM_RC_INVALID_SETACCESS, dsmSetAccess(handle, atArchive, &name, "", "*"));
    EXPECT(DSM_RC_INVALID_SETACCESS, dsmSetAccess(handle, atArchive, &name, long_name, "*"));
    EXPECT(DSM_RC_INVALID_SETACCESS, dsmSetAccess(handle, atArchive, &name, "OTHER", long_name));
    EXPECT(DSM_RC_INVALID_SETACCESS, give(handle, "", "", "OTHER", "*"));
    EXPECT(DSM_RC_NO_FILES_ARCHIVE, give(handle, "/access/none", "*", "OTHER", "*"));
    strcpy(name.fs, "/unregistered");
    EXPECT(DSM_RC_FSNAME_NOTFOUND, dsmSetAccess(handle, atArchive, &name, "OTHER", "*"));
    strcpy(name.fs, "unregistered");
    EXPECT(DSM_RC_INVALID_FSNAME, dsmSetAccess(handle, atArchive, &name, "OTHER", "*"));
    qryRespAccessData *rules;
    dsUint16_t count;
    EXPECT(DSM_RC_INVALID_PARM, dsmQueryAccess(handle, NULL, &count));
    EXPECT(DSM_RC_INVALID_PARM, dsmQueryAccess(handle, &rules, NULL));
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmDeleteAccess(handle, 12345));
    expect_no_rule(handle);
    free(long_name);
}

static void test_another_node(dsUint32_t handle, ObjID open, ObjID closed)
{
    char *other = getenv("TSM_OTHER_NODE");
    dsUint32_t stranger = open_reader(NULL, NULL), reader = open_reader(NULL, "-fromnode=ARCHIVER");
    EXPECT(DSM_RC_NO_AUTHORIZATION, begin_query(reader, "*", "*"));
    EXPECT(DSM_RC_NO_AUTHORIZATION, first_space(reader));
    expect_no_object(reader, open);
    expect_no_change(reader, open);

    EXPECT(DSM_RC_OK, give(handle, "/access/open", "*", other, NULL));
    EXPECT(DSM_RC_ABORT_RULE_ALREADY_DEFED, give(handle, "/access/open", "*", other, "*"));
    qryRespAccessData *rules;
    dsUint16_t count;
    EXPECT(DSM_RC_OK, dsmQueryAccess(handle, &rules, &count));
    EXPECT(1, count);
    EXPECT(qryRespAccessDataVersion, rules->stVersion);
    EXPECT(atArchive, rules->accessType);
    CHECK(strcmp(rules->node, other) == 0 && strcmp(rules->owner, "*") == 0);
    CHECK(strcmp(rules->objName.fs, SPACE) == 0 && strcmp(rules->objName.hl, "/access/open") == 0 &&
          strcmp(rules->objName.ll, "*") == 0);

    EXPECT(2, find(reader, "*", "*", NULL, 0)); /* Anna's and Bert's there, and nothing else of all that is archived */
    EXPECT(DSM_RC_MORE_DATA, first_space(reader));
    expect_content(reader, open, "anna", 4, 10);
    expect_no_object(reader, closed);
    expect_no_change(reader, open);
    expect_no_rule(reader); /* it has made none itself */
    EXPECT(DSM_RC_FILE_SPACE_NOT_FOUND, begin_query(stranger, "*", "*")); /* unasked, nobody sees another's */
    expect_no_object(stranger, open);
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmDeleteAccess(stranger, rules->ruleNumber));

    dsUint32_t only_anna = open_reader(NULL, "-fromnode=archiver -fromowner=anna");
    EXPECT(1, find(only_anna, "*", "*", NULL, 0));
    EXPECT(DSM_RC_OK, dsmTerminate(only_anna));

    EXPECT(DSM_RC_OK, dsmDeleteAccess(handle, rules->ruleNumber));
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmDeleteAccess(handle, rules->ruleNumber));
    EXPECT(0, find(reader, "*", "*", NULL, 0)); /* the session that was open is no exception */
    expect_no_object(reader, open);
    EXPECT(DSM_RC_OK, dsmTerminate(reader));
    EXPECT(DSM_RC_OK, dsmTerminate(stranger));
}

static void test_owners(dsUint32_t handle)
{
    char *other = getenv("TSM_OTHER_NODE");
    dsUint32_t carl = open_reader("carl", "-fromnode=ARCHIVER"), dora = open_reader("dora", "-fromnode=ARCHIVER");
    EXPECT(DSM_RC_OK, give(handle, "/access/*", "*", other, "c*l"));
    EXPECT(3, find(carl, "*", "*", NULL, 0));
    EXPECT(DSM_RC_NO_AUTHORIZATION, begin_query(dora, "*", "*"));
    EXPECT(DSM_RC_OK, dsmDeleteAccess(handle, only_rule(handle)));

    /* An owner gives what is the owner's, and sees no other rules */
    dsUint32_t anna = open_owner("anna", NULL), bert = open_owner("bert", NULL);
    EXPECT(DSM_RC_OK, give(anna, "*", "*", "OTH?R", "dora"));
    EXPECT(2, find(dora, "*", "*", NULL, 0));
    expect_no_rule(bert);
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmDeleteAccess(bert, only_rule(anna)));
    EXPECT(only_rule(anna), only_rule(handle)); /* whoever acts for all sees all */
    EXPECT(DSM_RC_OK, dsmDeleteAccess(handle, only_rule(handle)));

    /* Owners of one node */
    dsUint32_t guest = open_owner("bert", "-fromowner=anna");
    EXPECT(DSM_RC_NO_AUTHORIZATION, begin_query(guest, "*", "*"));
    EXPECT(DSM_RC_OK, give(anna, "/access/closed", "*", (char *)(size_t)node, "bert"));
    EXPECT(1, find(guest, "*", "*", NULL, 0));
    EXPECT(DSM_RC_OK, dsmDeleteAccess(anna, only_rule(anna)));
    dsUint32_t everybody = open_owner(NULL, "-fromowner=anna"); /* needs no rule for the node's own */
    EXPECT(2, find(everybody, "/access/*", "*", NULL, 0));
    const dsUint32_t handles[] = {carl, dora, anna, bert, guest, everybody};
    for (unsigned i = 0; i < sizeof handles / sizeof *handles; i++) {
        EXPECT(DSM_RC_OK, dsmTerminate(handles[i]));
    }
}

void test_access(void)
{
    dsUint32_t handle = open_session();
    expect_no_rule(handle);
    dsUint32_t anna = open_owner("anna", NULL), bert = open_owner("bert", NULL);
    archive(anna, "/access/open", "/x", NULL, "anna", 4, 4);
    archive(anna, "/access/closed", "/x", NULL, "secret", 6, 6);
    archive(bert, "/access/open", "/y", NULL, "bert", 4, 4);
    EXPECT(DSM_RC_OK, dsmTerminate(anna));
    EXPECT(DSM_RC_OK, dsmTerminate(bert));
    ObjID open = find_one(handle, "/access/open", "/x").objId, closed = find_one(handle, "/access/closed", "/x").objId;
    test_what_is_no_rule(handle);
    test_another_node(handle, open, closed);
    test_owners(handle);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

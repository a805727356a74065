/* Before a session, and how one is opened: options, names, passwords, versions of the structures. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

static void test_versions(void)
{
    dsmApiVersion old;
    dsmQueryApiVersion(&old);
    EXPECT(8, old.version);
    EXPECT(2, old.release);
    EXPECT(1, old.level);
    for (dsUint16_t version = 0; version <= 2; version++) {
        dsmApiVersionEx new;
        memset(&new, CANARY, sizeof new);
        new.stVersion = version;
        dsmQueryApiVersionEx(&new);
        EXPECT(8, new.version);
        EXPECT(0, new.subLevel);
        size_t size = version >= 2 ? sizeof new : offsetof(dsmApiVersionEx, subLevel) + 2;
        CHECK(is_untouched(&new, size, sizeof new));
    }
    dsmQueryApiVersionEx(NULL);
    dsmQueryApiVersion(NULL);
}

static void test_without_session(void)
{
    char text[DSM_MAX_RC_MSG_LENGTH + 1];
    dsmEndTxnExIn_t end_in = {.stVersion = 1, .dsmHandle = 77};
    dsmEndTxnExOut_t end_out = {.stVersion = 1};
    dsUint16_t reason = 99;
    EXPECT(DSM_RC_OK, dsmRCMsg(0, DSM_RC_FINISHED, text));
    EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmTerminate(0));
    EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmTerminate(4096));
    EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmQuerySessInfo(77, NULL));
    EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmBeginTxn(0xffffffff));
    EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmEndTxn(77, 9, &reason));
    EXPECT(0, reason);
    EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmEndTxnEx(&end_in, &end_out));
    EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmSendObj(77, 9, NULL, NULL, NULL, NULL));
    EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmGetNextQObj(77, NULL));

    optStruct options;
    memset(&options, CANARY, sizeof options);
    EXPECT(DSM_RC_OK, dsmQueryCliOptions(&options));
    EXPECT(0, strcmp(options.serverName, "MAIN"));
    EXPECT(0, strcmp(options.dsmiDir, getenv("DSMI_DIR")));
    EXPECT(DSM_COMM_TCP, options.commMethod);
    EXPECT(bFalse, options.passwordAccess);
    EXPECT(DSM_RC_INVALID_PARM, dsmQueryCliOptions(NULL));
}

static void test_set_up(void)
{
    envSetUp *environment = calloc(1, sizeof *environment);
    char folder[DSM_PATH_MAX];
    snprintf(folder, sizeof folder, "%s", getenv("DSMI_DIR"));
    environment->stVersion = envSetUpVersion + 1;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmSetUp(DSM_MULTITHREAD, environment));
    environment->stVersion = envSetUpVersion;
    memset(environment->dsmiDir, 'x', sizeof environment->dsmiDir);
    EXPECT(DSM_RC_INVALID_PARM, dsmSetUp(DSM_MULTITHREAD, environment));
    /* What dsmSetUp says is stronger than the environment, until dsmCleanUp. */
    memset(environment->dsmiDir, 0, sizeof environment->dsmiDir);
    snprintf(environment->dsmiDir, sizeof environment->dsmiDir, "%s", folder);
    setenv("DSMI_DIR", "/nowhere", 1);
    dsUint32_t handle;
    EXPECT(DSM_RC_NO_SYS_OR_INCLEXCL, sign_on_with(&handle, NULL, NULL));
    EXPECT(DSM_RC_OK, dsmSetUp(DSM_MULTITHREAD, environment));
    EXPECT(DSM_RC_OK, sign_on_with(&handle, NULL, NULL));
    EXPECT(DSM_RC_BAD_CALL_SEQUENCE, dsmSetUp(DSM_MULTITHREAD, environment));
    optStruct options;
    EXPECT(DSM_RC_BAD_CALL_SEQUENCE, dsmQueryCliOptions(&options));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    EXPECT(DSM_RC_OK, dsmCleanUp(DSM_MULTITHREAD));
    EXPECT(DSM_RC_NO_SYS_OR_INCLEXCL, sign_on_with(&handle, NULL, NULL));
    setenv("DSMI_DIR", folder, 1);
    free(environment);
    EXPECT(DSM_RC_OK, dsmSetUp(DSM_MULTITHREAD, NULL));
}

static void test_options(void)
{
    const struct {
        const char *options;
        dsInt16_t code;
    } cases[] = {
        {"-se=MAIN", DSM_RC_OK},
        {"-SERVERNAME=main", DSM_RC_OK},
        {"se=MAIN", DSM_RC_OK},
        {"  -se='MAIN'   -tcpb=32 ", DSM_RC_OK},
        {"-se=MAIN -tcpp=1", DSM_RC_OK}, /* dsm.sys is stronger */
        {"-se=MAIN -enablearchiveretentionprotection=no", DSM_RC_OK},
        {"-se=OPEN", DSM_RC_CLIENT_NOT_ARCHRETPROT},
        {"-se=OPEN -ENABLEARCHIVERETENTIONPROTECTION=yes", DSM_RC_OK},
        {"-se=OPEN -enablearchiveretention=yes", DSM_RC_INVALID_OPT},
        {"-se=ELSEWHERE", DSM_RC_INVALID_SERVER},
        {"-se=NOBODY", DSM_RC_TCPIP_FAILURE},
        {"-se=NONAME", DSM_RC_BAD_HOST_NAME},
        {"-se=PIPE", DSM_RC_INV_COMM_METHOD},
        {"-se=WORD", DSM_RC_INVALID_KEYWORD},
        {"-se=VALUE", DSM_RC_INVALID_OPT},
        {"-se=QUOTE", DSM_RC_UNMATCHED_QUOTE},
        {"-se=OTHERNODE", DSM_RC_OK}, /* the caller's node wins */
        {"-s=MAIN", DSM_RC_INVALID_OPT},
        {"-se", DSM_RC_INVALID_OPT},
        {"-se=", DSM_RC_INVALID_OPT},
        {"-se='MAIN", DSM_RC_UNMATCHED_QUOTE},
        {"-nosuch=1", DSM_RC_INVALID_OPT},
        {"-asnode=OTHER", DSM_RC_INVALID_OPT},
        {"-tcpp=70000", DSM_RC_INVALID_OPT},
        {"-passwordaccess=maybe", DSM_RC_INVALID_OPT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dsUint32_t handle = 99;
        dsInt16_t code = sign_on_with(&handle, NULL, cases[i].options);
        if (code != cases[i].code) {
            printf("options %s: ", cases[i].options);
        }
        EXPECT(cases[i].code, code);
        EXPECT(code == DSM_RC_OK, handle != 0);
        EXPECT(code == DSM_RC_OK ? DSM_RC_OK : DSM_RC_INVALID_DS_HANDLE, dsmTerminate(handle));
    }
}

static void test_identity(void)
{
    dsUint32_t handle;
    const char *good_node = node, *good_password = password;
    char lower[DSM_MAX_VERIFIER_LENGTH + 1] = "", long_text[DSM_MAX_VERIFIER_LENGTH + 2];
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    for (size_t i = 0; good_password[i]; i++) {
        lower[i] = (char)tolower((unsigned char)good_password[i]);
    }
    password = lower;
    EXPECT(DSM_RC_OK, sign_on_with(&handle, "", NULL));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    password = "wrong";
    EXPECT(DSM_RC_AUTH_FAILURE, sign_on_with(&handle, NULL, NULL));
    password = NULL;
    EXPECT(DSM_RC_AUTH_FAILURE, sign_on_with(&handle, NULL, NULL));
    password = long_text;
    EXPECT(DSM_RC_PASSWD_TOOLONG, sign_on_with(&handle, NULL, NULL));
    password = good_password;
    node = "NOBODY";
    EXPECT(DSM_RC_REJECT_ID_UNKNOWN, sign_on_with(&handle, NULL, NULL));
    node = long_text;
    EXPECT(DSM_RC_OPT_INV_NODENAME, sign_on_with(&handle, NULL, NULL));
    node = NULL; /* the stanza has it, and the password too */
    password = NULL;
    EXPECT(DSM_RC_OK, sign_on_with(&handle, NULL, "-se=STANZA"));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    /* GENERATE: the library knows who and with which password */
    EXPECT(DSM_RC_OK, sign_on_with(&handle, NULL, "-se=GENERATE"));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    EXPECT(DSM_RC_NO_OWNER_REQD, sign_on_with(&handle, "me", "-se=GENERATE"));
    EXPECT(DSM_RC_NO_PASS_FILE, sign_on_with(&handle, NULL, "-se=NOFILE"));
    node = good_node;
    EXPECT(DSM_RC_NO_NODE_REQD, sign_on_with(&handle, NULL, "-se=GENERATE"));
    password = good_password;
    EXPECT(DSM_RC_INVALID_OBJOWNER, sign_on_with(&handle, long_text, NULL));
}

static void test_old_sign_on(void)
{
    dsUint32_t handle = 99;
    dsmApiVersion version = {DSM_API_VERSION, DSM_API_RELEASE, DSM_API_LEVEL};
    char *n = (char *)(size_t)node, *p = (char *)(size_t)password;
    EXPECT(DSM_RC_OK, dsmInit(&handle, &version, n, NULL, p, NULL, NULL, NULL));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    version.level++;
    EXPECT(DSM_RC_WRONG_VERSION, dsmInit(&handle, &version, n, NULL, p, NULL, NULL, NULL));
    EXPECT(DSM_RC_INVALID_PARM, dsmInit(NULL, &version, n, NULL, p, NULL, NULL, NULL));
    EXPECT(DSM_RC_INVALID_PARM, dsmInit(&handle, NULL, n, NULL, p, NULL, NULL, NULL));
}

static void test_sign_on_structures(void)
{
    dsUint32_t handle = 99;
    dsmApiVersionEx version = {.stVersion = apiVersionExVer};
    dsmQueryApiVersionEx(&version);
    dsmInitExIn_t in = {.stVersion = dsmInitExInVersion,
                        .apiVersionExP = &version,
                        .clientNodeNameP = (char *)(size_t)node,
                        .clientPasswordP = (char *)(size_t)password};
    dsmInitExOut_t out;
    const size_t sizes[] = {80, 0, 80, 216};
    for (dsUint16_t number = 0; number <= dsmInitExOutVersion; number++) {
        if (sizes[number] == 0) {
            continue;
        }
        memset(&out, CANARY, sizeof out);
        out.stVersion = number;
        EXPECT(DSM_RC_OK, dsmInitEx(&handle, &in, &out));
        EXPECT(number, out.stVersion);
        EXPECT(0, out.infoRC);
        EXPECT(0, strcmp(out.adsmServerName, "ARCHIVER"));
        CHECK(is_untouched(&out, sizes[number], sizeof out));
        EXPECT(DSM_RC_OK, dsmTerminate(handle));
    }
    in.stVersion = 4; /* without appVersionP, which then is not to be read */
    in.appVersionP = (dsmAppVersion *)(size_t)8;
    version.stVersion = 0;
    EXPECT(DSM_RC_OK, dsmInitEx(&handle, &in, &out));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    in.stVersion = 5;
    dsmAppVersion application = {.stVersion = 0};
    in.appVersionP = &application;
    EXPECT(DSM_RC_OK, dsmInitEx(&handle, &in, &out));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    application.stVersion = appVersionVer + 1;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmInitEx(&handle, &in, &out));
    in.appVersionP = NULL;
    in.stVersion = 6;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmInitEx(&handle, &in, &out));
    in.stVersion = 5;
    out.stVersion = 4;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmInitEx(&handle, &in, &out));
    out.stVersion = 3;
    version.subLevel++;
    EXPECT(DSM_RC_WRONG_VERSION, dsmInitEx(&handle, &in, &out));
    version.level = 0;
    EXPECT(DSM_RC_OK, dsmInitEx(&handle, &in, &out));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    in.useTsmBuffers = bTrue; /* and none of them */
    EXPECT(DSM_RC_INVALID_PARM, dsmInitEx(&handle, &in, &out));
    in.useTsmBuffers = bFalse;
    in.apiVersionExP = NULL;
    EXPECT(DSM_RC_INVALID_PARM, dsmInitEx(&handle, &in, &out));
    EXPECT(DSM_RC_INVALID_PARM, dsmInitEx(NULL, &in, &out));
    EXPECT(DSM_RC_INVALID_PARM, dsmInitEx(&handle, NULL, &out));
    EXPECT(DSM_RC_INVALID_PARM, dsmInitEx(&handle, &in, NULL));
    EXPECT(0, handle);
}

static void test_option_files(void)
{
    dsUint32_t handle;
    dsmApiVersionEx version = {.stVersion = apiVersionExVer};
    dsmQueryApiVersionEx(&version);
    dsmInitExIn_t in = {.stVersion = dsmInitExInVersion,
                        .apiVersionExP = &version,
                        .clientNodeNameP = (char *)(size_t)node,
                        .clientPasswordP = (char *)(size_t)password,
                        .configfile = "/nowhere/api.opt"};
    dsmInitExOut_t out = {.stVersion = dsmInitExOutVersion};
    EXPECT(DSM_RC_NO_API_CONFIGFILE, dsmInitEx(&handle, &in, &out));
    char config[DSM_PATH_MAX], saved[DSM_PATH_MAX];
    snprintf(config, sizeof config, "%s/api.opt", getenv("DSMI_DIR"));
    in.configfile = config; /* names a stanza that asks for too much; stronger than dsm.opt, weaker than the string */
    EXPECT(DSM_RC_INVALID_KEYWORD, dsmInitEx(&handle, &in, &out));
    in.options = "-se=MAIN";
    EXPECT(DSM_RC_OK, dsmInitEx(&handle, &in, &out));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    snprintf(saved, sizeof saved, "%s", getenv("DSMI_CONFIG"));
    setenv("DSMI_CONFIG", "/nowhere/dsm.opt", 1);
    EXPECT(DSM_RC_NO_OPT_FILE, sign_on_with(&handle, NULL, NULL));
    setenv("DSMI_CONFIG", getenv("DSMI_DIR"), 1); /* a folder is no file */
    EXPECT(DSM_RC_NO_OPT_FILE, sign_on_with(&handle, NULL, NULL));
    unsetenv("DSMI_CONFIG"); /* then dsm.opt beside dsm.sys */
    EXPECT(DSM_RC_OK, sign_on_with(&handle, NULL, NULL));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    setenv("DSMI_CONFIG", saved, 1);
}

void test_signing_on(void)
{
    test_versions();
    test_without_session();
    test_set_up();
    test_options();
    test_identity();
    test_old_sign_on();
    test_sign_on_structures();
    test_option_files();
}

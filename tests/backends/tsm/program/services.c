/* Logs, and changing the password. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"

static void test_logging(void)
{
    dsUint32_t handle = open_session();
    char *message = noise(1025);
    memset(message, 'm', 1025);
    message[1025] = '\0';
    char path[2048], line[256] = "";
    snprintf(path, sizeof path, "%s/dsierror.log", getenv("DSMI_LOG"));
    unlink(path);
    logInfo event = {.message = message, .logType = logServer};
    EXPECT(DSM_RC_STRING_TOO_LONG, dsmLogEvent(handle, &event));
    event.message = "for the server";
    EXPECT(DSM_RC_OK, dsmLogEvent(handle, &event));
    EXPECT(-1, access(path, F_OK));
    event.message = "for\nboth";
    event.logType = logBoth;
    EXPECT(DSM_RC_OK, dsmLogEvent(handle, &event));
    FILE *log = fopen(path, "r");
    CHECK(log && fgets(line, sizeof line, log) && strstr(line, " for both\n"));
    event.logType = 4;
    EXPECT(DSM_RC_INVALID_PARM, dsmLogEvent(handle, &event));
    EXPECT(DSM_RC_INVALID_PARM, dsmLogEvent(handle, NULL));
    dsmLogExIn_t in = {.stVersion = dsmLogExInVersion, .severity = logSevWarning, .logType = logLocal,
                       .message = "extended", .appMsgID = {'A', 'P', 'P', '1', '2', '3', '4', 'E'}};
    dsmLogExOut_t out = {.stVersion = 0};
    EXPECT(DSM_RC_OK, dsmLogEventEx(handle, &in, &out));
    CHECK(log && fgets(line, sizeof line, log) && strstr(line, " APP1234E extended\n"));
    in.severity = 6;
    EXPECT(DSM_RC_INVALID_PARM, dsmLogEventEx(handle, &in, &out));
    in.stVersion = 3;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmLogEventEx(handle, &in, &out));
    in.stVersion = 2;
    in.message = message;
    EXPECT(DSM_RC_STRING_TOO_LONG, dsmLogEventEx(handle, &in, &out));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    if (log) {
        fclose(log);
    }
    free(message);
    EXPECT(DSM_RC_OK, sign_on_with(&handle, NULL, "-errorlogname=/nowhere/error.log"));
    event = (logInfo){.message = "lost", .logType = logLocal};
    EXPECT(DSM_RC_LOG_CANT_BE_OPENED, dsmLogEvent(handle, &event));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

static void test_password_change(void)
{
    char old[DSM_MAX_VERIFIER_LENGTH + 1], long_one[DSM_MAX_VERIFIER_LENGTH + 2];
    char *first = "A new Password 1";
    dsUint32_t handle = open_session(), again;
    snprintf(old, sizeof old, "%s", password);
    memset(long_one, 'x', sizeof long_one);
    long_one[sizeof long_one - 1] = '\0';
    EXPECT(DSM_RC_OLDPW_REQD, dsmChangePW(handle, NULL, first));
    EXPECT(DSM_RC_OLDPW_REQD, dsmChangePW(handle, "", first));
    EXPECT(DSM_RC_NEWPW_REQD, dsmChangePW(handle, old, ""));
    EXPECT(DSM_RC_PASSWD_TOOLONG, dsmChangePW(handle, old, long_one));
    EXPECT(DSM_RC_ABORT_BAD_VERIFIER, dsmChangePW(handle, old, "Short 1"));
    EXPECT(DSM_RC_ABORT_BAD_VERIFIER, dsmChangePW(handle, "not it", first));
    EXPECT(DSM_RC_OK, dsmChangePW(handle, old, first));
    EXPECT(DSM_RC_AUTH_FAILURE, sign_on_with(&again, NULL, NULL));
    const char *saved = password;
    password = first;
    EXPECT(DSM_RC_OK, sign_on_with(&again, NULL, NULL));
    EXPECT(DSM_RC_OK, dsmTerminate(again));
    password = saved;
    EXPECT(DSM_RC_OK, dsmChangePW(handle, first, old)); /* in the same session */
    EXPECT(DSM_RC_OK, sign_on_with(&again, NULL, NULL));
    EXPECT(DSM_RC_OK, dsmTerminate(again));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    /* With PASSWORDACCESS GENERATE the library's file follows. */
    const char *saved_node = node;
    node = password = NULL;
    EXPECT(DSM_RC_OK, sign_on_with(&handle, NULL, "-se=GENERATE"));
    EXPECT(DSM_RC_ABORT_BAD_VERIFIER, dsmChangePW(handle, "not it", first));
    EXPECT(DSM_RC_OK, dsmChangePW(handle, old, first));
    EXPECT(DSM_RC_OK, sign_on_with(&again, NULL, "-se=GENERATE"));
    EXPECT(DSM_RC_NO_PASS_FILE, dsmChangePW(again, first, "two\nlines"));
    EXPECT(DSM_RC_OK, dsmChangePW(again, first, "* no comment ")); /* kept to the letter */
    EXPECT(DSM_RC_OK, dsmTerminate(again));
    EXPECT(DSM_RC_OK, sign_on_with(&again, NULL, "-se=GENERATE"));
    EXPECT(DSM_RC_OK, dsmChangePW(again, "* no comment ", old));
    EXPECT(DSM_RC_OK, dsmTerminate(again));
    EXPECT(DSM_RC_OK, sign_on_with(&again, NULL, "-se=GENERATE"));
    EXPECT(DSM_RC_OK, dsmTerminate(again));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    node = saved_node;
    password = saved;
}

void test_services(void)
{
    test_logging();
    test_password_change();
}

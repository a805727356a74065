/* The functions that concern the whole process: versions, set-up, clean-up, the options without a session. */
#include <stdio.h>
#include <string.h>

#include "environment.h"
#include "include/archiver_tsm_more.h"
#include "logging.h"
#include "options.h"
#include "session.h"

#define ENVSETUP_LOG_NAME_VERSION 4 /* it is not known which older version had it */

void dsmQueryApiVersion(dsmApiVersion *apiVersionP)
{
    if (apiVersionP) {
        *apiVersionP = (dsmApiVersion){DSM_API_VERSION, DSM_API_RELEASE, DSM_API_LEVEL};
    }
}

void dsmQueryApiVersionEx(dsmApiVersionEx *apiVersionP)
{
    if (!apiVersionP) {
        return;
    }
    apiVersionP->version = DSM_API_VERSION;
    apiVersionP->release = DSM_API_RELEASE;
    apiVersionP->level = DSM_API_LEVEL;
    apiVersionP->subLevel = DSM_API_SUBLEVEL;
    if (apiVersionP->stVersion >= 2) {
        apiVersionP->unicode = bFalse;
    }
}

static bool ends(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

dsInt16_t dsmSetUp(dsBool_t mtFlag, envSetUp *envSetUpP)
{
    (void)mtFlag; /* ignored: thread safety costs a single-threaded program nothing */
    if (sessions_open()) {
        return DSM_RC_BAD_CALL_SEQUENCE;
    }
    if (!envSetUpP) {
        return DSM_RC_OK;
    }
    if (envSetUpP->stVersion == 0 || envSetUpP->stVersion > envSetUpVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    bool has_log_name = envSetUpP->stVersion >= ENVSETUP_LOG_NAME_VERSION;
    bool is_good = ends(envSetUpP->dsmiDir, PATH_SIZE) && ends(envSetUpP->dsmiConfig, PATH_SIZE) &&
                   ends(envSetUpP->dsmiLog, PATH_SIZE) &&
                   (!has_log_name || ends(envSetUpP->logName, sizeof envSetUpP->logName));
    if (!is_good) {
        return DSM_RC_INVALID_PARM;
    }
    environment_set(envSetUpP->dsmiDir, envSetUpP->dsmiConfig, envSetUpP->dsmiLog,
                    has_log_name ? envSetUpP->logName : "");
    return DSM_RC_OK;
}

dsInt16_t dsmCleanUp(dsBool_t mtFlag)
{
    (void)mtFlag;
    environment_set("", "", "", "");
    return DSM_RC_OK;
}

dsInt16_t dsmQueryCliOptions(optStruct *optstructP)
{
    if (!optstructP) {
        return DSM_RC_INVALID_PARM;
    }
    if (sessions_open()) {
        return DSM_RC_BAD_CALL_SEQUENCE;
    }
    struct options options;
    dsInt16_t code = options_read(&options, NULL, NULL);
    if (!code) {
        options_tell(&options, optstructP);
    }
    options_wipe(&options);
    rules_free(&options.rules);
    return code;
}

dsInt16_t archiverQueryProblem(char *text, dsUint32_t size)
{
    if (!text || size == 0) {
        return DSM_RC_INVALID_PARM;
    }
    snprintf(text, size, "%s", reported());
    return DSM_RC_OK;
}

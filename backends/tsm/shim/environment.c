/* The functions that concern the whole process. They and the table of handles are all that sessions share. */
#include "environment.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "session.h"

#define ENVSETUP_LOG_NAME_VERSION 4 /* which older version had it is not known */

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char directory[PATH_SIZE];
    char config[PATH_SIZE];
    char log_directory[PATH_SIZE];
    char log_name[DSM_NAME_MAX + 1];
} set_up; /* "": as the environment says */

/* "" too when there is no such variable. */
static const char *chosen(const char *given, const char *variable)
{
    const char *value = *given ? given : getenv(variable);
    return value ? value : "";
}

bool environment_read(struct environment *environment)
{
    pthread_mutex_lock(&guard);
    const char *directory = chosen(set_up.directory, "DSMI_DIR");
    const char *config = chosen(set_up.config, "DSMI_CONFIG");
    const char *log_directory = chosen(set_up.log_directory, "DSMI_LOG");
    const char *log_name = *set_up.log_name ? set_up.log_name : "dsierror.log";
    const char *in_directory = *directory ? "/dsm.opt" : "";
    int lengths[3] = {
        snprintf(environment->directory, PATH_SIZE, "%s", directory),
        *config ? snprintf(environment->config, PATH_SIZE, "%s", config)
                : snprintf(environment->config, PATH_SIZE, "%s%s", directory, in_directory),
        *log_directory ? snprintf(environment->log, PATH_SIZE, "%s/%s", log_directory, log_name)
                       : snprintf(environment->log, PATH_SIZE, "%s", set_up.log_name),
    };
    pthread_mutex_unlock(&guard);
    return lengths[0] < PATH_SIZE && lengths[1] < PATH_SIZE && lengths[2] < PATH_SIZE;
}

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
    (void)mtFlag; /* sessions share nothing that a single-threaded program would pay for */
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
    pthread_mutex_lock(&guard);
    strcpy(set_up.directory, envSetUpP->dsmiDir);
    strcpy(set_up.config, envSetUpP->dsmiConfig);
    strcpy(set_up.log_directory, envSetUpP->dsmiLog);
    strcpy(set_up.log_name, has_log_name ? envSetUpP->logName : "");
    pthread_mutex_unlock(&guard);
    return DSM_RC_OK;
}

dsInt16_t dsmCleanUp(dsBool_t mtFlag)
{
    (void)mtFlag;
    pthread_mutex_lock(&guard);
    memset(&set_up, 0, sizeof set_up);
    pthread_mutex_unlock(&guard);
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
    return code;
}

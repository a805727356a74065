/* The values that dsmSetUp set. Sessions share only these and the table of handles. */
#include "environment.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char directory[PATH_SIZE];
    char config[PATH_SIZE];
    char log_directory[PATH_SIZE];
    char log_name[DSM_NAME_MAX + 1];
} set_up; /* "": use the environment variable */

/* Returns "" also if the variable does not exist. */
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
    const char *log_directory = chosen(chosen(set_up.log_directory, "DSMI_LOG"), "DSM_LOG");
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

void environment_set(const char *directory, const char *config, const char *log_directory, const char *log_name)
{
    pthread_mutex_lock(&guard);
    strcpy(set_up.directory, directory);
    strcpy(set_up.config, config);
    strcpy(set_up.log_directory, log_directory);
    strcpy(set_up.log_name, log_name);
    pthread_mutex_unlock(&guard);
}

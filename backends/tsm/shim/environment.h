/* The places of the option files and the error log: those set by dsmSetUp, else those of the DSMI_ variables. */
#ifndef ENVIRONMENT_H
#define ENVIRONMENT_H

#include <stdbool.h>

#include "include/archiver_tsm.h"

#define PATH_SIZE (DSM_PATH_MAX + DSM_NAME_MAX + 1)

struct environment {
    char directory[PATH_SIZE]; /* DSMI_DIR; "" if not set */
    char config[PATH_SIZE];    /* DSMI_CONFIG, else dsm.opt in DSMI_DIR */
    char log[PATH_SIZE];       /* the file of the error log, in DSMI_LOG, else in DSM_LOG; "" if none is named */
};

/* Returns false if a path is too long. */
bool environment_read(struct environment *environment);

/* Each has at most PATH_SIZE bytes with its NUL, the log's name DSM_NAME_MAX + 1. "" means that the variable
 * applies. */
void environment_set(const char *directory, const char *config, const char *log_directory, const char *log_name);

#endif

/* Where the option files and the error log are: what dsmSetUp said, else the DSMI_ variables. */
#ifndef ENVIRONMENT_H
#define ENVIRONMENT_H

#include <stdbool.h>

#include "include/archiver_tsm.h"

#define PATH_SIZE (DSM_PATH_MAX + DSM_NAME_MAX + 1)

struct environment {
    char directory[PATH_SIZE]; /* DSMI_DIR, "" when it is not set */
    char config[PATH_SIZE];    /* DSMI_CONFIG, else dsm.opt in DSMI_DIR */
    char log[PATH_SIZE];       /* the error log's file, "" when nobody named one */
};

/* False when a path is longer than there is room for. */
bool environment_read(struct environment *environment);

/* Each at most PATH_SIZE bytes with its NUL, the log's name DSM_NAME_MAX + 1; "" leaves it to the variables. */
void environment_set(const char *directory, const char *config, const char *log_directory, const char *log_name);

#endif

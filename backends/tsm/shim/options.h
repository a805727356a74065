/* The options of a session, from dsm.sys, the options string, the API configuration file and dsm.opt.
 *
 * One idea: a stronger source is read later and overwrites the values of weaker ones. dsm.sys is the strongest.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>

#include "environment.h"
#include "include/archiver_tsm.h"

struct options {
    struct environment environment;
    char server_name[DSM_MAX_SERVERNAME_LENGTH + 1]; /* the stanza */
    char address[DSM_MAX_SERVER_ADDRESS];
    long port;
    char node[DSM_MAX_NODE_LENGTH + 1];
    bool generates_password; /* PASSWORDACCESS GENERATE */
    char password[DSM_MAX_VERIFIER_LENGTH + 1];
    char password_directory[PATH_SIZE];
    bool has_retention_protection;
    bool has_no_delay;
    bool has_tls;
    bool requires_tls;
    char authorities[PATH_SIZE]; /* "": the authorities of this system */
    long window_kib;
    long timeout_seconds;
    bool compresses;
    bool compresses_always;
    char include_exclude[PATH_SIZE];
    char error_log[PATH_SIZE];
    char from_node[DSM_MAX_NODE_LENGTH + 1]; /* the node to read from; "": the session's own */
    char from_owner[DSM_MAX_OWNER_LENGTH + 1];
};

/* `config_file` and `string` may be NULL. The caller must wipe the result, also after a failure. */
dsInt16_t options_read(struct options *options, const char *config_file, const char *string);

void options_wipe(struct options *options);

void options_tell(const struct options *options, optStruct *told);

#endif

/* The options of a session, from dsm.sys, the options string, the API configuration file and dsm.opt.
 *
 * One idea: a stronger source is read later and overwrites the values of weaker ones. dsm.sys is the strongest. What
 * IBM's client has options for and this library does not need is ignored and logged. Anything else unknown is refused
 * with file and line.
 *
 * Sources: "Understanding configuration and options files" in IBM's manual of the API, "Client options reference" in
 * that of the client (8.2.2).
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>

#include "environment.h"
#include "include/archiver_tsm.h"
#include "patterns.h"

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
    struct rules rules; /* the include-exclude list */
    char error_log[PATH_SIZE];
    char from_node[DSM_MAX_NODE_LENGTH + 1]; /* the node to read from; "": the session's own */
    char from_owner[DSM_MAX_OWNER_LENGTH + 1];
    char ignored[1024]; /* options without a meaning here that no earlier call has logged, with their places */
};

/* `config_file` and `string` may be NULL. The caller must wipe the result, and free its rules, also after a failure.
 * A failure is reported: see logging.h. */
dsInt16_t options_read(struct options *options, const char *config_file, const char *string);

void options_wipe(struct options *options);

void options_tell(const struct options *options, optStruct *told);

#endif

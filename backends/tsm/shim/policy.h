/* The information that the server sends at sign-on: itself, its limits, the node's policy. */
#ifndef POLICY_H
#define POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "include/archiver_tsm.h"
#include "reader.h"

struct management_class {
    char name[DSM_MAX_MC_NAME_LENGTH + 1];
    char description[DSM_MAX_MC_DESCR_LENGTH + 1];
    bool has_archive_group;
    uint8_t retinit; /* ARCH_RETINIT_ */
    uint16_t retver_days;
    uint16_t retmin_days;
    char destination[DSM_MAX_CG_DEST_LENGTH + 1];
};

struct policy {
    uint64_t now_ms;          /* the server's clock at sign-on */
    int64_t told_ms;          /* the local monotonic clock then */
    int32_t offset_seconds;   /* the server's local time minus UTC */
    uint16_t version[4];
    uint16_t objects_max;     /* in one transaction */
    uint64_t bytes_max;       /* in one transaction; a hint */
    bool is_protected;
    bool is_expired;          /* the node's password */
    uint16_t backup_grace_days;
    uint16_t archive_grace_days;
    char server_name[DSM_MAX_SERVERNAME_LENGTH + 1];
    char server_type[DSM_MAX_SERVERTYPE_LENGTH + 1];
    char domain[DSM_MAX_DOMAIN_LENGTH + 1];
    char policy_set[DSM_MAX_PS_NAME_LENGTH + 1];
    uint64_t activated_ms;
    uint16_t default_class;
    uint16_t class_count;
    struct management_class *classes;
};

/* Reads the part of a WELCOME frame after the proof. Codes: OK, COMM_PROTOCOL_ERROR, NO_MEMORY. */
dsInt16_t policy_read(struct policy *policy, struct reader *body);
void policy_free(struct policy *policy);

/* Returns the class of that name, which is case-insensitive, or NULL. */
const struct management_class *policy_class(const struct policy *policy, const char *name);

/* Returns the server's clock now: its time at sign-on plus the elapsed time. */
uint64_t policy_now_ms(const struct policy *policy);

#endif

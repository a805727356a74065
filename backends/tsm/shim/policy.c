#include "policy.h"

#include <stdlib.h>
#include <strings.h>
#include <time.h>

static int64_t monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void read_class(struct management_class *class, struct reader *body)
{
    read_field(body, class->name, sizeof class->name);
    read_field(body, class->description, sizeof class->description);
    class->has_archive_group = read_u8(body) != 0;
    class->retinit = read_u8(body);
    class->retver_days = read_u16(body);
    class->retmin_days = read_u16(body);
    read_field(body, class->destination, sizeof class->destination);
}

dsInt16_t policy_read(struct policy *policy, struct reader *body)
{
    *policy = (struct policy){.now_ms = read_u64(body), .told_ms = monotonic_ms()};
    policy->offset_seconds = (int32_t)read_u32(body);
    for (unsigned i = 0; i < 4; i++) {
        policy->version[i] = read_u16(body);
    }
    policy->objects_max = read_u16(body);
    policy->bytes_max = read_u64(body);
    uint32_t flags = read_u32(body);
    policy->is_protected = flags & 1;
    policy->is_expired = flags & 2;
    policy->backup_grace_days = read_u16(body);
    policy->archive_grace_days = read_u16(body);
    read_field(body, policy->server_name, sizeof policy->server_name);
    read_field(body, policy->server_type, sizeof policy->server_type);
    read_field(body, policy->domain, sizeof policy->domain);
    read_field(body, policy->policy_set, sizeof policy->policy_set);
    policy->activated_ms = read_u64(body);
    policy->default_class = read_u16(body);
    uint16_t count = read_u16(body);
    if (body->failed || policy->default_class >= count || policy->objects_max == 0) {
        return DSM_RC_COMM_PROTOCOL_ERROR;
    }
    policy->classes = calloc(count, sizeof *policy->classes);
    if (!policy->classes) {
        return DSM_RC_NO_MEMORY;
    }
    policy->class_count = count;
    for (uint16_t i = 0; i < count && !body->failed; i++) {
        read_class(&policy->classes[i], body);
    }
    return read_all(body) ? DSM_RC_OK : DSM_RC_COMM_PROTOCOL_ERROR;
}

void policy_free(struct policy *policy)
{
    free(policy->classes);
    policy->classes = NULL;
}

const struct management_class *policy_class(const struct policy *policy, const char *name)
{
    for (uint16_t i = 0; i < policy->class_count; i++) {
        if (strcasecmp(policy->classes[i].name, name) == 0) {
            return &policy->classes[i];
        }
    }
    return NULL;
}

uint64_t policy_now_ms(const struct policy *policy)
{
    return policy->now_ms + (uint64_t)(monotonic_ms() - policy->told_ms);
}

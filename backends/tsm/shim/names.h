/* The three parts of an object's name, and small checks of callers' arguments. */
#ifndef NAMES_H
#define NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/archiver_tsm.h"

struct name_lengths {
    size_t fs;
    size_t hl;
    size_t ll;
};

/* Codes: OK, NULL_OBJNAME, INVALID_OBJTYPE for a type other than file and directory, INVALID_FSNAME, INVALID_HLNAME,
 * INVALID_LLNAME, INVALID_OBJNAME, FILESPACE_TOOLONG, HL_TOOLONG, LL_TOOLONG, WILDCHAR_NOTALLOWED. */
dsInt16_t check_name(const dsmObjName *name, struct name_lengths *lengths);

/* The same for a query: hl and ll may have wildcards, and any type is allowed. */
dsInt16_t check_name_pattern(const dsmObjName *name, struct name_lengths *lengths);

/* Codes: OK, NULL_FSNAME, INVALID_FSNAME, FILESPACE_TOOLONG. */
dsInt16_t check_space(const char *name, size_t *length);

/* Returns whether a caller's string is longer than `length_max`. NULL counts as empty, and *length becomes 0. */
bool is_too_long(const char *text, size_t length_max, size_t *length);

static inline uint64_t number_of(dsStruct64_t halves)
{
    return (uint64_t)halves.hi << 32 | halves.lo;
}

static inline dsStruct64_t halves_of(uint64_t number)
{
    return (dsStruct64_t){.hi = (dsUint32_t)(number >> 32), .lo = (dsUint32_t)number};
}

#endif

/* Instants (milliseconds since the epoch, UTC, as the server tells them) and dates (the server's local time, as callers
 * see them). */
#ifndef DATES_H
#define DATES_H

#include <stdbool.h>
#include <stdint.h>

#include "include/archiver_tsm.h"

/* DATE_NONE gives a date of zeros; DATE_NEVER, and what no date can hold, the year DATE_PLUS_INFINITE. */
dsmDate date_of(uint64_t instant_ms, int32_t offset_seconds);

/* The first instant of a second. The years DATE_MINUS_INFINITE and DATE_PLUS_INFINITE give DATE_NONE and DATE_NEVER.
 * False when there is no such date. */
bool instant_of(const dsmDate *date, int32_t offset_seconds, uint64_t *instant_ms);

#endif

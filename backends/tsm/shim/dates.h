/* Instants (milliseconds since the epoch, UTC, as the server sends them) and dates (in the server's local time, for
 * callers). */
#ifndef DATES_H
#define DATES_H

#include <stdbool.h>
#include <stdint.h>

#include "include/archiver_tsm.h"

/* DATE_NONE becomes a date of zeros. DATE_NEVER, and an instant that no date can represent, become the year
 * DATE_PLUS_INFINITE. */
dsmDate date_of(uint64_t instant_ms, int32_t offset_seconds);

/* Sets *instant_ms to the first instant of a second; DATE_NONE and DATE_NEVER for the years DATE_MINUS_INFINITE and
 * DATE_PLUS_INFINITE. Returns false if there is no such date. */
bool instant_of(const dsmDate *date, int32_t offset_seconds, uint64_t *instant_ms);

#endif

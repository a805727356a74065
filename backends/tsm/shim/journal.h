/* The file that ARCHIVER_TSM_TRACE names, and the lines that wait to be written to it.
 *
 * One idea: every write appends whole lines with a single system call. So several threads and processes share the file
 * without a lock, and a killed process leaves at most half a line. The program has priority: if a write fails, the
 * recording of the process ends with one message, and no call of the program fails or waits for it.
 */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

#define LINES_SIZE (64u << 10)
#define LINE_MAX_SIZE (16u << 10) /* the longest names, with every character escaped, and all numbers */

struct lines {
    const struct options *options; /* of the session that writes the lines: they name its error log */
    size_t used;
    char bytes[LINES_SIZE];
};

/* Returns whether a recording is requested; the first call opens the file. A program that runs with another user's
 * rights (setuid) is not recorded. */
bool journal_is_wanted(void);

/* Returns whether the recording works. If it does not, the first caller writes the reason to the error log or to
 * stderr. */
bool journal_is_on(const struct options *options);

/* Ends the recording of this process and reports why. */
void journal_stop(const char *why, const struct options *options);

/* Nanoseconds since the epoch, from a monotonic clock. */
int64_t journal_now_ns(void);

/* Appends the lines and empties them. */
void journal_write(struct lines *lines);

/* The functions below add to a line and need space for it. lines_begin makes space, and writes the waiting lines if
 * necessary. */
void lines_begin(struct lines *lines);
void lines_put(struct lines *lines, const char *text);
void lines_put_number(struct lines *lines, uint64_t number);
void lines_put_string(struct lines *lines, const char *text); /* as JSON; bytes that are not UTF-8 stay unchanged */

#endif

/* The file that ARCHIVER_TSM_TRACE names, and lines on their way to it.
 *
 * One idea: every write appends whole lines with a single system call, so several threads and processes share the file
 * without a lock, and a process that is killed leaves at most half a line. The program comes first: what cannot be
 * written ends the recording for the process and is said once, and no call of the program's fails or waits for it.
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
    const struct options *options; /* of the session whose lines they are: where its error log is */
    size_t used;
    char bytes[LINES_SIZE];
};

/* Whether anything is to be recorded; opens the file when it is asked first. A program that runs with another user's
 * rights (setuid) is not recorded. */
bool journal_is_wanted(void);

/* Whether it is recorded. When it cannot be, whoever asks first says why, in the error log or on stderr. */
bool journal_is_on(const struct options *options);

/* Ends the recording of this process, and says why. */
void journal_stop(const char *why, const struct options *options);

/* Nanoseconds since the epoch, by a clock that never goes back. */
int64_t journal_now_ns(void);

/* Appends the lines and empties them. */
void journal_write(struct lines *lines);

/* Adding to a line, for which there must be room: lines_begin makes it, writing what is there when it has to. */
void lines_begin(struct lines *lines);
void lines_put(struct lines *lines, const char *text);
void lines_put_number(struct lines *lines, uint64_t number);
void lines_put_string(struct lines *lines, const char *text); /* as JSON; bytes that are no UTF-8 stay as they are */

#endif

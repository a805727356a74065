/* The error log of this machine, and the reason of the last failure that a return code cannot tell. */
#ifndef LOGGING_H
#define LOGGING_H

#include "options.h"

#define MESSAGE_MAX 1024 /* bytes of a program's own message */

/* Appends one line that begins with the local time. Lines of several programs do not mix. Codes: OK,
 * LOG_NOT_SPECIFIED, LOG_CANT_BE_OPENED, LOG_ERROR_WRITING_TO_LOG. */
dsInt16_t log_line(const struct options *options, const char *message);

/* Logs why a call fails, and keeps the words for archiverQueryProblem in the same thread. */
void report(const struct options *options, const char *format, ...) __attribute__((format(printf, 2, 3)));

void report_clear(void);

/* Returns the words of the last report of this thread since report_clear; "" if there is none. */
const char *reported(void);

#endif

/* The error log of this machine. */
#ifndef LOGGING_H
#define LOGGING_H

#include "options.h"

#define MESSAGE_MAX 1024 /* bytes of a program's own message */

/* Appends one line that begins with the local time. Lines of several programs do not mix. Codes: OK,
 * LOG_NOT_SPECIFIED, LOG_CANT_BE_OPENED, LOG_ERROR_WRITING_TO_LOG. */
dsInt16_t log_line(const struct options *options, const char *message);

#endif

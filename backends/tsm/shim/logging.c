#include "logging.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static _Thread_local char problem[MESSAGE_MAX];

dsInt16_t log_line(const struct options *options, const char *message)
{
    const char *path = *options->error_log ? options->error_log : options->environment.log;
    if (!*path) {
        return DSM_RC_LOG_NOT_SPECIFIED;
    }
    char line[MESSAGE_MAX + 64];
    struct tm local;
    time_t now = time(NULL);
    localtime_r(&now, &local);
    size_t used = strftime(line, sizeof line, "%Y-%m-%d %H:%M:%S ", &local);
    for (; *message && used < sizeof line - 1; message++) {
        line[used++] = *message == '\n' || *message == '\r' ? ' ' : *message;
    }
    line[used++] = '\n';
    int descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
    if (descriptor < 0) {
        return DSM_RC_LOG_CANT_BE_OPENED;
    }
    ssize_t written = write(descriptor, line, used);
    close(descriptor);
    return written == (ssize_t)used ? DSM_RC_OK : DSM_RC_LOG_ERROR_WRITING_TO_LOG;
}

void report(const struct options *options, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(problem, sizeof problem, format, values);
    va_end(values);
    log_line(options, problem);
}

void report_clear(void)
{
    *problem = '\0';
}

const char *reported(void)
{
    return problem;
}

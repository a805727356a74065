#include "password_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text_file.h"

#define FILE_NAME "TSM.PWD"
#define NEW_FILE_NAME "TSM.PWD.new"
#define FULL_SIZE (PATH_SIZE + sizeof NEW_FILE_NAME)

static void full_name(char path[FULL_SIZE], const char *directory, const char *name)
{
    snprintf(path, FULL_SIZE, "%s/%s", directory, name);
}

bool password_file_read(const char *directory, char password[DSM_MAX_VERIFIER_LENGTH + 1])
{
    char path[FULL_SIZE];
    struct stat status;
    struct text_file file;
    full_name(path, directory, FILE_NAME);
    if (stat(path, &status) || (status.st_mode & (S_IRWXG | S_IRWXO)) || !text_file_open(&file, path)) {
        return false;
    }
    size_t length = strcspn(file.text, "\r\n"); /* unparsed: a password may begin like a comment */
    bool is_good = length > 0 && length <= DSM_MAX_VERIFIER_LENGTH;
    if (is_good) {
        memcpy(password, file.text, length);
        password[length] = '\0';
    }
    text_file_close(&file);
    return is_good;
}

bool password_file_prepare(const char *directory, const char *password)
{
    char path[FULL_SIZE], line[DSM_MAX_VERIFIER_LENGTH + 2];
    if (strpbrk(password, "\r\n")) { /* would not be read back */
        return false;
    }
    full_name(path, directory, NEW_FILE_NAME);
    unlink(path); /* a leftover of a killed program, perhaps readable by other users */
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    if (descriptor < 0) {
        return false;
    }
    int length = snprintf(line, sizeof line, "%.*s\n", DSM_MAX_VERIFIER_LENGTH, password);
    bool is_good = write(descriptor, line, (size_t)length) == length && fsync(descriptor) == 0;
    explicit_bzero(line, sizeof line);
    is_good = close(descriptor) == 0 && is_good;
    if (!is_good) {
        unlink(path);
    }
    return is_good;
}

bool password_file_replace(const char *directory)
{
    char path[FULL_SIZE], new_path[FULL_SIZE];
    full_name(path, directory, FILE_NAME);
    full_name(new_path, directory, NEW_FILE_NAME);
    return rename(new_path, path) == 0;
}

void password_file_discard(const char *directory)
{
    char new_path[FULL_SIZE];
    full_name(new_path, directory, NEW_FILE_NAME);
    unlink(new_path);
}

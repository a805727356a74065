/* The password that PASSWORDACCESS GENERATE takes from a file: TSM.PWD in PASSWORDDIR, one line that only its owner may
 * read. */
#ifndef PASSWORD_FILE_H
#define PASSWORD_FILE_H

#include <stdbool.h>

#include "environment.h"
#include "include/archiver_tsm.h"

/* Returns false if there is no password, or if other users can read the file. */
bool password_file_read(const char *directory, char password[DSM_MAX_VERIFIER_LENGTH + 1]);

/* Writes a new file next to the old one. password_file_replace puts it in place, password_file_discard removes it. */
bool password_file_prepare(const char *directory, const char *password);
bool password_file_replace(const char *directory);
void password_file_discard(const char *directory);

#endif

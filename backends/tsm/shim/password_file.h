/* The password that PASSWORDACCESS GENERATE takes from a file: TSM.PWD in PASSWORDDIR, one line that only its owner may
 * read. */
#ifndef PASSWORD_FILE_H
#define PASSWORD_FILE_H

#include <stdbool.h>

#include "environment.h"
#include "include/archiver_tsm.h"

/* False when there is none, or when others may read it too. */
bool password_file_read(const char *directory, char password[DSM_MAX_VERIFIER_LENGTH + 1]);

/* Writes a new one beside it, which password_file_replace puts in its place and password_file_discard removes. */
bool password_file_prepare(const char *directory, const char *password);
bool password_file_replace(const char *directory);
void password_file_discard(const char *directory);

#endif

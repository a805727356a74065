/* Functions beyond the API. A program that also runs with other libraries must check whether they exist. */
#ifndef ARCHIVER_TSM_MORE_H
#define ARCHIVER_TSM_MORE_H

#include "archiver_tsm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns whether the session's connection is encrypted. Any state. Codes: OK, INVALID_PARM for NULL, and those that
 * any call with a handle may return. */
extern __attribute__((visibility("default"))) dsInt16_t archiverQueryEncryption(dsUint32_t dsmHandle,
                                                                                dsBool_t *isEncryptedP);

/* Writes why the last dsmInit, dsmInitEx or dsmQueryCliOptions of this thread failed, if its return code does not tell:
 * for example the file, the line and the option. "" if there is nothing to add. The text ends with a NUL and is cut off
 * at `size` bytes. Codes: OK, INVALID_PARM for NULL or no room. */
extern __attribute__((visibility("default"))) dsInt16_t archiverQueryProblem(char *text, dsUint32_t size);

#ifdef __cplusplus
}
#endif

#endif

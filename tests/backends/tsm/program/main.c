/* A program on the TSM client API that expects every rule of it to hold.
 *
 * It is written against the header alone, as an application is, and runs against a store of its own. Each expectation
 * that does not hold is printed with its line; the exit status is then 1. What the dsm.sys of the test has in its
 * stanzas is in test_program.py.
 *
 *     TSM_NODE=... TSM_PASSWORD=... program            everything; what nodes do for each other only with a second
 *                                                      one in TSM_OTHER_NODE and TSM_OTHER_PASSWORD
 *     TSM_NODE=... TSM_PASSWORD=... program lost       what happens when the store dies: says "ready" and waits for a
 *                                                      line on stdin, by which time the store is to be dead
 *     TSM_NODE=... TSM_PASSWORD=... program found      what is to be there when it runs again
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

static void test_everything(void)
{
    test_signing_on();
    test_sessions();
    test_file_spaces();
    test_classes();
    test_archiving();
    test_transactions();
    test_retrieving();
    test_queries();
    test_retention();
    test_states();
    test_buffers();
    if (getenv("TSM_OTHER_NODE")) { /* who is alone has nobody to give anything to */
        test_access();
    }
    test_services();
    test_threads();
    EXPECT(DSM_RC_OK, dsmCleanUp(DSM_MULTITHREAD));
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    node = getenv("TSM_NODE");
    password = getenv("TSM_PASSWORD");
    if (!node || !password) {
        puts("TSM_NODE and TSM_PASSWORD are not set");
        return 2;
    }
    if (strcmp(what, "lost") == 0) {
        test_lost_store();
    } else if (strcmp(what, "found") == 0) {
        test_found_store();
    } else {
        test_everything();
    }
    return failures ? 1 : 0;
}

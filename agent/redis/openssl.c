/* Loads OpenSSL when TLS is needed (openssl.h). */
#include "agent/redis/openssl.h"

#include <assert.h>
#include <stdio.h>

#include "agent/base/library.h"

/* The version of the headers is that of the libraries below. */
static_assert(OPENSSL_SHLIB_VERSION == 3, "the version of OpenSSL");

struct openssl openssl;

#define FUNCTION(name) {#name, &openssl.name},
static const struct library_function of_ssl[] = {OPENSSL_OF_SSL(FUNCTION)};
static const struct library_function of_crypto[] = {OPENSSL_OF_CRYPTO(FUNCTION)};
#undef FUNCTION
enum {
    OF_SSL = sizeof(of_ssl) / sizeof(of_ssl[0]),
    OF_CRYPTO = sizeof(of_crypto) / sizeof(of_crypto[0]),
};

bool openssl_load(char *why, size_t size)
{
    static bool is_loaded;
    char reason[256];
    if (is_loaded)
        return true;
    is_loaded = library_load("libssl.so.3", of_ssl, OF_SSL, reason, sizeof(reason)) &&
                library_load("libcrypto.so.3", of_crypto, OF_CRYPTO, reason, sizeof(reason));
    if (!is_loaded)
        snprintf(why, size, "OpenSSL cannot be loaded: %s", reason);
    return is_loaded;
}

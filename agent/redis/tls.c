/* TLS to one master with OpenSSL (tls.h): our certificates and key, the check of the master's
 * certificate, and error texts that name the cause. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/unchanged.h"
#include "agent/core/core_assert.h"
#include "agent/redis/openssl.h"
#include "agent/redis/tls.h"

/* Some functions of OpenSSL are macros, which call these. */
#define SSL_CTX_ctrl openssl.SSL_CTX_ctrl
#define SSL_ctrl openssl.SSL_ctrl
#define SSL_want openssl.SSL_want

struct tls {
    SSL *ssl; /* NULL: the files cannot be used. */
    enum tls_fault fault;
    char why[160];
};

/* ---- our own files ---- */

enum { WHY_BYTES = 150 };

static const char broken_system[] = "OpenSSL cannot be used: its configuration is broken";
static const char no_memory[] = "out of memory";

/* Resets the errors. Call it before each operation of OpenSSL. */
static void begin(void)
{
    openssl.ERR_clear_error();
    errno = 0;
}

/* Returns true if an operation since begin() failed because there was not enough memory. OpenSSL
 * may report another error, because it had no memory to report this one. */
static bool memory_ran_out(void)
{
    return errno == ENOMEM || ERR_GET_REASON(openssl.ERR_peek_error()) == ERR_R_MALLOC_FAILURE ||
           ERR_GET_REASON(openssl.ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE;
}

/* Returns true if the path is a regular file; otherwise false, with `why`. Reading anything else
 * could block the loop. */
static bool is_usable(const char *path, char *why)
{
    struct stat file;
    if (stat(path, &file) != 0 || access(path, R_OK) != 0)
        snprintf(why, WHY_BYTES, "%s", strerror(errno));
    else if (!S_ISREG(file.st_mode))
        snprintf(why, WHY_BYTES, "is not a regular file");
    else
        return true;
    return false;
}

static bool take_authorities(SSL_CTX *context, const struct config_tls *config, char *why)
{
    if (config->ca_file[0] == '\0')
        return openssl.SSL_CTX_set_default_verify_paths(context) == 1;
    if (!is_usable(config->ca_file, why))
        return false;
    if (openssl.SSL_CTX_load_verify_file(context, config->ca_file) == 1)
        return true;
    snprintf(why, WHY_BYTES, "holds no certificate in PEM");
    return false;
}

static bool take_certificate(SSL_CTX *context, const struct config_tls *config, char *why)
{
    if (config->cert_file[0] == '\0')
        return true;
    if (!is_usable(config->cert_file, why))
        return false;
    if (openssl.SSL_CTX_use_certificate_chain_file(context, config->cert_file) != 1)
        snprintf(why, WHY_BYTES, "holds no certificate in PEM that can be used");
    else if (openssl.X509_cmp_current_time(
                 openssl.X509_get0_notAfter(openssl.SSL_CTX_get0_certificate(context))) < 0)
        snprintf(why, WHY_BYTES, "the certificate has expired");
    else
        return true;
    return false;
}

/* Gives no passphrase, because an agent cannot ask for one. */
static int no_passphrase(char *passphrase, int size, int writes, void *asked)
{
    (void)passphrase, (void)size, (void)writes;
    *(bool *)asked = true;
    return -1;
}

/* Loads the private key. Called after take_certificate(), because the key is compared with the
 * certificate. */
static bool take_key(SSL_CTX *context, const struct config_tls *config, char *why)
{
    bool asked = false;
    if (config->key_file[0] == '\0')
        return true;
    if (!is_usable(config->key_file, why))
        return false;
    openssl.SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    openssl.SSL_CTX_set_default_passwd_cb_userdata(context, &asked);
    bool read =
        openssl.SSL_CTX_use_PrivateKey_file(context, config->key_file, SSL_FILETYPE_PEM) == 1;
    bool differs = ERR_GET_REASON(openssl.ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;
    openssl.SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    if (!read)
        snprintf(why, WHY_BYTES, "%s",
                 asked     ? "the key is encrypted; allowed: a key without a passphrase"
                 : differs ? "is not the key of the certificate in cert_file"
                           : "holds no private key in PEM");
    return read;
}

static const struct our_file {
    const char *key;
    bool (*take)(SSL_CTX *context, const struct config_tls *config, char *why);
} our_files[] = {
    {"ca_file", take_authorities},
    {"cert_file", take_certificate},
    {"key_file", take_key},
};
enum { OUR_FILES = sizeof(our_files) / sizeof(our_files[0]) };

/* Loads one file. Returns false, with `why`, if it cannot be used. */
static bool take_file(SSL_CTX *context, const struct our_file *file,
                      const struct config_tls *config, char *why)
{
    begin();
    if (file->take(context, config, why))
        return true;
    if (memory_ran_out())
        snprintf(why, WHY_BYTES, "%s", no_memory);
    return false;
}

/* Returns a new context; NULL, with `why`, if OpenSSL cannot be loaded, there is not enough memory,
 * or the system's configuration of OpenSSL is broken. */
static SSL_CTX *new_context(char *why)
{
    if (!openssl_load(why, WHY_BYTES))
        return NULL;
    begin();
    SSL_CTX *context = openssl.SSL_CTX_new(openssl.TLS_client_method());
    if (context == NULL || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
        snprintf(why, WHY_BYTES, "%s", memory_ran_out() ? no_memory : broken_system);
        openssl.SSL_CTX_free(context);
        return NULL;
    }
    openssl.SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY); /* A record without data ends the turn. */
    openssl.SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    return context;
}

/* Makes OpenSSL set up all its algorithms. It does so once, when the first algorithm of a kind is
 * used. Algorithms for which there is no memory then are missing until the process ends. */
static void set_up_algorithms(void)
{
#define SET_UP(kind, algorithm) openssl.kind##_free(openssl.kind##_fetch(NULL, algorithm, NULL))
    SET_UP(EVP_MD, "SHA256");
    SET_UP(EVP_CIPHER, "AES-128-GCM");
    SET_UP(EVP_MAC, "HMAC");
    SET_UP(EVP_KDF, "HKDF");
    SET_UP(EVP_RAND, "CTR-DRBG");
    SET_UP(EVP_KEYMGMT, "EC");
    SET_UP(EVP_KEYEXCH, "X25519");
    SET_UP(EVP_SIGNATURE, "ECDSA");
    SET_UP(EVP_ASYM_CIPHER, "RSA");
    SET_UP(EVP_KEM, "RSA");
    SET_UP(OSSL_DECODER, "EC");
    SET_UP(OSSL_ENCODER, "EC");
    SET_UP(OSSL_STORE_LOADER, "file");
#undef SET_UP
}

bool tls_set_up(char *why, size_t size)
{
    char reason[WHY_BYTES];
    if (!openssl_load(reason, sizeof(reason))) {
        snprintf(why, size, "tls: %s", reason);
        return false;
    }
    errno = 0;
    bool begun = openssl.OPENSSL_init_ssl(0, NULL) == 1;
    if (begun && errno != ENOMEM)
        openssl.SSL_CTX_free(new_context(reason));
    if (begun && errno != ENOMEM)
        set_up_algorithms();
    if (errno == ENOMEM) {
        snprintf(why, size, "tls: %s", no_memory);
        return false;
    }
    openssl.ERR_clear_error();
    return true;
}

/* Returns true if only the owner may read the private key, as ssh demands it. If the file belongs
 * to another user, as a mounted secret does, our group may read it too. */
static bool is_private(const char *path)
{
    struct stat file;
    if (stat(path, &file) != 0)
        return true;
    return (file.st_mode & (file.st_uid == geteuid() ? 077 : 007)) == 0;
}

void tls_check(const struct config_tls *config,
               void (*say)(void *arg, const char *key, bool fatal, const char *what), void *arg)
{
    char why[WHY_BYTES] = "";
    SSL_CTX *context = new_context(why);
    if (context == NULL)
        say(arg, "ca_file", /* fatal= */ true, why);
    for (unsigned i = 0; i < OUR_FILES && context != NULL; i++)
        if (!take_file(context, &our_files[i], config, why))
            say(arg, our_files[i].key, /* fatal= */ true, why);
    if (context != NULL) {
        openssl.ERR_clear_error();
        openssl.SSL_CTX_free(context);
    }
    if (config->key_file[0] != '\0' && !is_private(config->key_file))
        say(arg, "key_file", /* fatal= */ false,
            "users other than its owner may read the private key (chmod 600)");
}

/* ---- the ends of certificates ---- */

/* Returns when the certificate ends, in seconds of unix time; INT64_MAX if that is not known. */
static int64_t end_of(const X509 *certificate)
{
    struct tm end;
    if (certificate == NULL ||
        openssl.ASN1_TIME_to_tm(openssl.X509_get0_notAfter(certificate), &end) != 1)
        return INT64_MAX;
    return (int64_t)timegm(&end);
}

int64_t tls_master_end_s(const struct tls *tls)
{
    const OPENSSL_STACK *chain = (const OPENSSL_STACK *)openssl.SSL_get0_verified_chain(tls->ssl);
    int64_t first_s = INT64_MAX;
    int count = chain != NULL ? openssl.OPENSSL_sk_num(chain) : 0;
    for (int i = 0; i < count; i++) {
        int64_t end_s = end_of(openssl.OPENSSL_sk_value(chain, i));
        first_s = end_s < first_s ? end_s : first_s;
    }
    return first_s == INT64_MAX ? 0 : first_s;
}

int64_t tls_own_end_s(const struct config_tls *config)
{
    char why[WHY_BYTES];
    SSL_CTX *context = new_context(why);
    if (context == NULL)
        return 0;
    begin();
    (void)take_certificate(context, config, why); /* The end of an expired one is read too. */
    int64_t end_s = end_of(openssl.SSL_CTX_get0_certificate(context));
    openssl.ERR_clear_error();
    openssl.SSL_CTX_free(context);
    return end_s == INT64_MAX ? 0 : end_s;
}

static void fail(struct tls *tls, enum tls_fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void fail(struct tls *tls, enum tls_fault fault, const char *format, ...)
{
    va_list list;
    int at = snprintf(tls->why, sizeof(tls->why), "tls: ");
    va_start(list, format);
    vsnprintf(tls->why + at, sizeof(tls->why) - (size_t)at, format, list);
    va_end(list);
    tls->fault = fault;
}

/* ---- the files that connections share ---- */

void tls_files_forget(struct tls_files *files)
{
    if (files->context != NULL) /* Otherwise OpenSSL may not be loaded. */
        openssl.SSL_CTX_free(files->context);
    files->context = NULL;
}

void tls_files_doubt(struct tls_files *files, uint64_t now_ms)
{
    enum { KEPT_MS_MIN = 1000, KEPT_MS_MAX = 64 * KEPT_MS_MIN };
    if (now_ms < files->kept_until_ms)
        return;
    if (files->kept_ms < KEPT_MS_MAX)
        files->kept_ms = files->kept_ms == 0 ? KEPT_MS_MIN : 2 * files->kept_ms;
    files->kept_until_ms = now_ms + files->kept_ms;
    tls_files_forget(files);
}

/* Returns true if the contents are those that the files have now. The authorities of the system are
 * read for each connection, because they are many files. */
static bool is_current(const struct tls_files *files, const struct stat now[OUR_FILES])
{
    if (files->context == NULL || files->config->ca_file[0] == '\0')
        return false;
    for (unsigned i = 0; i < OUR_FILES; i++)
        if (!file_is_unchanged(&files->seen[i], &now[i]))
            return false;
    const X509 *own = openssl.SSL_CTX_get0_certificate(files->context);
    return own == NULL || openssl.X509_cmp_current_time(openssl.X509_get0_notAfter(own)) >= 0;
}

/* Reads the files again if they have changed. Returns false, with the fault, if they cannot be
 * used. */
static bool read_files(struct tls_files *files, struct tls *tls)
{
    const struct config_tls *config = files->config;
    const char *const paths[OUR_FILES] = {config->ca_file, config->cert_file, config->key_file};
    struct stat now[OUR_FILES] = {0};
    char why[WHY_BYTES] = "cannot be used";
    for (unsigned i = 0; i < OUR_FILES; i++)
        if (stat(paths[i], &now[i]) != 0)
            now[i] = (struct stat){0}; /* It has no name, or taking it will fail. */
    if (is_current(files, now))
        return true;
    tls_files_forget(files);
    SSL_CTX *context = new_context(why);
    if (context == NULL) {
        fail(tls, TLS_FAULT_OTHER, "%s", why);
        return false;
    }
    for (unsigned i = 0; i < OUR_FILES; i++) {
        if (!take_file(context, &our_files[i], config, why)) {
            fail(tls, TLS_FAULT_FILES, "%s: %s", our_files[i].key, why);
            openssl.ERR_clear_error();
            openssl.SSL_CTX_free(context);
            return false;
        }
    }
    files->context = context;
    memcpy(files->seen, now, sizeof(now));
    return true;
}

/* ---- opening ---- */

/* Sets the name or address that the certificate must be for. An address is compared with the
 * certificate's addresses, a name with its names. Only a name is sent to the master (SNI). Returns
 * false if there is not enough memory. */
static bool expect_name(SSL *ssl, const char *name)
{
    X509_VERIFY_PARAM *verify = openssl.SSL_get0_param(ssl);
    openssl.X509_VERIFY_PARAM_set_hostflags(verify, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    begin();
    if (openssl.X509_VERIFY_PARAM_set1_ip_asc(verify, name) == 1)
        return true;
    if (memory_ran_out() || openssl.X509_VERIFY_PARAM_set1_host(verify, name, 0) != 1)
        return false;
    char told[TLSEXT_MAXLEN_host_name + 1]; /* The macro of OpenSSL takes no const. */
    int len = snprintf(told, sizeof(told), "%s", name);
    CORE_ASSERT(len >= 0 && len < (int)sizeof(told));
    return SSL_set_tlsext_host_name(ssl, told) == 1;
}

/* Prepares the handshake. Returns false, with the fault, if that is not possible. */
static bool begin_session(struct tls *tls, struct tls_files *files, const char *host, int fd)
{
    const struct config_tls *config = files->config;
    const char *name = config->server_name[0] != '\0' ? config->server_name : host;
    if (!read_files(files, tls))
        return false;
    tls->ssl = openssl.SSL_new(files->context);
    if (tls->ssl != NULL && openssl.SSL_set_fd(tls->ssl, fd) == 1 && expect_name(tls->ssl, name))
        return true;
    fail(tls, TLS_FAULT_OTHER, "%s", no_memory);
    return false;
}

struct tls *tls_open(struct tls_files *files, const char *host, int fd)
{
    struct tls *tls = calloc(1, sizeof(*tls));
    if (tls == NULL)
        return NULL;
    tls->fault = TLS_FAULT_NONE;
    if (!begin_session(tls, files, host, fd)) {
        if (tls->ssl != NULL)
            openssl.SSL_free(tls->ssl); /* Without the name the handshake would verify nothing. */
        tls->ssl = NULL;
    }
    return tls;
}

void tls_close(struct tls *tls)
{
    if (tls->ssl != NULL) /* Otherwise OpenSSL may not be loaded. */
        openssl.SSL_free(tls->ssl);
    free(tls);
}

/* ---- errors ---- */

static void certificate_refused(struct tls *tls, long verified)
{
    switch (verified) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        fail(
            tls, TLS_FAULT_NAME,
            "the master's certificate is for another name than the one connected to (server_name)");
        return;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        fail(tls, TLS_FAULT_EXPIRED, "the master's certificate, or its authority's, has expired");
        return;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        fail(tls, TLS_FAULT_EXPIRED, "the master's certificate is not valid yet");
        return;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        fail(tls, TLS_FAULT_AUTHORITY,
             "the master's certificate is signed by no authority of ca_file");
        return;
    default:
        fail(tls, TLS_FAULT_AUTHORITY, "the master's certificate: %s",
             openssl.X509_verify_cert_error_string(verified));
    }
}

/* Texts for the alerts of the master about our certificate, and for errors that show another
 * protocol. */
static const struct remark {
    int reason;
    enum tls_fault fault;
    const char *says;
} remarks[] = {
    {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, TLS_FAULT_REFUSED,
     "the master asks for a client certificate (cert_file, key_file)"},
    {SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, TLS_FAULT_REFUSED,
     "the master refuses the handshake: no cipher in common, or a client certificate is missing"},
    {SSL_R_TLSV1_ALERT_UNKNOWN_CA, TLS_FAULT_REFUSED,
     "the master does not know the authority of the certificate in cert_file"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, TLS_FAULT_REFUSED,
     "the master says that the certificate in cert_file has expired"},
    {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, TLS_FAULT_REFUSED,
     "the master does not accept the certificate in cert_file"},
    {SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, TLS_FAULT_REFUSED,
     "the master says that the certificate in cert_file is not for clients"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, TLS_FAULT_REFUSED,
     "the master does not accept the certificate in cert_file"},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, TLS_FAULT_OTHER,
     "the master does not speak TLS 1.2 or 1.3"},
    {SSL_R_UNSUPPORTED_PROTOCOL, TLS_FAULT_OTHER, "the master does not speak TLS 1.2 or 1.3"},
    {SSL_R_WRONG_VERSION_NUMBER, TLS_FAULT_NOT_TLS, "the master speaks no TLS on this port"},
};

static void handshake_refused(struct tls *tls, int reason)
{
    for (unsigned i = 0; i < sizeof(remarks) / sizeof(remarks[0]); i++) {
        if (remarks[i].reason == reason) {
            fail(tls, remarks[i].fault, "%s", remarks[i].says);
            return;
        }
    }
    const char *says = openssl.ERR_reason_error_string(openssl.ERR_peek_error());
    fail(tls, TLS_FAULT_OTHER, "%s", says != NULL ? says : "failed");
}

/* Returns the result of an operation, with errno. `count` is the result that OpenSSL returned. */
static int outcome(struct tls *tls, int count)
{
    int network = errno;
    if (count > 0)
        return count;
    switch (openssl.SSL_get_error(tls->ssl, count)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        errno = network;
        return network != 0 ? -1 : 0;
    default:
        break;
    }
    int reason = ERR_GET_REASON(openssl.ERR_peek_error());
    if (network == ENOMEM || memory_ran_out()) {
        fail(tls, TLS_FAULT_OTHER, "%s", no_memory);
        errno = EPROTO;
        return -1;
    }
    if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return 0;
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
        certificate_refused(tls, openssl.SSL_get_verify_result(tls->ssl));
    else
        handshake_refused(tls, reason);
    errno = EPROTO;
    return -1;
}

/* ---- its operations ---- */

int tls_greet(struct tls *tls)
{
    if (tls->ssl == NULL) {
        errno = EPROTO;
        return -1;
    }
    begin();
    return outcome(tls, openssl.SSL_connect(tls->ssl));
}

/* Cuts a length to an `int`. The caller repeats the call for the rest. */
static int bounded(size_t len)
{
    return len > 1 << 20 ? 1 << 20 : (int)len;
}

ssize_t tls_read(struct tls *tls, char *into, size_t size)
{
    begin();
    return outcome(tls, openssl.SSL_read(tls->ssl, into, bounded(size)));
}

ssize_t tls_write(struct tls *tls, const char *bytes, size_t len)
{
    begin();
    return outcome(tls, openssl.SSL_write(tls->ssl, bytes, bounded(len)));
}

bool tls_waits_to_write(const struct tls *tls)
{
    return SSL_want_write(tls->ssl);
}

enum tls_fault tls_fault(const struct tls *tls)
{
    return tls->fault;
}

const char *tls_why(const struct tls *tls)
{
    return tls->why;
}

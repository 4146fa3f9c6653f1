/* The functions of OpenSSL that tls.c calls. They are loaded when TLS is needed, because an agent
 * without TLS would pay for both libraries with 1.7 MB of memory. Types and constants are those of
 * OpenSSL's headers. */
#ifndef LOCKAGENT_REDIS_OPENSSL_H
#define LOCKAGENT_REDIS_OPENSSL_H

#include <openssl/decoder.h>
#include <openssl/encoder.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/ssl.h>
#include <openssl/store.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/core/types.h"

/* Lists the functions of each library. A call of any other function of OpenSSL does not link. */
#define OPENSSL_OF_SSL(X)                                                                          \
    X(OPENSSL_init_ssl)                                                                            \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_get0_certificate)                                                                    \
    X(SSL_CTX_load_verify_file)                                                                    \
    X(SSL_CTX_new)                                                                                 \
    X(SSL_CTX_set_default_passwd_cb)                                                               \
    X(SSL_CTX_set_default_passwd_cb_userdata)                                                      \
    X(SSL_CTX_set_default_verify_paths)                                                            \
    X(SSL_CTX_set_options)                                                                         \
    X(SSL_CTX_set_verify)                                                                          \
    X(SSL_CTX_use_PrivateKey_file)                                                                 \
    X(SSL_CTX_use_certificate_chain_file)                                                          \
    X(SSL_connect)                                                                                 \
    X(SSL_ctrl)                                                                                    \
    X(SSL_free)                                                                                    \
    X(SSL_get0_param)                                                                              \
    X(SSL_get0_verified_chain)                                                                     \
    X(SSL_get_error)                                                                               \
    X(SSL_get_verify_result)                                                                       \
    X(SSL_new)                                                                                     \
    X(SSL_read)                                                                                    \
    X(SSL_set_fd)                                                                                  \
    X(SSL_want)                                                                                    \
    X(SSL_write)                                                                                   \
    X(TLS_client_method)
#define OPENSSL_OF_CRYPTO(X)                                                                       \
    X(ASN1_TIME_to_tm)                                                                             \
    X(ERR_clear_error)                                                                             \
    X(ERR_peek_error)                                                                              \
    X(ERR_peek_last_error)                                                                         \
    X(ERR_reason_error_string)                                                                     \
    X(EVP_ASYM_CIPHER_fetch)                                                                       \
    X(EVP_ASYM_CIPHER_free)                                                                        \
    X(EVP_CIPHER_fetch)                                                                            \
    X(EVP_CIPHER_free)                                                                             \
    X(EVP_KDF_fetch)                                                                               \
    X(EVP_KDF_free)                                                                                \
    X(EVP_KEM_fetch)                                                                               \
    X(EVP_KEM_free)                                                                                \
    X(EVP_KEYEXCH_fetch)                                                                           \
    X(EVP_KEYEXCH_free)                                                                            \
    X(EVP_KEYMGMT_fetch)                                                                           \
    X(EVP_KEYMGMT_free)                                                                            \
    X(EVP_MAC_fetch)                                                                               \
    X(EVP_MAC_free)                                                                                \
    X(EVP_MD_fetch)                                                                                \
    X(EVP_MD_free)                                                                                 \
    X(EVP_RAND_fetch)                                                                              \
    X(EVP_RAND_free)                                                                               \
    X(EVP_SIGNATURE_fetch)                                                                         \
    X(EVP_SIGNATURE_free)                                                                          \
    X(OPENSSL_sk_num)                                                                              \
    X(OPENSSL_sk_value)                                                                            \
    X(OSSL_DECODER_fetch)                                                                          \
    X(OSSL_DECODER_free)                                                                           \
    X(OSSL_ENCODER_fetch)                                                                          \
    X(OSSL_ENCODER_free)                                                                           \
    X(OSSL_STORE_LOADER_fetch)                                                                     \
    X(OSSL_STORE_LOADER_free)                                                                      \
    X(X509_VERIFY_PARAM_set1_host)                                                                 \
    X(X509_VERIFY_PARAM_set1_ip_asc)                                                               \
    X(X509_VERIFY_PARAM_set_hostflags)                                                             \
    X(X509_cmp_current_time)                                                                       \
    X(X509_get0_notAfter)                                                                          \
    X(X509_verify_cert_error_string)

/* A pointer to each function, by its name. All are NULL until openssl_load() has succeeded. */
extern struct openssl {
#define OPENSSL_MEMBER(name) __typeof__(name) *name;
    OPENSSL_OF_SSL(OPENSSL_MEMBER)
    OPENSSL_OF_CRYPTO(OPENSSL_MEMBER)
#undef OPENSSL_MEMBER
} openssl;

/* Loads both libraries. Later calls do nothing. Returns false, with `why`, if one of them or one of
 * their functions is missing, or if there is not enough memory. */
MUST_CHECK bool openssl_load(char *why, size_t size);

#endif

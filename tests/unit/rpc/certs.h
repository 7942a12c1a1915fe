/* Certificates of the tests, good until 2051: a CA, a node that it signed (127.0.0.1 and
 * runner-1.test), a CA that signed nobody. */
#ifndef TEST_RPC_CERTS_H
#define TEST_RPC_CERTS_H

static const char ca_pem[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBezCCASGgAwIBAgIUBwtC9O5c1URdaOMSOk/nMAsgaxUwCgYIKoZIzj0EAwIw\n"
    "EjEQMA4GA1UEAwwHdGVzdC1jYTAgFw0yNjExMjEwOTMxMjlaGA8yMDUxMDcxMzA5\n"
    "MzEyOVowEjEQMA4GA1UEAwwHdGVzdC1jYTBZMBMGByqGSM49AgEGCCqGSM49AwEH\n"
    "A0IABOpeW4rtTs4sPrlzc9J2n68rjYHtoOv307HfJFB6Ro1BqTbfn7g4V8gzQiGN\n"
    "NsHGi9wW5LFhABvGzJ/4EkRj/ESjUzBRMB0GA1UdDgQWBBSFUCV9rSVKjRd+2qgn\n"
    "IJQLPjrcCTAfBgNVHSMEGDAWgBSFUCV9rSVKjRd+2qgnIJQLPjrcCTAPBgNVHRMB\n"
    "Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCICxVCmDWRIYn7xO3EA8t3/el0Y2J\n"
    "vzjRJe/0HPZQu59EAiEAhkhmpuIkLS4JXCw5BYjyoMBNC+PsAa9N55fbvvnFUBY=\n"
    "-----END CERTIFICATE-----\n";

static const char node_pem[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBiTCCAS+gAwIBAgIUOniWpRrXry0Q68BqJwMxYqzqm9owCgYIKoZIzj0EAwIw\n"
    "EjEQMA4GA1UEAwwHdGVzdC1jYTAgFw0yNjExMjEwOTMxMzBaGA8yMDUxMDcxMzA5\n"
    "MzEzMFowETEPMA0GA1UEAwwGbm9kZS0xMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcD\n"
    "QgAEHBBMdWyuKQlQpqFAuw2X+qR6ziMBxRCkjEzbj0NHQjV2atGACOC4cfDJqKBZ\n"
    "MxmThE/sFb2QxDGI8oDU/ThX2aNiMGAwHgYDVR0RBBcwFYcEfwAAAYINcnVubmVy\n"
    "LTEudGVzdDAdBgNVHQ4EFgQU+rMCP2UNHrNTWIGytdojkjb/5fowHwYDVR0jBBgw\n"
    "FoAUhVAlfa0lSo0XftqoJyCUCz463AkwCgYIKoZIzj0EAwIDSAAwRQIgb7+n65cf\n"
    "Jolpo7btsHRK0j4SxholDpNl5A0EyJSvn4QCIQC/shmFjNMrnxrAdACfoMwM9Qbc\n"
    "/7WX8b5FAX5jX3NmJA==\n"
    "-----END CERTIFICATE-----\n";

static const char node_key[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg7MSo9xREBg8+Mhyu\n"
    "kZ3JlU7e45QerbvJW1SobduxAE2hRANCAAQcEEx1bK4pCVCmoUC7DZf6pHrOIwHF\n"
    "EKSMTNuPQ0dCNXZq0YAI4Lhx8MmooFkzGZOET+wVvZDEMYjygNT9OFfZ\n"
    "-----END PRIVATE KEY-----\n";

static const char other_ca_pem[] __attribute__((unused)) =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBfTCCASOgAwIBAgIUcwLBunleOlwlPP0V79dbvxlXc3kwCgYIKoZIzj0EAwIw\n"
    "EzERMA8GA1UEAwwIb3RoZXItY2EwIBcNMjYxMTIxMDkzMTMwWhgPMjA1MTA3MTMw\n"
    "OTMxMzBaMBMxETAPBgNVBAMMCG90aGVyLWNhMFkwEwYHKoZIzj0CAQYIKoZIzj0D\n"
    "AQcDQgAE2L8AWIuXnKnJzQat+zHaW4fVlWMpGLTiKfT12QodJnrU2SdIgXZL9Ppo\n"
    "PPZqsMClqzMX/kbv8qbUlnN5+Q8w2qNTMFEwHQYDVR0OBBYEFCav7K/WRN4xyVrH\n"
    "u1l3KI5s5UX6MB8GA1UdIwQYMBaAFCav7K/WRN4xyVrHu1l3KI5s5UX6MA8GA1Ud\n"
    "EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhAIAjhlEQCb3ETLyXBBEulEUQ\n"
    "6YhlUzp5qQXoqDhqMBknAiAITxJjZJnOUDBgSmi3ET70c0XBNXY0pKfEqVmULRjB\n"
    "rw==\n"
    "-----END CERTIFICATE-----\n";

#endif

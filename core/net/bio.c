/* A stream's socket as OpenSSL sees it: no call blocks, and no SIGPIPE is raised. */
#include <net/net_int.h>

#include <errno.h>

static int bio_read(BIO *bio, char *buf, size_t cap, size_t *ret)
{
    struct net_io *io = BIO_get_data(bio);
    ssize_t n = recv(io->w.fd, buf, cap, MSG_DONTWAIT);

    BIO_clear_retry_flags(bio);
    *ret = n > 0 ? (size_t)n : 0;
    io->heard = io->heard || n > 0;
    io->error_no = n < 0 ? errno : 0;
    if (n == 0) {
        io->eof = true;
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_retry_read(bio);
    }
    return n > 0;
}

static int bio_write(BIO *bio, const char *data, size_t len, size_t *ret)
{
    struct net_io *io = BIO_get_data(bio);
    ssize_t n = send(io->w.fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    *ret = n > 0 ? (size_t)n : 0;
    io->error_no = n < 0 ? errno : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_retry_write(bio);
    }
    return n > 0;
}

static long bio_ctrl(BIO *bio, int cmd, long n, void *p)
{
    const struct net_io *io = BIO_get_data(bio);

    (void)n;
    (void)p;
    return cmd == BIO_CTRL_FLUSH || (cmd == BIO_CTRL_EOF && io->eof);
}

BIO_METHOD *io_bio_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "stream");

    if (m) {
        BIO_meth_set_read_ex(m, bio_read);
        BIO_meth_set_write_ex(m, bio_write);
        BIO_meth_set_ctrl(m, bio_ctrl);
    }
    return m;
}

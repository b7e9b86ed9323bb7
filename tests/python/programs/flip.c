/* Flip one bit of what recvmsg() receives next, as a broken computer or network does. To be preloaded. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>

static long next_bytes; /* 0: none */

void flip_next(long bytes) { next_bytes = bytes; }

ssize_t recvmsg(int socket, struct msghdr *message, int flags) {
    static ssize_t (*stock)(int, struct msghdr *, int);
    if (!stock) *(void **)&stock = dlsym(RTLD_NEXT, "recvmsg");
    ssize_t n = stock(socket, message, flags);
    if (next_bytes && n == next_bytes) {
        next_bytes = 0;
        /* A bit of the third number, high enough not to be lost in the rounding of the sum. */
        ((char *)message->msg_iov[0].iov_base)[10] ^= 1;
    }
    return n;
}

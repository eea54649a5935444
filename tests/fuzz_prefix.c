/* fuzz_prefix.c - text that is read as a prefix is written as one text, and that is read as the same
** prefix; the system's inet_pton agrees about what is an IP address. */
#include "fuzz.h"

#include "../core/prefix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void check_accepted(const sdb_prefix *p)
{
    char text[SDB_PREFIX_TEXT], text2[SDB_PREFIX_TEXT];
    sdb_prefix again;
    size_t n = sdb_prefix_print(p, text);

    check(n < sizeof text && text[n] == 0, "what is written has its length");
    check(!sdb_prefix_parse(text, n, &again), "what is written can be read");
    check(memcmp(p, &again, sizeof again) == 0, "what is written is the same prefix");
    sdb_prefix_print(&again, text2);
    check(strcmp(text, text2) == 0, "one prefix has one text");
    for (unsigned i = p->bits; i < 128; i++)
        check(!(p->addr[i / 8] >> (7 - i % 8) & 1), "nothing is behind the prefix");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    char address[64];
    uint8_t addr[16];
    sdb_prefix p;
    bool is_read = !sdb_prefix_parse(text, size, &p);

    if (is_read)
        check_accepted(&p);
    if (size >= sizeof address || memchr(data, '/', size) || memchr(data, 0, size))
        return 0;
    if (size)
        memcpy(address, data, size);
    address[size] = 0;
    bool is_address = inet_pton(AF_INET, address, addr) == 1;
    if (is_address)
        check(is_read && p.family == SDB_IPV4 && memcmp(addr, p.addr, 4) == 0, "an IPv4 address");
    bool is_address6 = inet_pton(AF_INET6, address, addr) == 1;
    if (is_address6 && is_read && p.family == SDB_IPV4)
        check(memcmp(addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) == 0 &&
                  memcmp(addr + 12, p.addr, 4) == 0,
              "a mapped IPv4 address");
    else if (is_address6)
        check(is_read && p.family == SDB_IPV6 && memcmp(addr, p.addr, 16) == 0, "an IPv6 address");
    if (is_read && p.family <= SDB_IPV6)
        check(is_address || is_address6, "no IP address");
    return 0;
}

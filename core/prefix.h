/* prefix.h - prefixes of bit strings: IPv4 and IPv6 addresses and networks, MAC addresses, raw bits.
**
** A prefix is the first `bits` bits of an address of some family, and stands for all addresses, and
** all longer prefixes, that begin with them: it COVERS them. An address is the prefix of all its
** bits. What lies behind the prefix is zero, so each has one form: 10.1.2.3/8 is 10.0.0.0/8.
**
**   text read                              text written
**   10.1.2.3   10.0.0.0/8                  the same; no length where it is an address
**   2001:DB8::/32   64:ff9b::192.0.2.1     all of RFC 4291 2.2; as RFC 5952 has it
**   ::ffff:10.1.2.3   ::ffff:10.0.0.0/104  10.1.2.3   10.0.0.0/8
**   aa:bb:cc:dd:ee:ff   aa-bb-cc/24        aa:bb:cc:dd:ee:ff   aa:bb:cc/24
**   aabb.ccdd.eeff   aabb.cc00/24          the same
**   0x0a01   0x0a01/12                     0x0a01/16   0x0a0/12
**
** Families are apart: nothing of one covers anything of another. An IPv4-mapped IPv6 address is an
** IPv4 address, and ::ffff:0:0/96 is 0.0.0.0/0; so ::/0 covers all IPv6 addresses and no IPv4
** address, as in a routing table.
**
** Text that systems read differently is refused: leading zeros (010.0.0.1), fewer than four numbers
** (10/8), zones (fe80::1%eth0), spaces. Part of a MAC address, two bytes or more, needs its length.
**
** Raw bits are the way to match anything else by its longest prefix: ports, telephone numbers,
** labels. There are at most 128 of them, so that a prefix is 18 bytes, held by value wherever one is
** needed, and a tree of them has a bounded depth (lpm.h). */
#ifndef SDB_PREFIX_H
#define SDB_PREFIX_H

#include "statedb.h"

typedef enum { SDB_IPV4 = 0, SDB_IPV6, SDB_MAC, SDB_BITS, SDB_FAMILIES } sdb_family;

typedef struct sdb_prefix {
    uint8_t family;
    uint8_t bits;
    uint8_t addr[16]; /* most significant bit first; zero behind the prefix */
} sdb_prefix;

/* Bits of an address; of SDB_BITS, the most there can be. */
unsigned sdb_family_bits(sdb_family family);

/* Read text[0..n). NULL, or what is wrong, to be read after the text: "has a number above 255". */
SDB_MUST const char *sdb_prefix_parse(const char *text, size_t n, sdb_prefix *out);

/* Read the address alone, of all its bits: 10.1.2.3 of 10.1.2.3/8. */
SDB_MUST const char *sdb_prefix_parse_address(const char *text, size_t n, sdb_prefix *out);

/* Read a value as a prefix: text is parsed, each bit of a blob is a raw bit, others are no prefix. */
SDB_MUST const char *sdb_prefix_from(const sdb_value *value, sdb_prefix *out);

/* Write the one text of a prefix; returns its length. */
#define SDB_PREFIX_TEXT 44 /* the longest, with its NUL */
size_t sdb_prefix_print(const sdb_prefix *p, char out[SDB_PREFIX_TEXT]);

/* Shorten to `bits`, or leave it if it is shorter. */
void sdb_prefix_cut(sdb_prefix *p, unsigned bits);

/* Order: family, then bit by bit, a prefix before what it covers. */
int sdb_prefix_compare(const sdb_prefix *a, const sdb_prefix *b);

/* Whether a covers b; it covers itself. */
bool sdb_prefix_covers(const sdb_prefix *a, const sdb_prefix *b);

#endif

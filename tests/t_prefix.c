/* t_prefix.c - prefixes: what is read and what is not, the one text of each, order and covering. */
#include "random.h"

#include "../core/prefix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include <cmocka.h>

static sdb_prefix parse(const char *text)
{
    sdb_prefix p;
    const char *wrong = sdb_prefix_parse(text, strlen(text), &p);
    if (wrong)
        fail_msg("%s %s", text, wrong);
    return p;
}

/* What is read, and how it is written. */
static const struct {
    const char *in;
    sdb_family family;
    const char *out; /* NULL: as it was read */
} GOOD[] = {
    {"10.1.2.3", SDB_IPV4, NULL},
    {"0.0.0.0", SDB_IPV4, NULL},
    {"255.255.255.255", SDB_IPV4, NULL},
    {"10.0.0.0/8", SDB_IPV4, NULL},
    {"10.1.2.3/8", SDB_IPV4, "10.0.0.0/8"},
    {"10.1.2.3/32", SDB_IPV4, "10.1.2.3"},
    {"255.255.255.255/0", SDB_IPV4, "0.0.0.0/0"},
    {"10.255.255.255/9", SDB_IPV4, "10.128.0.0/9"},
    {"192.168.77.129/25", SDB_IPV4, "192.168.77.128/25"},
    /* RFC 4291 2.2 and 2.3 */
    {"ABCD:EF01:2345:6789:ABCD:EF01:2345:6789", SDB_IPV6,
     "abcd:ef01:2345:6789:abcd:ef01:2345:6789"},
    {"2001:DB8:0:0:8:800:200C:417A", SDB_IPV6, "2001:db8::8:800:200c:417a"},
    {"FF01:0:0:0:0:0:0:101", SDB_IPV6, "ff01::101"},
    {"0:0:0:0:0:0:0:1", SDB_IPV6, "::1"},
    {"0:0:0:0:0:0:0:0", SDB_IPV6, "::"},
    {"::", SDB_IPV6, NULL},
    {"::1", SDB_IPV6, NULL},
    {"1::", SDB_IPV6, NULL},
    {"0:0:0:0:0:0:13.1.68.3", SDB_IPV6, "::d01:4403"},
    {"0:0:0:0:0:FFFF:129.144.52.38", SDB_IPV4, "129.144.52.38"},
    {"::13.1.68.3", SDB_IPV6, "::d01:4403"},
    {"::FFFF:129.144.52.38", SDB_IPV4, "129.144.52.38"},
    {"64:ff9b::192.0.2.33", SDB_IPV6, "64:ff9b::c000:221"},
    {"1:2:3:4:5:6:7.8.9.10", SDB_IPV6, "1:2:3:4:5:6:708:90a"},
    {"1:2:3:4::7.8.9.10", SDB_IPV6, "1:2:3:4::708:90a"},
    {"2001:0DB8:0000:CD30:0000:0000:0000:0000/60", SDB_IPV6, "2001:db8:0:cd30::/60"},
    {"2001:0DB8::CD30:0:0:0:0/60", SDB_IPV6, "2001:db8:0:cd30::/60"},
    {"2001:0DB8:0:CD30::/60", SDB_IPV6, "2001:db8:0:cd30::/60"},
    {"2001:0DB8:0:CD30:123:4567:89AB:CDEF/60", SDB_IPV6, "2001:db8:0:cd30::/60"},
    /* RFC 5952 4 */
    {"2001:0db8::0001", SDB_IPV6, "2001:db8::1"},
    {"2001:db8:0:0:0:0:2:1", SDB_IPV6, "2001:db8::2:1"},
    {"2001:db8::1:1:1:1:1", SDB_IPV6, "2001:db8:0:1:1:1:1:1"},
    {"2001:db8:0:1:1:1:1:1", SDB_IPV6, NULL},
    {"2001:0:0:1:0:0:0:1", SDB_IPV6, "2001:0:0:1::1"},
    {"2001:db8:0:0:1:0:0:1", SDB_IPV6, "2001:db8::1:0:0:1"},
    {"2001:DB8::AaAa", SDB_IPV6, "2001:db8::aaaa"},
    {"1:2:3:4:5:6:7::", SDB_IPV6, "1:2:3:4:5:6:7:0"},
    {"::2:3:4:5:6:7:8", SDB_IPV6, "0:2:3:4:5:6:7:8"},
    {"1:2:3:4:5:6:0:0", SDB_IPV6, "1:2:3:4:5:6::"},
    {"0:0:3:4:5:6:7:8", SDB_IPV6, "::3:4:5:6:7:8"},
    {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/127", SDB_IPV6,
     "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127"},
    {"11:22:33:44:55:66:77:88", SDB_IPV6, NULL},
    {"aa:bb:cc::", SDB_IPV6, NULL},
    {"::/0", SDB_IPV6, NULL},
    {"2000::1/3", SDB_IPV6, "2000::/3"},
    /* IPv4 in IPv6 */
    {"::ffff:10.1.2.3", SDB_IPV4, "10.1.2.3"},
    {"::ffff:a01:203", SDB_IPV4, "10.1.2.3"},
    {"::ffff:10.1.2.3/104", SDB_IPV4, "10.0.0.0/8"},
    {"::ffff:0:0/96", SDB_IPV4, "0.0.0.0/0"},
    {"::ffff:10.1.2.3/95", SDB_IPV6, "::fffe:0:0/95"},
    {"::fffe:10.1.2.3", SDB_IPV6, "::fffe:a01:203"},
    {"1::ffff:10.1.2.3", SDB_IPV6, "1::ffff:a01:203"},
    /* MAC */
    {"aa:bb:cc:dd:ee:ff", SDB_MAC, NULL},
    {"AA:BB:CC:DD:EE:FF", SDB_MAC, "aa:bb:cc:dd:ee:ff"},
    {"aa-bb-cc-dd-ee-ff", SDB_MAC, "aa:bb:cc:dd:ee:ff"},
    {"aabb.ccdd.eeff", SDB_MAC, "aa:bb:cc:dd:ee:ff"},
    {"1122.3344.5566", SDB_MAC, "11:22:33:44:55:66"},
    {"00:00:00:00:00:00", SDB_MAC, NULL},
    {"aa:bb:cc:dd:ee:ff/48", SDB_MAC, "aa:bb:cc:dd:ee:ff"},
    {"aa:bb:cc:dd:ee:ff/47", SDB_MAC, "aa:bb:cc:dd:ee:fe/47"},
    {"aa:bb:cc:dd:ee:ff/24", SDB_MAC, "aa:bb:cc/24"},
    {"aa:bb:cc/24", SDB_MAC, NULL},
    {"aa-bb-cc/24", SDB_MAC, "aa:bb:cc/24"},
    {"aabb.cc00/24", SDB_MAC, "aa:bb:cc/24"},
    {"aa:bb:cc/20", SDB_MAC, "aa:bb:c0/20"},
    {"aa:bb/16", SDB_MAC, NULL},
    {"aa:bb:cc/8", SDB_MAC, "aa:00/8"},
    {"aa:bb/0", SDB_MAC, "00:00/0"},
    {"aa:bb:cc:dd/25", SDB_MAC, "aa:bb:cc:80/25"},
    /* bits */
    {"0x0a01", SDB_BITS, "0x0a01/16"},
    {"0x0a01/16", SDB_BITS, NULL},
    {"0X0A0f/12", SDB_BITS, "0x0a0/12"},
    {"0x0a01/9", SDB_BITS, "0x0a0/9"},
    {"0xabc", SDB_BITS, "0xabc/12"},
    {"0xf/1", SDB_BITS, "0x8/1"},
    {"0xf/0", SDB_BITS, "0x/0"},
    {"0x", SDB_BITS, "0x/0"},
    {"0x0123456789abcdef0123456789abcdef/128", SDB_BITS, NULL},
    {"0x0123456789abcdef0123456789abcdef/127", SDB_BITS, "0x0123456789abcdef0123456789abcdee/127"},
};

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        char text[SDB_PREFIX_TEXT];
        const char *want = GOOD[i].out ? GOOD[i].out : GOOD[i].in;
        sdb_prefix p = parse(GOOD[i].in);
        assert_int_equal(p.family, GOOD[i].family);
        size_t n = sdb_prefix_print(&p, text);
        assert_string_equal(text, want);
        assert_int_equal(n, strlen(want));
        sdb_prefix again = parse(text);
        assert_int_equal(sdb_prefix_compare(&p, &again), 0);
        assert_memory_equal(&p, &again, sizeof p);
    }
}

#define GENERAL "is not an address or prefix"
#define ZERO "has a number with a leading zero"
#define BIG "has a number above 255"
#define LONG "has a length above the bits of its address"
#define SHORT "has no length, which part of an address needs"
#define ZONE "has a zone, which a prefix cannot have"

static const struct {
    const char *in, *wrong;
} BAD[] = {
    {"", GENERAL},
    {" ", GENERAL},
    {"/", GENERAL},
    {"/8", GENERAL},
    {"host", GENERAL},
    {"10", GENERAL},
    {"10/8", GENERAL},
    {"10.1", GENERAL},
    {"10.1.2", GENERAL},
    {"10.1.2.", GENERAL},
    {"10.1.2.3.", GENERAL},
    {"10.1.2.3.4", GENERAL},
    {".1.2.3", GENERAL},
    {"10..2.3", GENERAL},
    {"10.1.2.3 ", GENERAL},
    {" 10.1.2.3", GENERAL},
    {"10.1.2. 3", GENERAL},
    {"10.1.2.-3", GENERAL},
    {"10.1.2.+3", GENERAL},
    {"10.1.2.a", GENERAL},
    {"10.1.2.256", BIG},
    {"10.1.2.999", BIG},
    {"10.1.2.1000", GENERAL},
    {"010.1.2.3", ZERO},
    {"10.1.2.03", ZERO},
    {"10.1.2.00", ZERO},
    {"10.0.0.0/", GENERAL},
    {"10.0.0.0/33", LONG},
    {"10.0.0.0/256", LONG},
    {"10.0.0.0/4294967304", GENERAL},
    {"10.0.0.0/08", ZERO},
    {"10.0.0.0/00", ZERO},
    {"10.0.0.0/-1", GENERAL},
    {"10.0.0.0/ 8", GENERAL},
    {"10.0.0.0/8 ", GENERAL},
    {"10.0.0.0/8/8", GENERAL},
    {"10.0.0.0/255.0.0.0", GENERAL},
    {"10.0.0.0%eth0", GENERAL},
    {":", GENERAL},
    {":::", GENERAL},
    {"1", GENERAL},
    {"1:", GENERAL},
    {":1", GENERAL},
    {"1::2::3", GENERAL},
    {"::1::", GENERAL},
    {"1:::2", GENERAL},
    {"1:2:3:4:5:6:7", GENERAL},
    {"1:2:3:4:5:6:7:", GENERAL},
    {"1:2:3:4:5:6:7:8:", GENERAL},
    {"1:2:3:4:5:6:7:8:9", GENERAL},
    {":1:2:3:4:5:6:7", GENERAL},
    {"1:2:3:4:5:6:7:8::", GENERAL},
    {"::1:2:3:4:5:6:7:8", GENERAL},
    {"1::2:3:4:5:6:7:8", GENERAL},
    {"1::2:", GENERAL},
    {"12345::", GENERAL},
    {"g::", GENERAL},
    {"::1 ", GENERAL},
    {"[::1]", GENERAL},
    {"::1/129", LONG},
    {"::1.2.3", GENERAL},
    {"::1.2.3.4.5", GENERAL},
    {"::1.2.3.4:5", GENERAL},
    {"1.2.3.4::", GENERAL},
    {"::1.2.3.256", BIG},
    {"::01.2.3.4", ZERO},
    {"1:2:3:4:5:6:7:1.2.3.4", GENERAL},
    {"1:2:3:4:5:1.2.3.4", GENERAL},
    {"::a.1.2.3", GENERAL},
    {"fe80::1%eth0", ZONE},
    {"fe80::%1/64", ZONE},
    {"aa:bb:cc", SHORT},
    {"aa-bb-cc-dd-ee", SHORT},
    {"aabb.ccdd", SHORT},
    {"aa/8", GENERAL},
    {"aabb/16", GENERAL},
    {"aa:bb:cc/25", LONG},
    {"aa:bb:cc:dd:ee:ff/49", LONG},
    {"aa:bb:cc:dd:ee:ff:00", GENERAL},
    {"aa:bb:cc:dd:ee:f", GENERAL},
    {"aa:bb-cc:dd:ee:ff", GENERAL},
    {"aa:bb:cc:dd:ee:ff:", GENERAL},
    {"aa:bb:cc:dd:ee:gg", GENERAL},
    {"aa.bb.cc.dd.ee.ff", GENERAL},
    {"aabb.ccdd.eeff.0011", GENERAL},
    {"aabb:ccdd:eeff", GENERAL},
    {"aabbccddeeff", GENERAL},
    {"0xg", GENERAL},
    {"0x0a/9", LONG},
    {"0x0a /8", GENERAL},
    {"0x0123456789abcdef0123456789abcdef0", "has more than 128 bits"},
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        sdb_prefix p = {.bits = 77};
        size_t n = strlen(BAD[i].in);
        char *copy = malloc(n + 1); /* without the NUL, to be caught reading it */
        memcpy(copy, BAD[i].in, n);
        const char *wrong = sdb_prefix_parse(copy, n, &p);
        if (!wrong)
            fail_msg("'%s' was read", BAD[i].in);
        if (strcmp(wrong, BAD[i].wrong) != 0)
            fail_msg("'%s' %s", BAD[i].in, wrong);
        assert_int_equal(p.bits, 77);
        free(copy);
    }
    sdb_prefix p;
    assert_non_null(sdb_prefix_parse("10.1.2.3", 9, &p)); /* a NUL is no end */
    assert_non_null(sdb_prefix_parse(NULL, 0, &p));
}

static void test_values(void **state)
{
    (void)state;
    sdb_prefix p;
    char text[SDB_PREFIX_TEXT];
    sdb_value v = {.type = SDB_TEXT, .n = 10, .u.p = "10.0.0.0/8"};
    assert_null(sdb_prefix_from(&v, &p));
    sdb_prefix_print(&p, text);
    assert_string_equal(text, "10.0.0.0/8");
    v.type = SDB_BLOB;
    assert_null(sdb_prefix_from(&v, &p));
    sdb_prefix_print(&p, text);
    assert_string_equal(text, "0x31302e302e302e302f38/80");
    v = (sdb_value){.type = SDB_BLOB, .n = 0, .u.p = NULL};
    assert_null(sdb_prefix_from(&v, &p));
    sdb_prefix_print(&p, text);
    assert_string_equal(text, "0x/0");
    uint8_t bytes[17] = {0};
    v = (sdb_value){.type = SDB_BLOB, .n = 16, .u.p = bytes};
    assert_null(sdb_prefix_from(&v, &p));
    assert_int_equal(p.bits, 128);
    v.n = 17;
    assert_string_equal(sdb_prefix_from(&v, &p), "has more than 128 bits");
    v = (sdb_value){.type = SDB_INTEGER, .u.i = 10};
    assert_string_equal(sdb_prefix_from(&v, &p), GENERAL);
    v.type = SDB_NULL;
    assert_string_equal(sdb_prefix_from(&v, &p), GENERAL);
}

/* The address in front of the length. */
static void test_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } ADDRESSES[] = {
        {"10.1.2.3/8", "10.1.2.3"},
        {"10.1.2.3", "10.1.2.3"},
        {"0.0.0.0/0", "0.0.0.0"},
        {"2001:DB8::1/32", "2001:db8::1"},
        {"::ffff:10.1.2.3/104", "10.1.2.3"},
        {"::ffff:10.1.2.3/8", "10.1.2.3"},
        {"aa-bb-cc/24", "aa:bb:cc:00:00:00"},
        {"aabb.ccdd.eeff/1", "aa:bb:cc:dd:ee:ff"},
        {"0x0a01/12", "0x0a01/16"},
    };
    for (size_t i = 0; i < sizeof ADDRESSES / sizeof *ADDRESSES; i++) {
        sdb_prefix p;
        char text[SDB_PREFIX_TEXT];
        assert_null(sdb_prefix_parse_address(ADDRESSES[i].in, strlen(ADDRESSES[i].in), &p));
        sdb_prefix_print(&p, text);
        assert_string_equal(text, ADDRESSES[i].out);
    }
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        sdb_prefix p = {.bits = 77};
        assert_string_equal(sdb_prefix_parse_address(BAD[i].in, strlen(BAD[i].in), &p), BAD[i].wrong);
        assert_int_equal(p.bits, 77);
    }
}

/* ---------------------------------------------------------------- random prefixes */

static sdb_prefix random_prefix(void)
{
    sdb_prefix p = {.family = (uint8_t)rnd(SDB_FAMILIES)};
    unsigned full = sdb_family_bits(p.family);
    for (unsigned i = 0; i < full / 8; i++)
        p.addr[i] = (uint8_t)(rnd(3) ? 0 : rnd(256));
    p.bits = (uint8_t)full;
    sdb_prefix_cut(&p, (unsigned)rnd(full + 1));
    if (p.family == SDB_IPV6 && p.bits >= 96)
        p.addr[0] = 1; /* or it might be IPv4 */
    return p;
}

static void test_round_trip(void **state)
{
    (void)state;
    for (int i = 0; i < 200000; i++) {
        char text[SDB_PREFIX_TEXT];
        sdb_prefix p = random_prefix();
        size_t n = sdb_prefix_print(&p, text);
        assert_int_equal(n, strlen(text));
        assert_true(n < sizeof text);
        sdb_prefix again = parse(text);
        assert_memory_equal(&p, &again, sizeof p);
    }
}

/* Random text of the right letters: it is an address exactly when inet_pton says so, and the same. */
static void test_against_libc(void **state)
{
    (void)state;
    static const char *const GROUPS[] = {"0",  "1",  "12",   "255", "256",
                                         "99", "ab", "ffff", "01",  ""};
    static const char *const MARKS[] = {".", ":", "::", "%", " "};
    int good[3] = {0};
    for (int i = 0; i < 1000000; i++) {
        char text[128] = "";
        uint64_t mark = rnd(2), n = 1 + rnd(9);
        for (uint64_t k = 0; k < n; k++) { /* now and then another mark than the usual one */
            strcat(text, GROUPS[rnd(rnd(8) ? 6 : 10)]);
            if (mark == 1 && k + 4 == n && rnd(4) == 0)
                mark = 0;
            if (k + 1 < n || rnd(20) == 0)
                strcat(text, MARKS[rnd(8) ? mark : mark ? 2 : rnd(5)]);
        }
        sdb_prefix p;
        uint8_t want[16];
        const char *wrong = sdb_prefix_parse(text, strlen(text), &p);
        int family = strchr(text, ':') ? AF_INET6 : AF_INET;
        if (!wrong && p.family == SDB_MAC)
            continue;
        if ((inet_pton(family, text, want) == 1) == (wrong != NULL))
            fail_msg("'%s' %s", text, wrong ? wrong : "was read");
        if (wrong)
            continue;
        bool is_mapped = family == AF_INET6 && p.family == SDB_IPV4;
        assert_memory_equal(p.addr, want + (is_mapped ? 12 : 0), p.bits / 8);
        good[family == AF_INET ? 0 : strchr(text, '.') ? 1 : 2]++;
    }
    assert_true(good[0] > 1000 && good[1] > 1000 && good[2] > 1000);
}

/* An IPv4 prefix is the same, or none, whether it is written as such or as a part of IPv6. */
static void test_against_mapped(void **state)
{
    (void)state;
    static const char *const NUMBERS[] = {"0",   "7",  "10",  "99",   "100", "255",
                                          "256", "00", "012", "1000", ""};
    static const char *const ENDS[] = {"", ".", "/", "x", "/1/", " "};
    int good = 0;
    for (int i = 0; i < 200000; i++) {
        char text[64] = "", mapped[128], length[2][12] = {"", ""};
        for (int k = 0; k < 4; k++) {
            strcat(text, k ? "." : "");
            strcat(text, NUMBERS[rnd(8) ? rnd(6) : rnd(11)]);
        }
        if (rnd(2)) {
            unsigned bits = (unsigned)rnd(40);
            sprintf(length[0], "/%u", bits);
            sprintf(length[1], "/%u", bits + 96);
        }
        const char *end = ENDS[rnd(4) ? 0 : rnd(6)];
        sprintf(mapped, "::ffff:%s%s%s", text, length[1], end);
        strcat(strcat(text, length[0]), end);
        sdb_prefix p, q;
        const char *wrong = sdb_prefix_parse(text, strlen(text), &p);
        if (!wrong != !sdb_prefix_parse(mapped, strlen(mapped), &q))
            fail_msg("'%s' %s", text, wrong ? wrong : "was read");
        if (wrong)
            continue;
        assert_memory_equal(&p, &q, sizeof p);
        assert_null(sdb_prefix_parse_address(text, strlen(text), &p));
        assert_null(sdb_prefix_parse_address(mapped, strlen(mapped), &q));
        assert_memory_equal(&p, &q, sizeof p);
        assert_int_equal(p.bits, 32);
        good++;
    }
    assert_true(good > 10000);
}

static bool bit_at(const sdb_prefix *p, unsigned i)
{
    return p->addr[i / 8] >> (7 - i % 8) & 1;
}

/* Bit by bit: the order in which a prefix comes before what it covers. */
static int naive_compare(const sdb_prefix *a, const sdb_prefix *b)
{
    if (a->family != b->family)
        return a->family < b->family ? -1 : 1;
    for (unsigned i = 0; i < a->bits && i < b->bits; i++)
        if (bit_at(a, i) != bit_at(b, i))
            return bit_at(a, i) ? 1 : -1;
    return a->bits < b->bits ? -1 : a->bits > b->bits;
}

static bool naive_covers(const sdb_prefix *a, const sdb_prefix *b)
{
    if (a->family != b->family || a->bits > b->bits)
        return false;
    for (unsigned i = 0; i < a->bits; i++)
        if (bit_at(a, i) != bit_at(b, i))
            return false;
    return true;
}

static void test_order(void **state)
{
    (void)state;
    int covered = 0;
    for (int i = 0; i < 300000; i++) {
        sdb_prefix a = random_prefix(), b = random_prefix();
        if (rnd(2)) { /* a relative, not an acquaintance */
            b = a;
            if (b.bits && rnd(2))
                b.addr[rnd(b.bits) / 8] ^= (uint8_t)(1 << rnd(8));
            b.bits = (uint8_t)sdb_family_bits(b.family);
            sdb_prefix_cut(&b, (unsigned)rnd(b.bits + 1u));
        }
        int c = sdb_prefix_compare(&a, &b), want = naive_compare(&a, &b);
        assert_int_equal((c > 0) - (c < 0), want);
        assert_int_equal(sdb_prefix_covers(&a, &b), naive_covers(&a, &b));
        covered += naive_covers(&a, &b);
        sdb_prefix cut = a;
        unsigned bits = (unsigned)rnd(140);
        sdb_prefix_cut(&cut, bits);
        assert_int_equal(cut.bits, bits < a.bits ? bits : a.bits);
        assert_true(naive_covers(&cut, &a));
        for (unsigned k = cut.bits; k < 128; k++)
            assert_false(bit_at(&cut, k));
    }
    assert_true(covered > 10000);
}

/* The families that look alike. */
static void test_families_apart(void **state)
{
    (void)state;
    sdb_prefix all4 = parse("0.0.0.0/0"), all6 = parse("::/0"), bits = parse("0x/0");
    sdb_prefix mac = parse("00:00/0"), ten = parse("10.1.2.3"), six = parse("a01:203::");
    assert_true(sdb_prefix_covers(&all4, &ten));
    assert_true(sdb_prefix_covers(&all6, &six));
    assert_false(sdb_prefix_covers(&all6, &ten));
    assert_false(sdb_prefix_covers(&all4, &six));
    assert_false(sdb_prefix_covers(&bits, &ten));
    assert_false(sdb_prefix_covers(&mac, &ten));
    assert_true(sdb_prefix_compare(&ten, &all6) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),           cmocka_unit_test(test_bad),
        cmocka_unit_test(test_values),         cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_against_libc),
        cmocka_unit_test(test_against_mapped), cmocka_unit_test(test_order),
        cmocka_unit_test(test_families_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

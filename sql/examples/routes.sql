.echo on
-- The longest prefix that covers an address: a routing table, an access list, makers of network cards,
-- the price of a telephone call.
--
--     sqlite3 <sql/examples/routes.sql

.load ./statedb

CREATE VIRTUAL TABLE route USING statedb(
    net TEXT NOT NULL,
    via TEXT NOT NULL,
    UNIQUE INDEX by_net (net) USING lpm
);

INSERT INTO route VALUES
    ('0.0.0.0/0',          'upstream'),
    ('10.0.0.0/8',         'office'),
    ('10.20.0.0/16',       'lab'),
    ('10.20.30.0/24',      'lab, rack 30'),
    ('10.20.30.7',         'printer'),
    ('198.51.100.0/24',    'peer'),
    ('2001:db8::/32',      'office'),
    ('2001:db8:20::/48',   'lab');
.mode box

-- 1. Where does a packet go? The longest prefix that covers its address knows, of IPv4 and IPv6.

SELECT * FROM route WHERE statedb_lpm(net, '10.20.30.40');
SELECT * FROM route WHERE statedb_lpm(net, '2001:db8:20:1::7');

CREATE TABLE packet(id INTEGER PRIMARY KEY, dst TEXT);
INSERT INTO packet(dst) VALUES
    ('10.20.30.7'), ('10.20.99.1'), ('203.0.113.9'), ('::ffff:10.1.2.3'), ('2001:4860:4860::8888');

-- All packets at once: for each of them the index is asked once. An IPv4 address that is written as
-- IPv6 is an IPv4 address; the last one has no route.

SELECT dst, net, via FROM packet LEFT JOIN route ON statedb_lpm(net, dst) ORDER BY id;
EXPLAIN QUERY PLAN SELECT dst, net, via FROM packet LEFT JOIN route ON statedb_lpm(net, dst);

-- 2. All that cover an address, from the nearest outwards; all within a network, in order of address.

SELECT net, via FROM route
 WHERE statedb_covers(net, '10.20.30.7') ORDER BY statedb_masklen(net) DESC;
SELECT net, via FROM route
 WHERE statedb_within(net, '10.20.0.0/15') ORDER BY statedb_net_key(net);

-- 3. One prefix has one form, however it is written, and there is one route for it.

INSERT INTO route VALUES ('10.20.1.1/16', 'a second lab');
INSERT INTO route VALUES ('10.300.0.0/16', 'nowhere');
INSERT OR REPLACE INTO route VALUES ('10.20.1.1/16', 'new lab');
SELECT net, statedb_net(net) AS prefix, statedb_host(net) AS host, statedb_masklen(net) AS bits,
       statedb_family(net) AS family
  FROM route WHERE via = 'new lab';

-- 4. An access list. A network may have several rules, so the index is not unique.

CREATE VIRTUAL TABLE rule USING statedb(net TEXT, port INTEGER, may TEXT, INDEX rule_net (net) USING lpm);
INSERT INTO rule VALUES
    ('10.0.0.0/8', 22, 'yes'), ('10.0.0.0/8', 80, 'yes'), ('10.20.0.0/16', 22, 'no');

-- The longest match is that of the whole table; other conditions come after it. Of port 80 nothing is
-- said in 10.20.0.0/16:

SELECT may FROM rule WHERE statedb_lpm(net, '10.20.1.1') AND port = 80;

-- The longest of the rules for port 80:

SELECT may FROM rule WHERE statedb_covers(net, '10.20.1.1') AND port = 80
 ORDER BY statedb_masklen(net) DESC LIMIT 1;

-- 5. Two lists of networks compared: what of the one lies within the other?

CREATE TABLE blocked(net TEXT);
INSERT INTO blocked VALUES ('10.20.30.0/25'), ('198.51.0.0/16'), ('192.0.2.0/24');
SELECT blocked.net AS blocked, route.net AS within_it, route.via
  FROM blocked LEFT JOIN route ON statedb_within(route.net, blocked.net);
SELECT blocked.net AS blocked, route.net AS lies_in, route.via
  FROM blocked JOIN route ON statedb_lpm(route.net, blocked.net);

-- 6. MAC addresses are given out in blocks of 24, 28 and 36 bits.

CREATE VIRTUAL TABLE maker USING statedb(block TEXT, name TEXT, UNIQUE INDEX by_block (block) USING lpm);
INSERT INTO maker VALUES
    ('70:b3:d5/24', 'IEEE, by 36 bits'), ('70:b3:d5:f2:f0/36', 'Teleplatforms'), ('ac-de-48/24', 'private');
SELECT name FROM maker WHERE statedb_lpm(block, '70b3.d5f2.f123');

-- 7. Any other bits: of a telephone number four for each digit.

CREATE VIRTUAL TABLE rate USING statedb(number, place TEXT, cents INTEGER, UNIQUE INDEX i (number) USING lpm);
INSERT INTO rate VALUES
    ('0x49', 'Germany', 2), ('0x4930', 'Berlin', 1), ('0x4915', 'Germany, mobile', 9), ('0x1', 'USA', 3);
SELECT place, cents FROM rate WHERE statedb_lpm(number, '0x4930123456');
SELECT place, cents FROM rate WHERE statedb_lpm(number, '0x4940123456');

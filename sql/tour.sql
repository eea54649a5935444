.echo on
-- StateDB for SQLite: a guided tour.
--
-- What you see is typed into SQLite's own shell. The data is the Unicode Character Database,
-- 34,924 characters with 15 fields each.

.load ./statedb

-- 1. A table is defined as any other, and its indexes with it. It lives in memory.

CREATE VIRTUAL TABLE uni USING statedb(
    code      TEXT PRIMARY KEY,         -- code point in hexadecimal
    name      TEXT NOT NULL,
    category  TEXT NOT NULL,            -- Lu, Ll: upper- and lowercase letter, Mn: mark ...
    ccc       INTEGER NOT NULL,         -- combining class: where a mark goes
    bidi, decomposition, decimal, digit, numeric, mirrored, old_name, comment,
    upper     TEXT,                     -- the other case's code point
    lower     TEXT,
    title     TEXT,
    INDEX by_name     (name),
    INDEX by_category (category, ccc DESC)
);

.mode ascii
.separator ";" "\n"
.import /usr/share/unicode/UnicodeData.txt uni
.mode box

SELECT count(*) AS characters, count(DISTINCT category) AS categories, min(code), max(name) FROM uni;

-- 2. Lookups: by primary key, by the beginning of a name, by two columns of one index.

SELECT code, name, category FROM uni WHERE code = '1F600';

SELECT code, name FROM uni WHERE name GLOB 'GREEK SMALL LETTER O*' ORDER BY name LIMIT 3;

SELECT code, name FROM uni WHERE name >= 'SNOW' AND name < 'SO';

SELECT code, name FROM uni WHERE category = 'Mn' AND ccc = 228;

-- 3. An index gives its order, in both directions, without sorting.

SELECT code, name FROM uni WHERE name > 'ZERO' ORDER BY name LIMIT 3;

SELECT category, ccc, code, name FROM uni
 WHERE category = 'Mn' AND ccc < 200 AND ccc > 100 ORDER BY ccc DESC LIMIT 4;

SELECT code, name FROM uni WHERE name < 'N' ORDER BY name DESC LIMIT 3;

-- 4. EXPLAIN QUERY PLAN tells which index is used, and for what.

EXPLAIN QUERY PLAN SELECT * FROM uni WHERE code = '1F600';

EXPLAIN QUERY PLAN SELECT * FROM uni WHERE category = 'Mn' AND ccc < 200 ORDER BY ccc DESC;

-- 5. It is SQL: joins, groups, subqueries, windows.

SELECT big.code, big.name, small.code AS lower, small.name AS lower_name
  FROM uni AS big JOIN uni AS small ON small.code = big.lower
 WHERE big.name GLOB 'DESERET CAPITAL LETTER LONG*';

SELECT category, count(*) AS characters, max(ccc) FROM uni
 GROUP BY category ORDER BY characters DESC LIMIT 4;

-- 6. Constraints hold, and say which in SQLite's words.

INSERT INTO uni(code, name, category, ccc) VALUES ('0041', 'ANOTHER A', 'Lu', 0);

INSERT OR IGNORE INTO uni(code, name, category, ccc) VALUES ('0041', 'ANOTHER A', 'Lu', 0);

SELECT changes(), name FROM uni WHERE code = '0041';

-- 7. A transaction is undone as a whole, however much it wrote. Nor does a statement trip over its
--    own changes: this one changes the very key by which it reads.

BEGIN;
UPDATE uni SET name = 'ZZ ' || name WHERE name >= 'A';
SELECT count(*) AS renamed, min(name), max(name) FROM uni WHERE name >= 'ZZ ';
ROLLBACK;
SELECT count(*) AS renamed FROM uni WHERE name >= 'ZZ ';

-- 8. So is a part of one.

BEGIN;
DELETE FROM uni WHERE category = 'Co';
SAVEPOINT letters;
DELETE FROM uni WHERE category IN ('Lu', 'Ll', 'Lt', 'Lm', 'Lo');
SELECT count(*) AS without_letters FROM uni;
ROLLBACK TO letters;
SELECT count(*) AS with_letters FROM uni;
COMMIT;

-- 9. Each row knows which change of its table wrote it. To change a row only if nobody else did:

SELECT _revision, name FROM uni WHERE code = '20BF';
UPDATE uni SET comment = 'currency' WHERE code = '20BF' AND _revision = 7540;
SELECT changes();
UPDATE uni SET comment = 'too late' WHERE code = '20BF' AND _revision = 7540;
SELECT changes();

-- 10. A moment can get a name, whatever the size of the tables. Reading it disturbs nobody.

INSERT INTO statedb_snapshots(name) VALUES ('before');
UPDATE uni SET name = lower(name) WHERE name GLOB 'SNOW*';
DELETE FROM uni WHERE code = '2603';

SELECT count(*) FROM uni WHERE _snapshot = 'before' AND name GLOB 'SNOW*';

SELECT d.op, old.name AS was, new.name AS became
  FROM statedb_diff('uni', 'before') AS d
  LEFT JOIN uni AS old ON old._snapshot = 'before' AND old.rowid = d.id
  LEFT JOIN uni AS new ON new.rowid = d.id
 LIMIT 2;

DELETE FROM statedb_snapshots;

-- 11. A watch is a query. It fires when its answer may have changed, and not for what lies elsewhere.
--     Threads that share a store wait so for each other.

INSERT INTO statedb_watches(name, query)
VALUES ('coins', 'SELECT * FROM uni WHERE name GLOB ''BITCOIN*''');

UPDATE uni SET comment = 'a plane' WHERE name = 'AIRPLANE';
SELECT statedb_wait('coins', 10) AS fired;
UPDATE uni SET comment = 'a coin' WHERE name = 'BITCOIN SIGN';
SELECT statedb_wait('coins', 10) AS fired;

-- 12. A feed is a table of changes: first the rows there are, then what is committed, in order, the
--     deleted rows too. What has been read is acknowledged by DELETE.

CREATE VIRTUAL TABLE news USING statedb_feed(uni);
DELETE FROM news;

UPDATE uni SET comment = 'two changes' WHERE code = '20BF';
UPDATE uni SET comment = 'that come as one' WHERE code = '20BF';
DELETE FROM uni WHERE name = 'AIRPLANE';
SELECT _op, name, comment FROM news;
DROP TABLE news;

-- 13. Indexes for several keys a row, and for the longest prefix of an address.

CREATE VIRTUAL TABLE word USING statedb(
    code TEXT PRIMARY KEY, words TEXT NOT NULL, INDEX by_word (words) USING multi);
INSERT INTO word
SELECT code, '["' || replace(name, ' ', '","') || '"]' FROM uni WHERE name NOT GLOB '<*';

SELECT code, name FROM word JOIN uni USING (code)
 WHERE statedb_has(words, 'SMILING') AND statedb_has(words, 'HORNS');

CREATE VIRTUAL TABLE route USING statedb(net TEXT, via TEXT, INDEX by_net (net) USING lpm);
INSERT INTO route
VALUES ('0.0.0.0/0', 'the world'), ('10.0.0.0/8', 'the house'), ('10.1.0.0/16', 'the lab');

SELECT * FROM route WHERE statedb_lpm(net, '10.1.2.3');

DROP TABLE word;
DROP TABLE route;

-- 14. Memory: what is deleted is free at once. Only what a running SELECT can still see is kept.

SELECT count(*) AS characters, statedb_memory('live') / 1000000 AS megabytes FROM uni;
DELETE FROM uni;
SELECT statedb_memory('live') AS live, statedb_memory('retired') AS retired;

-- 15. And every structure can be checked, at any time.

INSERT INTO uni(uni) VALUES ('integrity-check');

-- That was the tour.

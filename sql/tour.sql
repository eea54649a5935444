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

-- 10. A feed is a table of what has happened since its reader acknowledged: here, two changes.

CREATE VIRTUAL TABLE uni_feed USING statedb_feed(uni);
DELETE FROM uni_feed;
UPDATE uni SET comment = 'yen' WHERE code = '00A5';
DELETE FROM uni WHERE code = 'FFE5';
SELECT _revision, _op, code, name FROM uni_feed;
DROP TABLE uni_feed;

-- 11. Memory: what is deleted is free at once. Only what a running SELECT can still see is kept.

SELECT count(*) AS characters, statedb_memory('live') / 1000000 AS megabytes FROM uni;
DELETE FROM uni;
SELECT statedb_memory('live') AS live, statedb_memory('retired') AS retired;

-- 12. And every structure can be checked, at any time.

INSERT INTO uni(uni) VALUES ('integrity-check');

-- That was the tour.

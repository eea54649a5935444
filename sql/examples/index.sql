.echo on
-- An index in memory over files as they lie on disk: two of the Unicode Character Database, joined
-- by ranges, and a word index of 34,924 names that is built in the moment it is needed.
--
--     sqlite3 <sql/examples/index.sql

.load ./statedb

-- A code point is kept as six hexadecimal digits, so that its text orders as its number.

CREATE VIRTUAL TABLE char USING statedb(
    code TEXT PRIMARY KEY,
    name TEXT NOT NULL
);

CREATE VIRTUAL TABLE block USING statedb(
    first TEXT PRIMARY KEY,
    last  TEXT NOT NULL UNIQUE,
    name  TEXT NOT NULL UNIQUE COLLATE NOCASE
);

-- 1. The files, line by line, go through an ordinary table, and SQL takes them apart.

CREATE TEMP TABLE line(text);
.mode ascii
.separator "\037" "\n"
.import /usr/share/unicode/UnicodeData.txt line

INSERT INTO char
SELECT substr('00000' || substr(text, 1, semicolon - 1), -6),
       substr(rest, 1, instr(rest, ';') - 1)
  FROM (SELECT text, instr(text, ';') AS semicolon, substr(text, instr(text, ';') + 1) AS rest
          FROM line);
DELETE FROM line;

.import /usr/share/unicode/Blocks.txt line

INSERT INTO block
SELECT substr('00000' || substr(text, 1, dots - 1), -6),
       substr('00000' || substr(text, dots + 2, semicolon - dots - 2), -6),
       substr(text, semicolon + 2)
  FROM (SELECT text, instr(text, '..') AS dots, instr(text, ';') AS semicolon FROM line)
 WHERE text GLOB '[0-9A-F]*..*; *';
DROP TABLE line;

.mode box
SELECT (SELECT count(*) FROM char) AS characters, (SELECT count(*) FROM block) AS blocks;

-- 2. Which block is a character in? The one that begins last at or before it: one step in the index.

SELECT first, last, name FROM block WHERE first <= '0020BF' ORDER BY first DESC LIMIT 1;

EXPLAIN QUERY PLAN
SELECT first, last, name FROM block WHERE first <= '0020BF' ORDER BY first DESC LIMIT 1;

-- 3. What is in a block? A join on a range: each block visits its own characters, and no others.

SELECT char.code, char.name
  FROM block JOIN char ON char.code BETWEEN block.first AND block.last
 WHERE block.name = 'currency symbols'
 ORDER BY char.code DESC LIMIT 3;

EXPLAIN QUERY PLAN
SELECT block.name, count(*) FROM block JOIN char ON char.code BETWEEN block.first AND block.last
 GROUP BY block.first;

SELECT block.first, block.name, count(char.code) AS characters
  FROM block LEFT JOIN char ON char.code BETWEEN block.first AND block.last
 GROUP BY block.first
 ORDER BY characters, block.first LIMIT 5;

-- 4. A word index: one row for each word of a name. A unique index over both columns keeps a word
--    that a name has twice from being listed twice.

CREATE VIRTUAL TABLE words USING statedb(
    word TEXT NOT NULL,
    code TEXT NOT NULL,
    PRIMARY KEY (word, code)
);

INSERT OR IGNORE INTO words
WITH RECURSIVE part(code, word, rest) AS (
    SELECT code, NULL, replace(name, '-', ' ') || ' ' FROM char
    UNION ALL
    SELECT code, substr(rest, 1, instr(rest, ' ') - 1), substr(rest, instr(rest, ' ') + 1)
      FROM part WHERE rest <> ''
)
SELECT word, code FROM part WHERE word <> '';

SELECT count(*) AS rows, count(DISTINCT word) AS words FROM words;

-- Names that have both words, and names with a word that begins so:

SELECT char.code, char.name
  FROM words AS a JOIN words AS b USING (code) JOIN char USING (code)
 WHERE a.word = 'HEART' AND b.word = 'ARROW';

SELECT word, count(*) AS names FROM words WHERE word GLOB 'SNOW*' GROUP BY word;

EXPLAIN QUERY PLAN
SELECT char.code, char.name
  FROM words AS a JOIN words AS b USING (code) JOIN char USING (code)
 WHERE a.word = 'HEART' AND b.word = 'ARROW';

INSERT INTO char(char) VALUES ('integrity-check');
INSERT INTO block(block) VALUES ('integrity-check');
INSERT INTO words(words) VALUES ('integrity-check');

.echo on
-- A row under several keys: the words of 34,924 names, the tags of machines, their addresses.
--
--     sqlite3 <sql/examples/tags.sql

.load ./statedb

-- 1. The names of the Unicode Character Database, each with its words as a JSON array. The index has
--    a row once for each word.

CREATE VIRTUAL TABLE char USING statedb(
    code  TEXT PRIMARY KEY,
    name  TEXT NOT NULL,
    words TEXT,
    INDEX by_word (words) USING multi
);

CREATE TEMP TABLE line(text);
.mode ascii
.separator "\037" "\n"
.import /usr/share/unicode/UnicodeData.txt line
.mode box

INSERT INTO char
SELECT code, name, '["' || replace(name, ' ', '","') || '"]'
  FROM (SELECT substr(text, 1, semicolon - 1) AS code,
               substr(rest, 1, instr(rest, ';') - 1) AS name
          FROM (SELECT text, instr(text, ';') AS semicolon,
                       substr(text, instr(text, ';') + 1) AS rest
                  FROM line));
DROP TABLE line;

SELECT code, name FROM char WHERE statedb_has(words, 'ELEPHANT') ORDER BY rowid;

-- 2. Words that begin with something. A row that has two of them is there once.

SELECT code, name FROM char WHERE statedb_has_prefix(words, 'MULTI') ORDER BY rowid;

-- 3. Of two words the rarer one is looked up.

SELECT code, name FROM char WHERE statedb_has(words, 'LETTER') AND statedb_has(words, 'STROKE')
   AND statedb_has(words, 'TURNED') ORDER BY rowid;
EXPLAIN QUERY PLAN SELECT * FROM char WHERE statedb_has(words, ?) AND name > 'M' ORDER BY rowid DESC;

-- 4. Machines and their tags: an array, or an object, of which the names count. Each tag of a table of
--    rules is looked up in turn.

CREATE VIRTUAL TABLE host USING statedb(
    name TEXT PRIMARY KEY,
    tags TEXT,
    load REAL NOT NULL DEFAULT 0,
    INDEX by_tag (tags) USING multi
);
INSERT INTO host(name, tags) VALUES
    ('web1', '["web","blue","eu"]'),
    ('web2', '["web","green","eu"]'),
    ('db1',  '{"db":{"version":15},"blue":true,"us":true}'),
    ('spare', '[]'),
    ('new', NULL);
CREATE TEMP TABLE rule(tag, say);
INSERT INTO rule VALUES ('blue', 'is live'), ('us', 'sleeps now'), ('gold', 'costs more');

SELECT name, say FROM rule JOIN host ON statedb_has(tags, tag) ORDER BY name, say;
EXPLAIN QUERY PLAN SELECT * FROM rule JOIN host ON statedb_has(tags, tag);

-- 5. An UPDATE that leaves the tags alone does not touch the index; one that moves a tag moves it.

UPDATE host SET load = 0.5 WHERE statedb_has(tags, 'web');
UPDATE host SET tags = replace(tags, 'green', 'blue') WHERE statedb_has(tags, 'green');
SELECT name, load FROM host WHERE statedb_has(tags, 'blue') ORDER BY name;

-- 6. What is no JSON is refused by name, and nothing of its statement stays.

INSERT INTO host(name, tags) VALUES ('web3', '["web"]'), ('web4', 'web, blue');
SELECT count(*) AS web3 FROM host WHERE name = 'web3';

-- 7. UNIQUE: an address belongs to one machine, which may have several.

CREATE VIRTUAL TABLE nic USING statedb(host TEXT, ips TEXT, UNIQUE INDEX one_host (ips) USING multi);
INSERT INTO nic VALUES ('web1', '["10.0.0.1","10.0.0.2"]'), ('web2', '["10.0.0.3"]');
INSERT INTO nic VALUES ('web3', '["10.0.0.9","10.0.0.2"]');
SELECT host FROM nic WHERE statedb_has(ips, '10.0.0.2');

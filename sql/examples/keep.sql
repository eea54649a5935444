.echo on
-- Rows live in memory and go with the connection; .dump, .backup and VACUUM INTO do not carry them.
-- How to keep them, and how to have them back.
--
--     sqlite3 <sql/examples/keep.sql
--
-- The two files it makes, kept.sql and kept.db, are removed at the end.

.load ./statedb

CREATE VIRTUAL TABLE host USING statedb(
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    cpu  REAL,
    INDEX by_cpu (cpu DESC)
);

INSERT INTO host(name, cpu) VALUES ('web-1', 0.5), ('web-2', NULL), ('db-1', 0.75);

-- 1. What .dump says is the definition alone:

.dump

-- In its place, the definition and then the rows, written to a file that the shell can read again.
-- (.echo is off meanwhile, or these lines would be in the file too. A table without an INTEGER
-- PRIMARY KEY gets new rowids.)

.echo off
.output kept.sql
.mode list
SELECT sql || ';' FROM sqlite_schema WHERE name = 'host';
.mode insert host
SELECT * FROM host;
.output
.echo on

DROP TABLE host;
.read kept.sql
.mode box
SELECT * FROM host ORDER BY cpu DESC;

-- 2. A copy in a database file, by one statement. It has the columns and the rows, but no keys.

ATTACH 'kept.db' AS kept;
CREATE TABLE kept.quick AS SELECT * FROM main.host;
SELECT name, sql FROM kept.sqlite_schema;

-- With the keys, it is defined first.

CREATE TABLE kept.host(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, cpu REAL);
INSERT INTO kept.host SELECT * FROM main.host;

-- 3. And back: all rows are exchanged in one transaction, or none.

UPDATE kept.host SET cpu = 0.25 WHERE name = 'web-2';

BEGIN;
DELETE FROM main.host;
INSERT INTO main.host SELECT * FROM kept.host;
COMMIT;
SELECT * FROM main.host ORDER BY cpu DESC;

-- 4. What has changed in memory since, and in one transaction into the file.

UPDATE main.host SET cpu = 1 WHERE name = 'db-1';
INSERT INTO main.host(name) VALUES ('db-2');
DELETE FROM main.host WHERE name = 'web-1';

SELECT * FROM main.host EXCEPT SELECT * FROM kept.host;

BEGIN;
DELETE FROM kept.host WHERE id NOT IN (SELECT id FROM main.host);
INSERT OR REPLACE INTO kept.host SELECT * FROM main.host EXCEPT SELECT * FROM kept.host;
COMMIT;
SELECT * FROM kept.host;

DETACH kept;
.shell rm kept.sql kept.db

.echo on
-- Following a table: a copy in an ordinary SQLite table, kept up to date by a feed of what has changed.
--
--     sqlite3 <sql/examples/follow.sql

.load ./statedb

CREATE VIRTUAL TABLE host USING statedb(
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    cpu  REAL
);
INSERT INTO host(name, cpu) VALUES ('web-1', 0.5), ('web-2', 0.1), ('db-1', 0.7);
.mode box

-- 1. A feed is a table of what its reader has not acknowledged: at first all rows.

CREATE VIRTUAL TABLE host_feed USING statedb_feed(host);
SELECT * FROM host_feed;

-- 2. The copy takes what there is, and acknowledges that, in one transaction: up to a revision that is
--    asked for first, because others may go on writing.

CREATE TABLE copy(id INTEGER PRIMARY KEY, name TEXT, cpu REAL);
CREATE TEMP TABLE upto(revision INTEGER);

BEGIN;
INSERT INTO upto SELECT max(_revision) FROM host_feed;
REPLACE INTO copy SELECT id, name, cpu FROM host_feed
 WHERE _op = 'upsert' AND _revision <= (SELECT revision FROM upto);
DELETE FROM copy WHERE id IN (
    SELECT id FROM host_feed WHERE _op = 'delete' AND _revision <= (SELECT revision FROM upto));
DELETE FROM host_feed WHERE _revision <= (SELECT revision FROM upto);
DELETE FROM upto;
COMMIT;

SELECT * FROM copy;
SELECT count(*) AS waiting FROM host_feed;

-- 3. From then on it sees what has been committed since, in the order of the commits: of a row that has
--    changed several times the last content, of one that was deleted what it had been.

UPDATE host SET cpu = 0.9 WHERE name = 'web-2';
DELETE FROM host WHERE name = 'web-1';
UPDATE host SET cpu = 0.2 WHERE name = 'web-2';
INSERT INTO host(name, cpu) VALUES ('db-2', 0.6);
SELECT * FROM host_feed;

-- What is not committed it does not see, and what was rolled back never was.

BEGIN;
DELETE FROM host;
SELECT count(*) AS rows_of_host FROM host;
SELECT count(*) AS waiting FROM host_feed;
ROLLBACK;

-- 4. A trigger makes one statement of the steps above.

CREATE VIEW copy_now AS SELECT 1 AS run;
CREATE TRIGGER copy_now INSTEAD OF INSERT ON copy_now BEGIN
    INSERT INTO copy_upto SELECT max(_revision) FROM host_feed;
    REPLACE INTO copy SELECT id, name, cpu FROM host_feed
     WHERE _op = 'upsert' AND _revision <= (SELECT revision FROM copy_upto);
    DELETE FROM copy WHERE id IN (
        SELECT id FROM host_feed WHERE _op = 'delete' AND _revision <= (SELECT revision FROM copy_upto));
    DELETE FROM host_feed WHERE _revision <= (SELECT revision FROM copy_upto);
    DELETE FROM copy_upto;
END;
CREATE TABLE copy_upto(revision INTEGER);

INSERT INTO copy_now VALUES (1);
SELECT * FROM copy;
SELECT count(*) AS differences FROM (SELECT * FROM host EXCEPT SELECT * FROM copy);

-- 5. A change is acknowledged when all before it are, so that none is lost.

UPDATE host SET cpu = cpu / 2;
DELETE FROM host_feed WHERE name = 'db-2';

-- A transaction that fails takes its acknowledgements back.

BEGIN;
DELETE FROM host_feed;
SELECT count(*) AS waiting FROM host_feed;
ROLLBACK;
SELECT count(*) AS waiting FROM host_feed;

-- 6. Every reader has a feed of its own, and goes at its own pace. Deleted rows are kept until the slowest
--    one has acknowledged them.

CREATE VIRTUAL TABLE audit USING statedb_feed(host);
DELETE FROM host WHERE name LIKE 'db%';
INSERT INTO copy_now VALUES (1);
SELECT name, acknowledged, revision, rows, deletions FROM statedb_feeds;

-- One that nobody reads any more is ended here, with what it keeps; DROP TABLE ends it too.

DELETE FROM statedb_feeds WHERE name = 'audit';
SELECT name, deletions FROM statedb_feeds;
SELECT * FROM audit;

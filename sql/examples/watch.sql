.echo on
-- Waiting for changes of what a query returns: as fine as the indexes that it uses.
--
--     sqlite3 <sql/examples/watch.sql

.load ./statedb

CREATE VIRTUAL TABLE route USING statedb(
    net TEXT NOT NULL,
    via TEXT,
    UNIQUE INDEX by_net (net) USING lpm
);
INSERT INTO route VALUES ('0.0.0.0/0', 'uplink'), ('10.0.0.0/8', 'core'), ('10.1.0.0/16', 'east');

CREATE VIRTUAL TABLE host USING statedb(
    name TEXT PRIMARY KEY,
    ip   TEXT,
    tags TEXT,
    INDEX by_tag (tags) USING multi
);
INSERT INTO host VALUES ('web-1', '10.1.2.3', '["web","live"]'), ('db-1', '10.2.0.9', '["db"]');
.mode box

-- 1. Watches are rows: a name and a query, whatever it is.

INSERT INTO statedb_watches(name, query) VALUES
    ('way',  'SELECT via FROM route WHERE statedb_lpm(net, ''10.1.2.3'')'),
    ('live', 'SELECT name FROM host WHERE statedb_has(tags, ''live'')'),
    ('ways', 'SELECT name, via FROM host JOIN route ON statedb_lpm(net, ip) WHERE statedb_has(tags, ''live'')'),
    ('all',  'SELECT count(*) FROM route');
SELECT name, fired, ranges FROM statedb_watches;

-- 2. Another connection would do this. A shorter route changes nothing for 10.1.2.3; who counts routes
--    is told.

INSERT INTO route VALUES ('10.0.0.0/12', 'west');
SELECT name, statedb_wait(name, 0) AS has_changed FROM statedb_watches;

-- 3. A longer one does, for all who asked for that address; in a transaction, when that is committed.

BEGIN;
INSERT INTO route VALUES ('10.1.2.0/24', 'rack');
INSERT INTO route VALUES ('10.9.9.0/24', 'elsewhere');
COMMIT;
SELECT statedb_wait(NULL, 1000) AS has_changed;
SELECT group_concat(name) AS fired FROM statedb_watches WHERE fired;
SELECT name, via FROM host JOIN route ON statedb_lpm(net, ip) WHERE statedb_has(tags, 'live');

-- 4. A join reads other rows after a change, and is watched where it reads then.

UPDATE host SET tags = '["db","live"]' WHERE name = 'db-1';
SELECT name, statedb_wait(name, 0) AS has_changed FROM statedb_watches;
INSERT INTO route VALUES ('10.2.0.0/16', 'south');
SELECT name, statedb_wait(name, 0) AS has_changed FROM statedb_watches;

-- 5. Nothing more: a wait takes its time.

SELECT statedb_wait(NULL, 10) AS has_changed;

-- 6. What cannot be watched is said.

INSERT INTO statedb_watches(name, query) VALUES ('own', 'SELECT * FROM sqlite_schema');
INSERT INTO statedb_watches(name, query) VALUES ('two', 'SELECT * FROM host; SELECT * FROM route');
BEGIN;
SELECT statedb_wait('all', 1000);
ROLLBACK;
DROP TABLE route;
SELECT statedb_wait('all', 0) AS has_changed;
SELECT statedb_wait('all', 0) AS has_changed;

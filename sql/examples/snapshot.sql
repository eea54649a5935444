.echo on
-- What a statement sees while it writes, and what a savepoint brings back.
--
--     sqlite3 <sql/examples/snapshot.sql

.load ./statedb

CREATE VIRTUAL TABLE stock USING statedb(
    item  TEXT PRIMARY KEY,
    shelf INTEGER NOT NULL,
    n     INTEGER NOT NULL DEFAULT 0,
    INDEX by_n (n)
);

INSERT INTO stock VALUES ('bolt', 1, 5), ('nut', 1, 7), ('pin', 2, 9), ('washer', 2, 20);
.mode box

-- 1. A statement reads the table as it was when the statement began. This one walks by_n upwards and
--    moves each row ahead of itself; it meets each row once.

UPDATE stock SET n = n + 10 WHERE n > 5;
SELECT changes();
SELECT * FROM stock ORDER BY n;

-- This one reads the table that it fills.

INSERT INTO stock SELECT item || ', box of 100', shelf + 10, n / 10 FROM stock;
SELECT * FROM stock ORDER BY n;

-- And here each row is compared with its neighbours on the shelf, those already deleted included:
-- only the fullest place of each shelf remains.

DELETE FROM stock
 WHERE EXISTS (SELECT 1 FROM stock AS other WHERE other.shelf = stock.shelf AND other.n > stock.n);
SELECT * FROM stock ORDER BY shelf;

-- 2. A statement that fails leaves nothing behind, whatever it had done before it failed. OR FAIL
--    keeps that, OR IGNORE goes on, OR REPLACE gives way to the new row.

INSERT INTO stock VALUES ('screw', 3, 1), ('nail', 3, 2), ('nut', 3, 3);
SELECT count(*) FROM stock;
INSERT OR FAIL INTO stock VALUES ('screw', 3, 1), ('nut', 3, 3), ('nail', 3, 2);
SELECT count(*) FROM stock;
INSERT OR IGNORE INTO stock VALUES ('nut', 3, 3), ('nail', 3, 2);
INSERT OR REPLACE INTO stock VALUES ('nut', 3, 3);
SELECT * FROM stock WHERE shelf < 10 ORDER BY item;

-- 3. Savepoints nest; each brings back all that was written after it.

BEGIN;
UPDATE stock SET n = 0;
SAVEPOINT a;
DELETE FROM stock WHERE shelf = 3;
SAVEPOINT b;
DELETE FROM stock;
SELECT count(*) AS after_b FROM stock;
ROLLBACK TO b;
SELECT count(*) AS at_b FROM stock;
ROLLBACK TO a;
SELECT count(*) AS at_a, sum(n) FROM stock;
RELEASE a;
ROLLBACK;
SELECT count(*), sum(n) FROM stock;

-- Tables come and go with their transaction too.

BEGIN;
CREATE VIRTUAL TABLE archive USING statedb(item TEXT PRIMARY KEY, n INTEGER);
INSERT INTO archive SELECT item, n FROM stock;
DROP TABLE stock;
ALTER TABLE archive RENAME TO stock;
SELECT max(n) AS renamed FROM stock;
ROLLBACK;
SELECT item, shelf FROM stock ORDER BY n DESC LIMIT 1;
SELECT count(*) AS archives FROM pragma_table_list WHERE name = 'archive';

-- 4. Nothing of it is left in memory, and all is in order.

SELECT statedb_memory('retired') AS retired;
INSERT INTO stock(stock) VALUES ('integrity-check');

"""fleet.py - a store shared by the threads of a Python program.

    python3 fleet.py STATEDB    prints fleet.out, as do the other programs here
"""
import sqlite3
import sys
import threading

HOSTS, MOVES = 10, 2000


def connect():
    # No timeout: whoever had to wait would fail at once.
    db = sqlite3.connect(":memory:", timeout=0, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(sys.argv[1])
    db.enable_load_extension(False)
    return db


def value(db, sql, *parameters):
    return db.execute(sql, parameters).fetchone()[0]


def move(db, source, target):
    db.execute("BEGIN")
    db.execute("UPDATE host SET guests = guests - 1 WHERE id = ?", (source,))
    db.execute("UPDATE host SET guests = guests + 1 WHERE id = ?", (target,))
    db.execute("UPDATE moved SET n = n + 1")
    db.execute("COMMIT")


db = connect()
db.execute("""CREATE VIRTUAL TABLE temp.host USING statedb(
                  id INTEGER PRIMARY KEY, net TEXT NOT NULL, guests INTEGER NOT NULL,
                  INDEX by_net(net) USING lpm, store='fleet')""")
db.execute("CREATE VIRTUAL TABLE temp.moved USING statedb(n INTEGER NOT NULL, store='fleet')")
db.executemany("INSERT INTO host VALUES (?, ?, 100)",
               [(i, f"10.{i}.0.0/16") for i in range(1, HOSTS + 1)])
db.execute("INSERT INTO moved VALUES (0)")

# Another connection joins the tables, and is not in the way of the first, nor that of this one.
other = connect()
print("tables joined:", value(other, "SELECT statedb_attach('fleet')"))
db.execute("BEGIN")
db.execute("UPDATE host SET guests = 0 WHERE id = 1")
print("seen while the other writes:", value(other, "SELECT guests FROM host WHERE id = 1"))
db.execute("ROLLBACK")

# One thread moves guests from host to host; two see what is the same before and after each move.
sums = set()
faults = []
done = threading.Event()


def write():
    own = connect()
    own.execute("SELECT statedb_attach('fleet')")
    for i in range(MOVES):
        move(own, i % HOSTS + 1, i * 7 % HOSTS + 1)


def read():
    own = connect()
    own.execute("SELECT statedb_attach('fleet')")
    while not done.is_set():
        sums.add(value(own, "SELECT sum(guests) FROM host"))


def guard(work, *at_end):
    try:
        work()
    except Exception as e:
        faults.append(e)
    for f in at_end:
        f()


threads = [threading.Thread(target=guard, args=(read,)) for _ in range(2)]
threads.append(threading.Thread(target=guard, args=(write, done.set)))
for t in threads:
    t.start()
for t in threads:
    t.join()
for e in faults:
    sys.exit(f"{type(e).__name__}: {e}")
print("sums seen:", *sorted(sums))
print("moves seen:", value(db, "SELECT n FROM moved"))
print("net of 10.2.3.4:", value(db, "SELECT net FROM host WHERE statedb_lpm(net, ?)", "10.2.3.4"))

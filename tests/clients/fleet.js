// fleet.js - a store shared by the worker threads of a Node program, with better-sqlite3.
//
//     node fleet.js STATEDB    prints fleet.out, as do the other programs here
"use strict";
const Database = require("better-sqlite3");
const { Worker, isMainThread, parentPort, workerData } = require("node:worker_threads");

const HOSTS = 10, MOVES = 2000;

function connect(path) {
    // No timeout: whoever had to wait would fail at once.
    return new Database(":memory:", { timeout: 0 }).loadExtension(path);
}

const value = (db, sql, ...parameters) => db.prepare(sql).pluck().get(...parameters);

function write(db) {
    const give = db.prepare("UPDATE host SET guests = guests - 1 WHERE id = ?");
    const take = db.prepare("UPDATE host SET guests = guests + 1 WHERE id = ?");
    const count = db.prepare("UPDATE moved SET n = n + 1");
    const move = db.transaction((source, target) => {
        give.run(source);
        take.run(target);
        count.run();
    });
    for (let i = 0; i < MOVES; i++) move((i % HOSTS) + 1, ((i * 7) % HOSTS) + 1);
}

function read(db) {
    const sum = db.prepare("SELECT sum(guests) FROM host").pluck();
    const moved = db.prepare("SELECT n FROM moved").pluck();
    const sums = new Set();
    do sums.add(sum.get());
    while (moved.get() < MOVES);
    return sums;
}

function worker({ path, role }) {
    const db = connect(path);
    value(db, "SELECT statedb_attach('fleet')");
    parentPort.postMessage(role === "write" ? write(db) : read(db));
}

const start = (path, role) =>
    new Promise((resolve, reject) => {
        const w = new Worker(__filename, { workerData: { path, role } });
        w.on("message", resolve);
        w.on("error", reject);
    });

async function main(path) {
    const db = connect(path);
    db.exec(`CREATE VIRTUAL TABLE temp.host USING statedb(
                 id INTEGER PRIMARY KEY, net TEXT NOT NULL, guests INTEGER NOT NULL,
                 INDEX by_net(net) USING lpm, store='fleet');
             CREATE VIRTUAL TABLE temp.moved USING statedb(n INTEGER NOT NULL, store='fleet');
             INSERT INTO moved VALUES (0)`);
    const insert = db.prepare("INSERT INTO host VALUES (?, ?, 100)");
    for (let i = 1; i <= HOSTS; i++) insert.run(i, `10.${i}.0.0/16`);

    // Another connection joins the tables, and is not in the way of the first, nor that of this one.
    const other = connect(path);
    console.log("tables joined:", value(other, "SELECT statedb_attach('fleet')"));
    db.exec("BEGIN; UPDATE host SET guests = 0 WHERE id = 1");
    console.log("seen while the other writes:", value(other, "SELECT guests FROM host WHERE id = 1"));
    db.exec("ROLLBACK");

    // One worker moves guests from host to host; two see what is the same before and after each move.
    const [, a, b] = await Promise.all(["write", "read", "read"].map((role) => start(path, role)));
    console.log("sums seen:", ...new Set([...a, ...b]));
    console.log("moves seen:", value(db, "SELECT n FROM moved"));
    console.log("net of 10.2.3.4:", value(db, "SELECT net FROM host WHERE statedb_lpm(net, ?)", "10.2.3.4"));
}

if (isMainThread) main(process.argv[2]);
else worker(workerData);

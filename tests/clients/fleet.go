// fleet.go - a store shared by the goroutines of a Go program, with mattn/go-sqlite3: each connection
// of the pool joins it when it is opened.
//
//	fleet STATEDB    prints fleet.out, as do the other programs here
package main

import (
	"database/sql"
	"fmt"
	"log"
	"os"
	"sync"

	"github.com/mattn/go-sqlite3"
)

const hosts, moves = 10, 2000

const schema = `
CREATE VIRTUAL TABLE temp.host USING statedb(
    id INTEGER PRIMARY KEY, net TEXT NOT NULL, guests INTEGER NOT NULL,
    INDEX by_net(net) USING lpm, store='fleet');
CREATE VIRTUAL TABLE temp.moved USING statedb(n INTEGER NOT NULL, store='fleet');`

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

type querier interface {
	QueryRow(query string, args ...any) *sql.Row
}

func value[T any](q querier, query string, args ...any) (v T) {
	must(q.QueryRow(query, args...).Scan(&v))
	return v
}

func exec(q interface {
	Exec(query string, args ...any) (sql.Result, error)
}, query string, args ...any) {
	_, err := q.Exec(query, args...)
	must(err)
}

func move(db *sql.DB, source, target int) {
	tx, err := db.Begin()
	must(err)
	exec(tx, "UPDATE host SET guests = guests - 1 WHERE id = ?", source)
	exec(tx, "UPDATE host SET guests = guests + 1 WHERE id = ?", target)
	exec(tx, "UPDATE moved SET n = n + 1")
	must(tx.Commit())
}

func main() {
	path := os.Args[1]
	sql.Register("plain", &sqlite3.SQLiteDriver{Extensions: []string{path}})
	sql.Register("fleet", &sqlite3.SQLiteDriver{
		Extensions: []string{path},
		ConnectHook: func(c *sqlite3.SQLiteConn) error {
			_, err := c.Exec("SELECT statedb_attach('fleet')", nil)
			return err
		},
	})
	// No timeout: whoever had to wait would fail at once.
	const dsn = "file::memory:?_busy_timeout=0"

	// One connection that stays: a store lives as long as one that has named it.
	first, err := sql.Open("plain", dsn)
	must(err)
	first.SetMaxOpenConns(1)
	exec(first, schema)
	exec(first, "INSERT INTO moved VALUES (0)")
	for i := 1; i <= hosts; i++ {
		exec(first, "INSERT INTO host VALUES (?, ?, 100)", i, fmt.Sprintf("10.%d.0.0/16", i))
	}

	// Another connection joins the tables, and is not in the way of the first, nor that of this one.
	other, err := sql.Open("plain", dsn)
	must(err)
	other.SetMaxOpenConns(1)
	fmt.Println("tables joined:", value[int](other, "SELECT statedb_attach('fleet')"))
	tx, err := first.Begin()
	must(err)
	exec(tx, "UPDATE host SET guests = 0 WHERE id = 1")
	fmt.Println("seen while the other writes:", value[int](other, "SELECT guests FROM host WHERE id = 1"))
	must(tx.Rollback())

	// One goroutine moves guests from host to host; two see what is the same before and after each
	// move. They have the connections from a pool.
	db, err := sql.Open("fleet", dsn)
	must(err)
	var wait sync.WaitGroup
	done := make(chan bool)
	sums := make([]map[int]bool, 2)
	for i := range sums {
		seen := map[int]bool{}
		sums[i] = seen
		wait.Add(1)
		go func() {
			defer wait.Done()
			for {
				seen[value[int](db, "SELECT sum(guests) FROM host")] = true
				select {
				case <-done:
					return
				default:
				}
			}
		}()
	}
	for i := 0; i < moves; i++ {
		move(db, i%hosts+1, i*7%hosts+1)
	}
	close(done)
	wait.Wait()
	for sum := range sums[1] {
		sums[0][sum] = true
	}
	fmt.Print("sums seen:")
	for sum := range sums[0] {
		fmt.Print(" ", sum)
	}
	fmt.Println("\nmoves seen:", value[int](db, "SELECT n FROM moved"))
	fmt.Println("net of 10.2.3.4:", value[string](db, "SELECT net FROM host WHERE statedb_lpm(net, ?)", "10.2.3.4"))
}

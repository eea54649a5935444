package main

import (
	"fmt"
	"math/rand"
	"net/netip"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/cilium/statedb/part"
)

// StateDB's own benchmarks of tables. Where these insert the same keys again and again, which makes
// replaces of the inserts, a row named _fresh inserts ever new keys into a growing table.

const (
	few  = 1000
	many = 100000
)

type object struct {
	ID     uint64
	Key    string
	Prefix netip.Prefix
	Tags   part.Set[string]
}

func (o *object) TableHeader() []string { return []string{"ID"} }
func (o *object) TableRow() []string    { return []string{fmt.Sprint(o.ID)} }

func (o *object) clone() *object {
	c := *o
	return &c
}

var byID = statedb.Index[*object, uint64]{
	Name:       "id",
	FromObject: func(o *object) index.KeySet { return index.NewKeySet(index.Uint64(o.ID)) },
	FromKey:    index.Uint64,
	Unique:     true,
}

var byKey = statedb.Index[*object, string]{
	Name:       "key",
	FromObject: func(o *object) index.KeySet { return index.NewKeySet(index.String(o.Key)) },
	FromKey:    index.String,
	Unique:     true,
}

var byTag = statedb.Index[*object, string]{
	Name:       "tags",
	FromObject: func(o *object) index.KeySet { return index.Set(o.Tags) },
	FromKey:    index.String,
}

type table struct {
	db *statedb.DB
	statedb.RWTable[*object]
}

// The names of the tables of a store are their numbers; the last of them is returned.
func open(tables int, indexes ...statedb.Indexer[*object]) table {
	t := table{db: statedb.New(statedb.WithMetrics(&statedb.NopMetrics{}))}
	for i := range tables {
		var err error
		t.RWTable, err = statedb.NewTable(t.db, fmt.Sprintf("t%d", i), byID, indexes...)
		check(err)
	}
	return t
}

func (t table) insert(txn statedb.WriteTxn, o *object) {
	_, _, err := t.Insert(txn, o)
	check(err)
}

// fill inserts rows 0..n-1 in one transaction.
func (t table) fill(n int, of func(id uint64) *object) table {
	txn := t.db.WriteTxn(t.RWTable)
	for id := range uint64(n) {
		t.insert(txn, of(id))
	}
	txn.Commit()
	return t
}

func plain(id uint64) *object { return &object{ID: id} }

var testTag = part.NewSet("test")

func tagged(id uint64) *object { return &object{ID: id, Tags: testTag} }

func parity(id uint64) *object {
	tag := "odd"
	if id%2 == 0 {
		tag = "even"
	}
	return &object{ID: id, Tags: part.NewSet(tag)}
}

func withKey(id uint64) *object { return &object{ID: id, Key: fmt.Sprint(id)} }

func ids(n int, shuffled bool) []uint64 {
	v := make([]uint64, n)
	for i := range v {
		v[i] = uint64(i)
	}
	if shuffled {
		rand.Shuffle(n, func(i, j int) { v[i], v[j] = v[j], v[i] })
	}
	return v
}

// writes replaces the rows of `order`, one transaction an iteration.
func writes(t table, order []uint64, of func(uint64) *object) func(int) {
	return func(n int) {
		for range n {
			txn := t.db.WriteTxn(t.RWTable)
			for _, id := range order {
				t.insert(txn, of(id))
			}
			txn.Commit()
		}
	}
}

// fresh fills an empty table with the rows of `order` in transactions of `batch`.
func fresh(batch int, shuffled bool, of func(uint64) *object,
	indexes ...statedb.Indexer[*object]) func() func(int) {
	return func() func(int) {
		order := ids(many, shuffled)
		return func(n int) {
			for range n {
				t := open(1, indexes...)
				for at := 0; at < many; at += batch {
					txn := t.db.WriteTxn(t.RWTable)
					for _, id := range order[at : at+batch] {
						t.insert(txn, of(id))
					}
					txn.Commit()
				}
			}
		}
	}
}

func writeTxn(batch int) func() func(int) {
	return func() func(int) { return writes(open(1), ids(batch, false), plain) }
}

func commitOnly(tables int) func() func(int) {
	return func() func(int) {
		t := open(tables, byTag)
		return func(n int) {
			for range n {
				t.db.WriteTxn(t.RWTable).Commit()
			}
		}
	}
}

// update runs `one` for each of a thousand rows in random order, one transaction an iteration.
func update(one func(t table, txn statedb.WriteTxn, id uint64)) func() func(int) {
	return func() func(int) {
		t := open(1).fill(few, plain)
		order := ids(few, true)
		return func(n int) {
			for range n {
				txn := t.db.WriteTxn(t.RWTable)
				for _, id := range order {
					one(t, txn, id)
				}
				txn.Commit()
			}
		}
	}
}

func modify(t table, txn statedb.WriteTxn, id uint64) {
	t.Modify(txn, &object{ID: id}, func(_, now *object) *object { return now })
}

func getInsert(t table, txn statedb.WriteTxn, id uint64) {
	old, _, _ := t.Get(txn, byID.Query(id))
	t.insert(txn, old.clone())
}

func listInsert(t table, txn statedb.WriteTxn, id uint64) {
	for old := range t.List(txn, byID.Query(id)) {
		t.insert(txn, old.clone())
	}
}

func insertPrefix() func(int) {
	t := open(1)
	return func(n int) {
		for range n {
			txn := t.db.WriteTxn(t.RWTable)
			for id := range uint64(few) {
				t.insert(txn, plain(id))
				for range 5 {
					for range t.Prefix(txn, byID.Query(id)) {
						break
					}
				}
			}
			must(t.NumObjects(txn) == few)
			txn.Abort()
		}
	}
}

func changesBaseline() func(int) {
	t := open(1)
	return func(n int) {
		for range n {
			t.fill(few, plain)
			txn := t.db.WriteTxn(t.RWTable)
			check(t.DeleteAll(txn))
			txn.Commit()
		}
	}
}

func changes() func(int) {
	t := open(1)
	check(t.db.Start()) // its worker empties the graveyard
	txn := t.db.WriteTxn(t.RWTable)
	feed, err := t.Changes(txn)
	check(err)
	txn.Commit()
	take := func(deleted bool) <-chan struct{} {
		seq, watch := feed.Next(t.db.ReadTxn())
		seen := 0
		for change := range seq {
			must(change.Deleted == deleted)
			seen++
		}
		must(seen == few)
		return watch
	}
	return func(n int) {
		for range n {
			t.fill(few, plain)
			watch := take(false)
			txn := t.db.WriteTxn(t.RWTable)
			check(t.DeleteAll(txn))
			txn.Commit()
			<-watch
			take(true)
		}
	}
}

func queries[K any](order []uint64, query func(uint64) statedb.Query[K]) []statedb.Query[K] {
	v := make([]statedb.Query[K], len(order))
	for i, id := range order {
		v[i] = query(id)
	}
	return v
}

func queryID(id uint64) statedb.Query[*object]  { return byID.Query(id) }
func queryKey(id uint64) statedb.Query[*object] { return byKey.Query(fmt.Sprint(id)) }

// When a read transaction is begun.
const (
	once = iota
	eachLoop
	eachGet
)

func gets(rows int, shuffled bool, begin int, of func(uint64) *object,
	query func(uint64) statedb.Query[*object],
	indexes ...statedb.Indexer[*object]) func() func(int) {
	return func() func(int) {
		t := open(1, indexes...).fill(rows, of)
		all := queries(ids(rows, shuffled), query)
		return func(n int) {
			txn := t.db.ReadTxn()
			for range n {
				if begin == eachLoop {
					txn = t.db.ReadTxn()
				}
				for _, q := range all {
					if begin == eachGet {
						txn = t.db.ReadTxn()
					}
					_, _, ok := t.Get(txn, q)
					must(ok)
				}
			}
		}
	}
}

func iterateTag(bound bool) func() func(int) {
	return func() func(int) {
		t := open(1, byTag).fill(few, tagged)
		txn := t.db.ReadTxn()
		return func(n int) {
			for range n {
				seq := t.Prefix(txn, byTag.Query("test"))
				if bound {
					seq = t.LowerBound(txn, byTag.Query("t"))
				}
				count := 0
				for range seq {
					count++
				}
				must(count == few)
			}
		}
	}
}

func iterateAll(prefix bool) func() func(int) {
	return func() func(int) {
		t := open(1).fill(many, plain)
		return func(n int) {
			for range n {
				txn := t.db.ReadTxn()
				seq := t.All(txn)
				if prefix {
					seq = t.Prefix(txn, byID.QueryFromKey(nil))
				}
				id := uint64(0)
				for o := range seq {
					must(o.ID == id)
					id++
				}
				must(id == many)
			}
		}
	}
}

// propagate passes batches of ten rows from one table on to another, as its watch fires.
func propagate() func(int) {
	const batch = 10
	db := statedb.New()
	check(db.Start())
	from, err := statedb.NewTable(db, "from", byID)
	check(err)
	to, err := statedb.NewTable(db, "to", byID)
	check(err)
	ready := make(chan struct{})
	close(ready)
	var fired <-chan struct{} = ready
	revision := statedb.Revision(0)
	return func(n int) {
		for range n {
			wtxn := db.WriteTxn(from)
			for id := range uint64(batch) {
				from.Insert(wtxn, plain(id))
			}
			wtxn.Commit()
			<-fired
			txn := db.ReadTxn()
			_, done := to.AllWatch(txn)
			seq, next := from.LowerBoundWatch(txn, statedb.ByRevision[*object](revision))
			fired = next
			wtxn = db.WriteTxn(to)
			for o := range seq {
				to.Insert(wtxn, o.clone())
			}
			wtxn.Commit()
			revision = from.Revision(txn)
			<-done
		}
	}
}

var tableRows = []row{
	{name: "WriteTxn_1", per: 1, make: func() func(int) {
		return writes(open(1), []uint64{123}, plain)
	}},
	{name: "WriteTxn_10", per: 10, make: writeTxn(10)},
	{name: "WriteTxn_100", per: 100, make: writeTxn(100)},
	{name: "WriteTxn_1000", per: 1000, make: writeTxn(1000)},
	{name: "WriteTxn_1_fresh", per: many, make: fresh(1, false, plain)},
	{name: "WriteTxn_10_fresh", per: many, make: fresh(10, false, plain)},
	{name: "WriteTxn_100_fresh", per: many, make: fresh(100, false, plain)},
	{name: "WriteTxn_1000_fresh", per: many, make: fresh(1000, false, plain)},
	{name: "WriteTxn_100_SecondaryIndex", per: 100, make: func() func(int) {
		return writes(open(1, byTag), ids(100, false), tagged)
	}},
	{name: "WriteTxn_100_SecondaryIndex_fresh", per: many, make: fresh(100, false, tagged, byTag)},
	{name: "WriteTxn_CommitOnly_100Tables", per: 1, make: commitOnly(100)},
	{name: "WriteTxn_CommitOnly_1Table", per: 1, make: commitOnly(1)},
	{name: "NewWriteTxn", per: 1, make: func() func(int) {
		t := open(1, byTag)
		return func(n int) {
			for range n {
				t.db.WriteTxn(t.RWTable).Abort()
			}
		}
	}},
	{name: "WriteTxnCommit100", per: 1, make: func() func(int) {
		t := open(100)
		return func(n int) {
			for range n {
				t.db.WriteTxn(t.RWTable).Commit()
			}
		}
	}},
	{name: "NewReadTxn", per: 1, make: func() func(int) {
		t := open(1, byTag)
		return func(n int) {
			for range n {
				must(t.db.ReadTxn() != nil)
			}
		}
	}},
	{name: "Modify", per: few, make: update(modify)},
	{name: "GetInsert", per: few, make: update(getInsert)},
	{name: "ListInsert", per: few, make: update(listInsert)},
	{name: "RandomInsert", per: few, make: func() func(int) {
		return writes(open(1), ids(few, true), plain)
	}},
	{name: "RandomInsert_fresh", per: many, make: fresh(few, true, plain)},
	{name: "RandomReplace", per: few, make: func() func(int) {
		return writes(open(1, byTag).fill(few, parity), ids(few, true), parity)
	}},
	{name: "SequentialInsert", per: few, make: func() func(int) {
		return writes(open(1), ids(few, false), plain)
	}},
	{name: "SequentialInsert_Prefix", per: few, make: insertPrefix},
	{name: "Changes_Baseline", per: few, make: changesBaseline},
	{name: "Changes", per: few, make: changes},
	{name: "RandomLookup", per: few, make: gets(few, true, eachLoop, plain, queryID)},
	{name: "SequentialLookup", per: few, make: gets(few, false, once, plain, queryID)},
	{name: "Prefix_SecondaryIndex", per: few, make: iterateTag(false)},
	{name: "LowerBound_SecondaryIndex", per: few, make: iterateTag(true)},
	{name: "FullIteration_All", per: many, make: iterateAll(false)},
	{name: "FullIteration_Prefix", per: many, make: iterateAll(true)},
	{name: "FullIteration_Get", per: many, make: gets(many, false, once, plain, queryID)},
	{name: "FullIteration_Get_Secondary", per: many,
		make: gets(many, false, once, withKey, queryKey, byKey)},
	{name: "FullIteration_ReadTxnGet", per: many, make: gets(many, false, eachGet, plain, queryID)},
	{name: "PropagationDelay", per: 10, make: propagate},
}

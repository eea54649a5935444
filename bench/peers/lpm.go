package main

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"iter"
	"math/rand"
	"net/netip"
	"os"
	"runtime"
	"sync"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/cilium/statedb/lpm"
)

// The benchmarks of longest-prefix matching: of tables with such indexes, of the trie alone, and of the
// trie with the routing table of the Internet.

type route struct {
	ID     uint16
	Prefix netip.Prefix
	Port   uint16
	Bits   lpm.PrefixLen // of Port
}

func (r route) TableHeader() []string { return []string{"ID"} }
func (r route) TableRow() []string    { return []string{fmt.Sprint(r.ID)} }

var byRouteID = statedb.Index[route, uint16]{
	Name:       "id",
	FromObject: func(r route) index.KeySet { return index.NewKeySet(index.Uint16(r.ID)) },
	FromKey:    index.Uint16,
	Unique:     true,
}

var byPrefix = statedb.NetIPPrefixIndex[route]{
	Name:       "prefix",
	FromObject: func(r route) iter.Seq[netip.Prefix] { return statedb.Just(r.Prefix) },
	Unique:     true,
}

var byPort = statedb.LPMIndex[route]{
	Name: "port",
	FromObject: func(r route) iter.Seq2[[]byte, lpm.PrefixLen] {
		return statedb.Just2(binary.BigEndian.AppendUint16(nil, r.Port), r.Bits)
	},
	Unique: true,
}

func openRoutes() (*statedb.DB, statedb.RWTable[route]) {
	db := statedb.New()
	t, err := statedb.NewTable(db, "routes", byRouteID, byPrefix, byPort)
	check(err)
	return db, t
}

// hosts are n addresses as /32, written from the front (deep tries, spread) or from the back.
func hosts(n int, order binary.AppendByteOrder) []netip.Prefix {
	v := make([]netip.Prefix, n)
	for i := range v {
		addr, _ := netip.AddrFromSlice(order.AppendUint32(nil, uint32(i)))
		v[i] = netip.PrefixFrom(addr, 32)
	}
	return v
}

func insertRoutes(db *statedb.DB, t statedb.RWTable[route], first int, prefixes []netip.Prefix) {
	txn := db.WriteTxn(t)
	for i, p := range prefixes {
		_, _, err := t.Insert(txn, route{ID: uint16(first + i), Prefix: p})
		check(err)
	}
	txn.Commit()
}

func writeTxn100LPM() func(int) {
	db, t := openRoutes()
	prefixes := hosts(100, binary.BigEndian)
	return func(n int) {
		for range n {
			insertRoutes(db, t, 0, prefixes)
		}
	}
}

const manyRoutes = 10000

// writeTxn1LPM fills an empty table, one row a transaction.
func writeTxn1LPM() func(int) {
	prefixes := hosts(manyRoutes, binary.LittleEndian)
	return func(n int) {
		for range n {
			db, t := openRoutes()
			for i := range prefixes {
				insertRoutes(db, t, i, prefixes[i:i+1])
			}
		}
	}
}

func lpmIndexGet() func(int) {
	db, t := openRoutes()
	prefixes := hosts(manyRoutes, binary.BigEndian)
	insertRoutes(db, t, 0, prefixes)
	txn := db.ReadTxn()
	all := make([]statedb.Query[route], len(prefixes))
	for i, p := range prefixes {
		all[i] = byPrefix.Query(p.Addr())
	}
	return func(n int) {
		for range n {
			for _, q := range all {
				_, _, ok := t.Get(txn, q)
				must(ok)
			}
		}
	}
}

// trie holds the prefixes, each with its number.
func trie(prefixes []netip.Prefix) (lpm.Trie[int], []index.Key) {
	l := lpm.New[int]()
	keys := make([]index.Key, len(prefixes))
	txn := l.Txn()
	for i, p := range prefixes {
		keys[i] = lpm.NetIPPrefixToIndexKey(p)
		check(txn.Insert(keys[i], i))
	}
	return txn.Commit(), keys
}

func lpmInsert(batch int) func() func(int) {
	return func() func(int) {
		l := lpm.New[int]()
		prefixes := hosts(few, binary.LittleEndian)
		return func(n int) {
			for range n {
				for at := 0; at < few; at += batch {
					txn := l.Txn()
					for i, p := range prefixes[at : at+batch] {
						check(txn.Insert(lpm.NetIPPrefixToIndexKey(p), at+i))
					}
					l = txn.Commit()
				}
			}
		}
	}
}

// lpmFresh fills an empty trie.
func lpmFresh(batch int) func() func(int) {
	return func() func(int) {
		prefixes := hosts(few, binary.LittleEndian)
		return func(n int) {
			for range n {
				l := lpm.New[int]()
				for at := 0; at < few; at += batch {
					txn := l.Txn()
					for i, p := range prefixes[at : at+batch] {
						check(txn.Insert(lpm.NetIPPrefixToIndexKey(p), at+i))
					}
					l = txn.Commit()
				}
			}
		}
	}
}

func lpmDelete(batch int, commit bool) func() func(int) {
	return func() func(int) {
		prefixes := hosts(few, binary.LittleEndian)
		full, _ := trie(prefixes)
		return func(n int) {
			for range n {
				l := full
				for at := 0; at < few; at += batch {
					txn := l.Txn()
					for _, p := range prefixes[at : at+batch] {
						txn.Delete(lpm.NetIPPrefixToIndexKey(p))
					}
					if commit {
						l = txn.Commit()
					}
				}
			}
		}
	}
}

func lpmLookup() func(int) {
	l, keys := trie(hosts(few, binary.BigEndian))
	return func(n int) {
		for range n {
			for i, key := range keys {
				v, ok := l.Lookup(key)
				must(ok && v == i)
			}
		}
	}
}

// lpmIterate visits a range that has `count` of a thousand prefixes.
func lpmIterate(count int,
	of func(l *lpm.Trie[int], keys []index.Key) *lpm.Iterator[int]) func() func(int) {
	return func() func(int) {
		l, keys := trie(hosts(few, binary.BigEndian))
		return func(n int) {
			for range n {
				seen := 0
				for range of(&l, keys).All {
					seen++
				}
				must(seen == count)
			}
		}
	}
}

var prefixesFile = flag.String("prefixes", "", "a routing table, one prefix a line")

// internet is what that file has, in random order.
var internet = sync.OnceValue(func() (v []netip.Prefix) {
	file, err := os.Open(*prefixesFile)
	check(err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		v = append(v, netip.MustParsePrefix(lines.Text()))
	}
	return v
})

const (
	manyLookups = 1000000
	hotLookups  = 10000
)

func live() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Of internetBuild the bytes are those that the built trie keeps.
func internetBuild() func(int) {
	prefixes := internet()
	return func(n int) {
		for range n {
			clockStop()
			before := live()
			clockStart()
			l, _ := trie(prefixes)
			clockStop()
			clock.handled += len(prefixes)
			clock.kept = float64(live()-before) / float64(len(prefixes))
			must(l.Len() == len(prefixes))
			clockStart()
		}
	}
}

// address is one that a prefix covers, at random.
func address(p netip.Prefix) netip.Prefix {
	a := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(a)*8; bit++ {
		a[bit/8] |= byte(rand.Uint32()&1) << (7 - bit%8)
	}
	addr, _ := netip.AddrFromSlice(a)
	return netip.PrefixFrom(addr, len(a)*8)
}

func internetLookup(count int) func() func(int) {
	return func() func(int) {
		prefixes := internet()
		l, _ := trie(prefixes)
		keys := make([]index.Key, count)
		for i := range keys {
			keys[i] = lpm.NetIPPrefixToIndexKey(address(prefixes[rand.Intn(len(prefixes))]))
		}
		return func(n int) {
			for range n {
				for _, key := range keys {
					_, ok := l.Lookup(key)
					must(ok)
				}
			}
		}
	}
}

// internetFlap withdraws a route and announces it again, each a commit.
func internetFlap() func(int) {
	prefixes := internet()
	l, _ := trie(prefixes)
	return func(n int) {
		for i := range n {
			key := lpm.NetIPPrefixToIndexKey(prefixes[i%len(prefixes)])
			txn := l.Txn()
			txn.Delete(key)
			l = txn.Commit()
			txn = l.Txn()
			check(txn.Insert(key, i))
			l = txn.Commit()
		}
		must(l.Len() == len(prefixes))
	}
}

var lpmRows = []row{
	{name: "WriteTxn_100_LPMIndex", per: 100, make: writeTxn100LPM},
	{name: "WriteTxn_1_LPMIndex", per: manyRoutes, make: writeTxn1LPM},
	{name: "LPMIndex_Get", per: manyRoutes, make: lpmIndexGet},
	{name: "lpm_txn_insert_1", per: few, make: lpmInsert(1)},
	{name: "lpm_txn_insert_10", per: few, make: lpmInsert(10)},
	{name: "lpm_txn_insert_100", per: few, make: lpmInsert(100)},
	{name: "lpm_txn_insert_1_fresh", per: few, make: lpmFresh(1)},
	{name: "lpm_txn_insert_10_fresh", per: few, make: lpmFresh(10)},
	{name: "lpm_txn_insert_100_fresh", per: few, make: lpmFresh(100)},
	{name: "lpm_txn_delete_1", per: few, make: lpmDelete(1, false)},
	{name: "lpm_txn_delete_10", per: few, make: lpmDelete(10, false)},
	{name: "lpm_txn_delete_100", per: few, make: lpmDelete(100, false)},
	{name: "lpm_txn_delete_1_commit", per: few, make: lpmDelete(1, true)},
	{name: "lpm_txn_delete_10_commit", per: few, make: lpmDelete(10, true)},
	{name: "lpm_txn_delete_100_commit", per: few, make: lpmDelete(100, true)},
	{name: "lpm_Lookup", per: few, make: lpmLookup},
	{name: "lpm_All", per: few, make: lpmIterate(few,
		func(l *lpm.Trie[int], _ []index.Key) *lpm.Iterator[int] { return l.All() })},
	{name: "lpm_Prefix", per: few, make: lpmIterate(few,
		func(l *lpm.Trie[int], _ []index.Key) *lpm.Iterator[int] { return l.Prefix(allOf16) })},
	{name: "lpm_LowerBound", per: few / 2, make: lpmIterate(few/2,
		func(l *lpm.Trie[int], keys []index.Key) *lpm.Iterator[int] {
			return l.LowerBound(keys[few/2])
		})},
	{name: "internet_Build", per: 1, make: internetBuild, fixed: 1},
	{name: "internet_Lookup", per: manyLookups, make: internetLookup(manyLookups), fixed: 1},
	{name: "internet_Lookup_hot", per: hotLookups, make: internetLookup(hotLookups)},
	{name: "internet_Flap", per: 2, make: internetFlap},
}

var allOf16 = lpm.NetIPPrefixToIndexKey(netip.MustParsePrefix("0.0.0.0/16"))

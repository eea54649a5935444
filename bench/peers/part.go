package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand"

	"github.com/cilium/statedb/part"
)

// The benchmarks of part, the tree under StateDB's indexes. Those of its own that delete never
// commit; rows named _commit do.

func key8(k uint64) []byte { return binary.BigEndian.AppendUint64(nil, k) }
func key4(k uint32) []byte { return binary.BigEndian.AppendUint32(nil, k) }

// filled is a committed tree of the keys 0..n-1.
func filled(n int) part.Tree[int] {
	tree := part.New[int](part.RootOnlyWatch)
	txn := tree.Txn()
	for i := range n {
		txn.Insert(key8(uint64(i)), i)
	}
	return txn.CommitAndNotify()
}

func partInsert(opts ...part.Option) func() func(int) {
	return func() func(int) {
		return func(n int) {
			for range n {
				tree := part.New[int](opts...)
				txn := tree.Txn()
				for i := range few {
					txn.Insert(key4(uint32(few+i)), few+i)
				}
				txn.CommitAndNotify()
			}
		}
	}
}

func partWatchReplace() func(int) {
	keys := make([][]byte, few)
	tree := part.New[int]()
	txn := tree.Txn()
	for i := range keys {
		keys[i] = key8(uint64(i))
		txn.Insert(keys[i], i)
	}
	tree = txn.CommitAndNotify()
	return func(n int) {
		for range n {
			txn := tree.Txn()
			for i, key := range keys {
				txn.Insert(key, i)
			}
			tree = txn.CommitAndNotify()
		}
	}
}

func partModify(getInsert bool) func() func(int) {
	return func() func(int) {
		tree := part.New[int](part.RootOnlyWatch)
		keys := make([][]byte, few)
		for i := range keys {
			keys[i] = key4(uint32(few + i))
			_, _, tree = tree.Insert(keys[i], few+i)
		}
		return func(n int) {
			for range n {
				txn := tree.Txn()
				for _, key := range keys {
					if getInsert {
						v, _ := txn.Get(key)
						txn.Insert(key, v)
					} else {
						txn.Modify(key, 123, func(old, _ int) int { return old })
					}
				}
				tree = txn.CommitAndNotify()
			}
		}
	}
}

func partReplace(opts ...part.Option) func() func(int) {
	return func() func(int) {
		tree := part.New[int](opts...)
		txn := tree.Txn()
		for i := range few {
			txn.Insert(key4(uint32(few+i)), few+i)
		}
		key := key4(0)
		return func(n int) {
			for range n {
				txn.Insert(key, 0)
			}
		}
	}
}

func partTxn(batch int) func() func(int) {
	return func() func(int) {
		tree := part.New[int](part.RootOnlyWatch)
		return func(n int) {
			for range n {
				txn := tree.Txn()
				for i := range batch {
					txn.Insert(key8(uint64(i)), i)
				}
				tree = txn.CommitAndNotify()
			}
		}
	}
}

func partTxnFresh(batch int) func() func(int) {
	return func() func(int) {
		return func(n int) {
			for range n {
				tree := part.New[int](part.RootOnlyWatch)
				for at := 0; at < many; at += batch {
					txn := tree.Txn()
					for i := range batch {
						txn.Insert(key8(uint64(at+i)), i)
					}
					tree = txn.CommitAndNotify()
				}
			}
		}
	}
}

func partTxnDelete(batch int) func() func(int) {
	return func() func(int) {
		tree := filled(batch)
		return func(n int) {
			for range n {
				txn := tree.Txn()
				for i := range batch {
					txn.Delete(key8(uint64(i)))
				}
			}
		}
	}
}

// partDeleteCommit empties a tree of many keys in transactions of `batch`.
func partDeleteCommit(batch int, shuffled bool) func() func(int) {
	return func() func(int) {
		order := ids(many, shuffled)
		return func(n int) {
			for range n {
				clockStop()
				tree := filled(many)
				clockStart()
				for at := 0; at < many; at += batch {
					txn := tree.Txn()
					for _, k := range order[at : at+batch] {
						txn.Delete(key8(k))
					}
					tree = txn.CommitAndNotify()
				}
				must(tree.Len() == 0)
			}
		}
	}
}

func partDeleteRandom() func(int) {
	tree := filled(many)
	order := ids(many, true)
	return func(n int) {
		for range n {
			txn := tree.Txn()
			for _, k := range order {
				txn.Delete(key8(k))
			}
		}
	}
}

func partDeleteParentCache(depth int) func() func(int) {
	return func() func(int) {
		tree := part.New[int](part.RootOnlyWatch)
		txn := tree.Txn()
		for n := 1; n <= depth; n++ {
			txn.Insert(bytes.Repeat([]byte{'a'}, n), n)
		}
		tree = txn.CommitAndNotify()
		txn = tree.Txn()
		key := bytes.Repeat([]byte{'a'}, depth)
		return func(n int) {
			for range n {
				txn.Delete(key)
				txn.Insert(key, depth)
			}
		}
	}
}

// counted is a tree of the keys first..first+999, each its own value.
func counted(first uint64) part.Tree[uint64] {
	tree := part.New[uint64](part.RootOnlyWatch)
	for k := first; k < first+few; k++ {
		_, _, tree = tree.Insert(key8(k), k)
	}
	return tree
}

func partGet(watch bool) func() func(int) {
	return func() func(int) {
		tree := counted(0)
		var key [8]byte
		return func(n int) {
			for range n {
				for k := range uint64(few) {
					binary.BigEndian.PutUint64(key[:], k)
					if watch {
						v, _, _ := tree.GetWatch(key[:])
						must(v == k)
					} else {
						v, _ := tree.Get(key[:])
						must(v == k)
					}
				}
			}
		}
	}
}

func inRange(v uint64) { must(v >= 1 && v <= few) }

func partAll() func(int) {
	tree := counted(1)
	return func(n int) {
		for range n {
			for _, v := range tree.All {
				inRange(v)
			}
		}
	}
}

func partIteratorAll() func(int) {
	tree := counted(1)
	return func(n int) {
		for range n {
			for _, v := range tree.Iterator().All {
				inRange(v)
			}
		}
	}
}

func partIteratorNext() func(int) {
	tree := counted(1)
	return func(n int) {
		for range n {
			it := tree.Iterator()
			for _, v, ok := it.Next(); ok; _, v, ok = it.Next() {
				inRange(v)
			}
		}
	}
}

func partLowerBound() func(int) {
	tree := counted(1)
	return func(n int) {
		for range n {
			for k := uint64(1); k <= few; k++ {
				it := tree.LowerBound(key8(k))
				_, v, _ := it.Next()
				must(v == k)
			}
		}
	}
}

func partLowerBoundRandom() func(int) {
	tree := part.New[uint64](part.RootOnlyWatch)
	txn := tree.Txn()
	keys := randomKeys(many)
	for _, key := range keys {
		txn.Insert(key, binary.BigEndian.Uint64(key))
	}
	tree = txn.CommitAndNotify()
	return func(n int) {
		for range n {
			for _, key := range keys[:few] {
				it := tree.LowerBound(key)
				_, v, _ := it.Next()
				must(v == binary.BigEndian.Uint64(key))
			}
		}
	}
}

func randomKeys(n int) [][]byte {
	rng := rand.New(rand.NewSource(1))
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = key8(rng.Uint64())
	}
	return keys
}

func smallWriteTxn(batch int) func() func(int) {
	return func() func(int) {
		keys := randomKeys(24 * 1024)
		tree := part.New[int](part.RootOnlyWatch)
		txn := tree.Txn()
		for i, key := range keys {
			txn.Insert(key, i)
		}
		tree = txn.CommitAndNotify()
		next := 0
		return func(n int) {
			for i := range n {
				txn := tree.Txn()
				for j := range batch {
					txn.Insert(keys[(next+j*7919)%len(keys)], i)
				}
				tree = txn.CommitAndNotify()
				next = (next + batch) % len(keys)
			}
		}
	}
}

var partSink part.Tree[int]

func freshWriteTxn() func(int) {
	key := []byte("key")
	return func(n int) {
		for i := range n {
			tree := part.New[int](part.RootOnlyWatch)
			txn := tree.Txn()
			txn.Insert(key, i)
			partSink = txn.CommitAndNotify()
		}
	}
}

var partRows = []row{
	{name: "part_Insert_RootOnlyWatch", per: few, make: partInsert(part.RootOnlyWatch)},
	{name: "part_Insert", per: few, make: partInsert()},
	{name: "part_WatchReplace", per: few, make: partWatchReplace},
	{name: "part_Modify", per: few, make: partModify(false)},
	{name: "part_GetInsert", per: few, make: partModify(true)},
	{name: "part_Replace", per: 1, make: partReplace(part.RootOnlyWatch)},
	{name: "part_Replace_RootOnlyWatch", per: 1, make: partReplace()}, // named so in StateDB
	{name: "part_txn_1", per: 1, make: partTxn(1)},
	{name: "part_txn_10", per: 10, make: partTxn(10)},
	{name: "part_txn_100", per: 100, make: partTxn(100)},
	{name: "part_txn_1000", per: 1000, make: partTxn(1000)},
	{name: "part_txn_1_fresh", per: many, make: partTxnFresh(1)},
	{name: "part_txn_10_fresh", per: many, make: partTxnFresh(10)},
	{name: "part_txn_100_fresh", per: many, make: partTxnFresh(100)},
	{name: "part_txn_1000_fresh", per: many, make: partTxnFresh(1000)},
	{name: "part_txn_delete_1", per: 1, make: partTxnDelete(1)},
	{name: "part_txn_delete_10", per: 10, make: partTxnDelete(10)},
	{name: "part_txn_delete_100", per: 100, make: partTxnDelete(100)},
	{name: "part_txn_delete_1000", per: 1000, make: partTxnDelete(1000)},
	{name: "part_txn_delete_1_commit", per: many, make: partDeleteCommit(1, false)},
	{name: "part_txn_delete_10_commit", per: many, make: partDeleteCommit(10, false)},
	{name: "part_txn_delete_100_commit", per: many, make: partDeleteCommit(100, false)},
	{name: "part_txn_delete_1000_commit", per: many, make: partDeleteCommit(1000, false)},
	{name: "part_Get", per: few, make: partGet(false)},
	{name: "part_GetWatch", per: few, make: partGet(true)},
	{name: "part_All", per: few, make: partAll},
	{name: "part_Iterator_All", per: few, make: partIteratorAll},
	{name: "part_Iterator_Next", per: few, make: partIteratorNext},
	{name: "part_LowerBound", per: few, make: partLowerBound},
	{name: "part_LowerBound_Random", per: few, make: partLowerBoundRandom},
	{name: "part_Delete_Random", per: many, make: partDeleteRandom},
	{name: "part_Delete_Random_commit", per: many, make: partDeleteCommit(many, true)},
	{name: "part_DeleteParentCache_8", per: 1, make: partDeleteParentCache(8)},
	{name: "part_DeleteParentCache_100", per: 1, make: partDeleteParentCache(100)},
	{name: "part_SmallWriteTxn_1", per: 1, make: smallWriteTxn(1)},
	{name: "part_SmallWriteTxn_2", per: 2, make: smallWriteTxn(2)},
	{name: "part_SmallWriteTxn_4", per: 4, make: smallWriteTxn(4)},
	{name: "part_SmallWriteTxn_8", per: 8, make: smallWriteTxn(8)},
	{name: "part_SmallWriteTxn_16", per: 16, make: smallWriteTxn(16)},
	{name: "part_FreshWriteTxn", per: 1, make: freshWriteTxn},
}

// part.Map and part.Set. One that is set outside a transaction commits each time.

func mapKeys(shuffled bool) []uint64 {
	keys := ids(few, false)
	if shuffled {
		for i := range keys {
			keys[i] = rand.Uint64() >> 1
		}
	}
	return keys
}

func mapSet(random, get bool) func() func(int) {
	return func() func(int) {
		keys := mapKeys(random)
		return func(n int) {
			for range n {
				var m part.Map[uint64, int]
				for i, k := range keys {
					m = m.Set(k, i)
					if get {
						v, ok := m.Get(k)
						must(ok && v == i)
					}
				}
				must(m.Len() == few)
			}
		}
	}
}

func mapTxn[K any](keys []K) func(int) {
	return func(n int) {
		for range n {
			var m part.Map[K, int]
			txn := m.Txn()
			for i, k := range keys {
				txn.Set(k, i)
			}
			m = txn.Commit()
			must(m.Len() == few)
		}
	}
}

var setSink part.Set[[]byte]

var mapRows = []row{
	{name: "map_Random", per: few, make: mapSet(true, true)},
	{name: "map_Random_Insert", per: few, make: mapSet(true, false)},
	{name: "map_Random_Txn_Insert", per: few, make: func() func(int) {
		return mapTxn(mapKeys(true))
	}},
	{name: "map_Sequential", per: few, make: mapSet(false, true)},
	{name: "map_Sequential_Insert", per: few, make: mapSet(false, false)},
	{name: "map_Sequential_Txn_Insert", per: few, make: func() func(int) {
		return mapTxn(mapKeys(false))
	}},
	{name: "map_String_Txn_Insert", per: few, make: func() func(int) {
		keys := make([]string, few)
		for i := range keys {
			keys[i] = fmt.Sprintf("key-%d", i)
		}
		return mapTxn(keys)
	}},
	{name: "set_Singleton_Create", per: 1, make: func() func(int) {
		value := []byte("value")
		return func(n int) {
			for range n {
				setSink = part.NewSet(value)
			}
		}
	}},
	{name: "set_Singleton_Has", per: 1, make: func() func(int) {
		value := []byte("value")
		set := part.NewSet(value)
		return func(n int) {
			for range n {
				must(set.Has(value))
			}
		}
	}},
}
